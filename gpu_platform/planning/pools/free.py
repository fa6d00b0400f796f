"""Resources of an empty node for team pods: its allocatable resources minus the requests of DaemonSets.

Every calculation about nodes (check, capacity, suggest, place, rehearse, queue quotas and pod sizes) uses this
module. The DaemonSets come from the plan (`PoolPlan.daemonsets`). For a machine type without a pool, these are all
DaemonSets that its cloud may install. Only the node agent runs on nodes that the program creates as Node objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final, NamedTuple

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.daemonsets import DaemonSet, most_of
from gpu_platform.planning.clouds.vendors import DEFAULT_MAX_PODS, kubelet_pods
from gpu_platform.planning.nodes.allocatable import NodeResources, allocatable
from gpu_platform.planning.pools.section import PoolPlan

HUGE_PAGES: Final = "hugepages-2Mi"


class FreeNode(NamedTuple):
    """CPU in millicores, memory in MiB and the number of pods that are left for teams on an empty node."""

    cpu_millicores: int
    memory_mib: int
    pods: int


def free_node(pool: PoolPlan, catalog: Catalog) -> FreeNode:
    """Return the free resources of an empty node in a pool."""
    resources = free_resources(pool)
    machine = None if pool.nodes.ownership == "created" else catalog.machine_types.get(pool.machine_type)
    return FreeNode(resources.cpu_millicores, resources.memory_mib, _free_pods(machine, pool.daemonsets))


def free_resources(pool: PoolPlan) -> NodeResources:
    """Return the free CPU and memory of an empty node in a pool."""
    return _less(NodeResources(pool.cpu_millicores, pool.memory_mib), pool.daemonsets, pool.huge_pages_mib)


def free_of_machine(machine: MachineType, *, huge_pages_mib: int = 0) -> FreeNode:
    """Return the resources that an empty node of a machine type offers to pods, regardless of the stack file.

    All DaemonSets that the cloud may install are subtracted. The result is cached per machine type, because the
    pool search needs it for every pair of pod and pool.
    """
    return _free_of_machine(machine, huge_pages_mib)


def free_with(machine: MachineType, daemonsets: Iterable[DaemonSet]) -> NodeResources:
    """Return the free CPU and memory of an empty node of a machine type on which the given DaemonSets run."""
    return _less(allocatable(machine), daemonsets, 0)


@cache
def _free_of_machine(machine: MachineType, huge_pages_mib: int) -> FreeNode:
    daemonsets = most_of(machine)
    left = _less(allocatable(machine), daemonsets, huge_pages_mib)
    return FreeNode(left.cpu_millicores, left.memory_mib, _free_pods(machine, daemonsets))


def _less(resources: NodeResources, daemonsets: Iterable[DaemonSet], huge_pages_mib: int) -> NodeResources:
    cpu = resources.cpu_millicores - sum(one.cpu_millicores for one in daemonsets)
    memory = resources.memory_mib - sum(one.memory_mib for one in daemonsets) - huge_pages_mib
    return NodeResources(max(0, cpu), max(0, memory))


def _free_pods(machine: MachineType | None, daemonsets: Iterable[DaemonSet]) -> int:
    """Return the number of pods that teams can run on a node: the kubelet's limit minus the pods of DaemonSets."""
    most = kubelet_pods(machine) if machine is not None else DEFAULT_MAX_PODS
    return max(0, most - sum(one.pods for one in daemonsets))
