"""Decide which active checks run on the nodes of each pool, with which pods, and what they must reach."""

from gpu_platform.planning.burn_in.burn_in import check, plan

__all__ = ["check", "plan"]
