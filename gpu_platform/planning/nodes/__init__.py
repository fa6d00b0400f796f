"""Decide a node's CPU and memory for pods, and who installs its GPU software."""

from gpu_platform.planning.nodes.allocatable import allocatable
from gpu_platform.planning.nodes.software import branch_of, driver_version, node_software

__all__ = ["allocatable", "branch_of", "driver_version", "node_software"]
