"""Capacity of nodes: resources available to pods, extended resources of each GPU, NUMA nodes, and a proof of
whether pods fit on nodes.
"""

from gpu_platform.planning.capacity.nodes import NodeCapacity, PodGroup
from gpu_platform.planning.capacity.proof import Proof, prove
from gpu_platform.planning.clouds.daemonsets import AGENT
from gpu_platform.planning.clouds.suggested import SuggestedNodes, most_nodes, pool_settings, with_working_fabric
from gpu_platform.planning.clouds.vendors import vendor_of
from gpu_platform.planning.cost import HOURS_PER_MONTH
from gpu_platform.planning.mig.layouts import largest_multisets
from gpu_platform.planning.nodes.allocatable import NodeResources
from gpu_platform.planning.pools import free, numa
from gpu_platform.planning.pools.free import HUGE_PAGES, free_node
from gpu_platform.planning.pools.numa import NumaNodes, fewest, numa_nodes
from gpu_platform.planning.sharing.sharing import mps_clients, units_of_gpu

__all__ = [
    "AGENT",
    "HOURS_PER_MONTH",
    "HUGE_PAGES",
    "NodeCapacity",
    "NodeResources",
    "NumaNodes",
    "PodGroup",
    "Proof",
    "SuggestedNodes",
    "fewest",
    "free",
    "free_node",
    "largest_multisets",
    "most_nodes",
    "mps_clients",
    "numa",
    "numa_nodes",
    "pool_settings",
    "prove",
    "units_of_gpu",
    "vendor_of",
    "with_working_fabric",
]
