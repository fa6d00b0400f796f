"""Decide the device classes and claims of Dynamic Resource Allocation, and check the DRA driver's requirements."""

from gpu_platform.planning.dra.checks import check
from gpu_platform.planning.dra.claims import plan

__all__ = ["check", "plan"]
