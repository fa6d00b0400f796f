"""Renders a team's planned guide as Markdown, JSON, one HTML page, manifests and a ConfigMap."""

from gpu_platform.guide.document import config_map_data, guide_to_html, guide_to_json, guide_to_markdown
from gpu_platform.guide.live_guide import LiveGuide, read_live_guide
from gpu_platform.guide.manifests import manifests

__all__ = [
    "LiveGuide",
    "config_map_data",
    "guide_to_html",
    "guide_to_json",
    "guide_to_markdown",
    "manifests",
    "read_live_guide",
]
