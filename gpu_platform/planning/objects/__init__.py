"""Decide the labels and annotations of the program's objects, and the registries and pull secrets of its pods."""

from gpu_platform.planning.objects.images import mirrored
from gpu_platform.planning.objects.objects import check, plan, plan_one

__all__ = ["check", "mirrored", "plan", "plan_one"]
