"""What a node of a pool leaves for pods of teams: allocatable less what DaemonSets request.

Every question about nodes (check, capacity, suggest, place) uses this. Nodes that the program creates as objects
run the node agent alone. Elsewhere DaemonSets of GKE request up to 344m and 596 MiB, of EKS 195m and 250 MiB, and
a node agent or log collector comes to it.
Source: 2i2c-org/infrastructure, daemonset_requests.yaml, read 2026-11-23.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.vendors import DEFAULT_MAX_PODS, EFA_HUGE_PAGES_MIB, eks_max_pods
from gpu_platform.planning.nodes.allocatable import NodeResources
from gpu_platform.planning.pools.section import PoolPlan

DAEMONSETS_MILLICORES: Final = 500
DAEMONSETS_MIB: Final = 660
DAEMONSETS_PODS: Final = 18
"""Pods of DaemonSets on a GPU node: the operator's operands and those of the cloud."""
AGENT_MILLICORES: Final = 50
AGENT_MIB: Final = 64
HUGE_PAGES: Final = "hugepages-2Mi"


class FreeNode(NamedTuple):
    """CPU in millicores, memory in MiB and pods that are left for teams on an empty node."""

    cpu_millicores: int
    memory_mib: int
    pods: int


def free_node(pool: PoolPlan, catalog: Catalog) -> FreeNode:
    """Return what is free on an empty node of a pool."""
    resources = free_resources(pool)
    created = pool.nodes.ownership == "created"
    machine = catalog.machine_types.get(pool.machine_type)
    pods = DEFAULT_MAX_PODS - 1 if created else free_pods(machine)
    return FreeNode(resources.cpu_millicores, resources.memory_mib, pods)


def free_resources(pool: PoolPlan) -> NodeResources:
    """Return the CPU and memory that are free on an empty node of a pool."""
    if pool.nodes.ownership == "created":
        return NodeResources(max(0, pool.cpu_millicores - AGENT_MILLICORES), max(0, pool.memory_mib - AGENT_MIB))
    return less_daemonsets(NodeResources(pool.cpu_millicores, pool.memory_mib), huge_pages_mib(pool))


def less_daemonsets(resources: NodeResources, huge_pages_mib: int) -> NodeResources:
    """Return what DaemonSets and huge pages leave of a node that a cloud or its owner makes."""
    cpu = resources.cpu_millicores - DAEMONSETS_MILLICORES
    memory = resources.memory_mib - DAEMONSETS_MIB - huge_pages_mib
    return NodeResources(max(0, cpu), max(0, memory))


def free_pods(machine: MachineType | None) -> int:
    """Return the pods that teams can run on a node: the kubelet's limit less the DaemonSets."""
    most = eks_max_pods(machine) if machine is not None and machine.vendor == "aws" else DEFAULT_MAX_PODS
    return max(0, most - DAEMONSETS_PODS)


def huge_pages_mib(pool: PoolPlan) -> int:
    """Return the memory of a node that only pods with huge pages can use."""
    if pool.cloud is None or pool.nodes.ownership == "created":
        return 0
    return (
        EFA_HUGE_PAGES_MIB if HUGE_PAGES in pool.cloud.pod_requests(pool.gpus_per_node, pool.gpus_per_node) else 0
    )
