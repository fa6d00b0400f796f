"""Decide the storage classes of an environment, and the cloud resources that they need."""

from gpu_platform.planning.storage.storage import check, plan, plan_one

__all__ = ["check", "plan", "plan_one"]
