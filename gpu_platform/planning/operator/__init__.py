"""Decide the release, the driver and every value of the GPU Operator."""

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
