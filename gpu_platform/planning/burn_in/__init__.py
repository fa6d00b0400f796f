"""Decide which active checks run on the nodes of each pool, in which pods, and which minimum bandwidths pass."""

from gpu_platform.planning.burn_in.burn_in import PRIORITY_CLASS, check, plan

__all__ = ["PRIORITY_CLASS", "check", "plan"]
