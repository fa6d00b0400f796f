"""Decide whether pools are valid, and plan their nodes, labels, taints, resources and cloud settings."""

from gpu_platform.planning.pools.checks import check
from gpu_platform.planning.pools.ended import capacity_gaps, ended_capacity
from gpu_platform.planning.pools.pools import plan

__all__ = ["capacity_gaps", "check", "ended_capacity", "plan"]
