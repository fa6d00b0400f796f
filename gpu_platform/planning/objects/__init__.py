"""Decide the labels, annotations, registries and pull secrets for the program's objects and pods."""

from gpu_platform.planning.objects.images import mirrored
from gpu_platform.planning.objects.objects import check, plan, plan_one

__all__ = ["check", "mirrored", "plan", "plan_one"]
