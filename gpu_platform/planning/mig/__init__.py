"""Decide which MIG layouts a GPU can hold, and the minimum number of GPUs for a demand."""

from gpu_platform.planning.mig.geometry import check_layout, place
from gpu_platform.planning.mig.solve import solve_mig

__all__ = ["check_layout", "place", "solve_mig"]
