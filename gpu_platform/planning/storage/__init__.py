"""Decide the storage classes of an environment, and what of the cloud stands behind them."""

from gpu_platform.planning.storage.storage import check, plan, plan_one

__all__ = ["check", "plan", "plan_one"]
