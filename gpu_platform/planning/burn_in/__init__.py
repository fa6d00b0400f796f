"""Decide the active checks for the nodes of each pool, their pods, and the minimum bandwidths that pass."""

from gpu_platform.planning.burn_in.burn_in import PRIORITY_CLASS, check, plan

__all__ = ["PRIORITY_CLASS", "check", "plan"]
