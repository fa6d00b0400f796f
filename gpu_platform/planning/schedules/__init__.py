"""Decide which quotas and workloads cannot be used while schedules keep pools off."""

from gpu_platform.planning.schedules.schedules import off_notices

__all__ = ["off_notices"]
