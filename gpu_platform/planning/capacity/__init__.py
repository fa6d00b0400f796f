"""Decide whether all team quotas fit on the nodes, with a placement or a conflict as proof, and report wasted
GPUs.
"""

from gpu_platform.planning.capacity.nodes import NodeCapacity, PodGroup
from gpu_platform.planning.capacity.proof import PodsOnNode, Proof, prove
from gpu_platform.planning.capacity.quota_fit import CapacityReport, QuotaFit, report_capacity
from gpu_platform.planning.capacity.waste import PoolUse

__all__ = [
    "CapacityReport",
    "NodeCapacity",
    "PodGroup",
    "PodsOnNode",
    "PoolUse",
    "Proof",
    "QuotaFit",
    "prove",
    "report_capacity",
]
