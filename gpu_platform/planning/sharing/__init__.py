"""Decide how the GPUs of each pool are shared: whole, time-slicing, MPS, MIG or DRA."""

from gpu_platform.planning.sharing.named import ResolvedPool, plan

__all__ = ["ResolvedPool", "plan"]
