"""Decide what of a stack is outdated or near the end of its support, and in which order to upgrade it."""

from gpu_platform.planning.upgrades.items import current_kubernetes, kubernetes_warnings, upgrade_items
from gpu_platform.planning.upgrades.steps import upgrade_steps

__all__ = [
    "current_kubernetes",
    "kubernetes_warnings",
    "upgrade_items",
    "upgrade_steps",
]
