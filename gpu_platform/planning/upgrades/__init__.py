"""Decide which software of a stack is outdated or near its end of support, and the order of its upgrades."""

from gpu_platform.planning.upgrades.items import current_kubernetes, kubernetes_warnings, upgrade_items
from gpu_platform.planning.upgrades.steps import upgrade_steps

__all__ = [
    "current_kubernetes",
    "kubernetes_warnings",
    "upgrade_items",
    "upgrade_steps",
]
