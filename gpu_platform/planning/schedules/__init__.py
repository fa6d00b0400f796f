"""Decide which quotas and workloads cannot be used while pools are off by their schedule."""

from gpu_platform.planning.schedules.schedules import off_notices

__all__ = ["off_notices"]
