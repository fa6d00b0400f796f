"""Decide which labels, annotations, registries and pull secrets the objects and pods of the program get."""

from gpu_platform.planning.objects.images import mirrored
from gpu_platform.planning.objects.objects import check, plan, plan_one

__all__ = ["check", "mirrored", "plan", "plan_one"]
