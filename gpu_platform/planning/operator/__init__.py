"""Decide the GPU Operator's release, the driver that it installs, and all of its Helm values."""

from gpu_platform.planning.operator.allocation import allocation, allocation_decisions, check_allocation
from gpu_platform.planning.operator.checks import check
from gpu_platform.planning.operator.operator import plan
from gpu_platform.planning.operator.unrequested import UNREQUESTED, open_policies

__all__ = [
    "UNREQUESTED",
    "allocation",
    "allocation_decisions",
    "check",
    "check_allocation",
    "open_policies",
    "plan",
]
