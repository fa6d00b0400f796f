"""Decide when nodes may be changed, and how many at a time."""

from gpu_platform.planning.maintenance.maintenance import check, plan, plan_window
from gpu_platform.planning.maintenance.window import window_text

__all__ = ["check", "plan", "plan_window", "window_text"]
