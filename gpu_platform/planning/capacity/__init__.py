"""Capacity: whether quotas can be honoured together, with the placement or the conflict, and what is wasted."""

from gpu_platform.planning.capacity.nodes import NodeCapacity, PodGroup
from gpu_platform.planning.capacity.proof import PodsOnNode, Proof, prove
from gpu_platform.planning.capacity.report import CapacityReport, Honoured, report_capacity
from gpu_platform.planning.capacity.waste import PoolUse

__all__ = [
    "CapacityReport",
    "Honoured",
    "NodeCapacity",
    "PodGroup",
    "PodsOnNode",
    "PoolUse",
    "Proof",
    "prove",
    "report_capacity",
]
