"""Decide which MIG layouts fit on a GPU, and the minimum number of GPUs for requested instances."""

from gpu_platform.planning.mig.geometry import check_layout, place
from gpu_platform.planning.mig.solve import solve_mig

__all__ = ["check_layout", "place", "solve_mig"]
