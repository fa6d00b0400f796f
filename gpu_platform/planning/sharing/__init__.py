"""Decide how the GPUs of each pool are shared. The modes are whole GPUs, time-slicing, MPS, MIG and DRA."""

from gpu_platform.planning.sharing.named import ResolvedPool, plan

__all__ = ["ResolvedPool", "plan"]
