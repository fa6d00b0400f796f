"""Decide the release, the driver and every value of the GPU Operator."""

from gpu_platform.planning.operator.allocation import allocation, allocation_decisions, check_allocation
from gpu_platform.planning.operator.checks import check
from gpu_platform.planning.operator.operator import plan

__all__ = ["allocation", "allocation_decisions", "check", "check_allocation", "plan"]
