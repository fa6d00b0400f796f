"""Requirements of the kubelet's Topology Manager on a pod: GPUs, whole CPUs and memory of the same NUMA nodes.

kube-scheduler does not know NUMA nodes: it binds a pod to a node with enough of all, and the kubelet then refuses
it (`TopologyAffinityError`), again and again for the pods of a Job. Policy `restricted` refuses a pod

- whose GPUs are not on as few NUMA nodes as so many GPUs can be on;
- whose exclusive CPUs (the CPU manager's static policy: whole CPUs of a container of a Guaranteed pod), or, with
  static memory, whose memory, could be on fewer NUMA nodes than its GPUs, or needs more of them: the hints of all
  must be equal and each as narrow as possible.

`single-numa-node` refuses what is not on one. Sources: kubernetes v1.36.3, pkg/kubelet/cm:
devicemanager/topology_hints.go (generateDeviceTopologyHints), cpumanager/policy_static.go
(generateCPUTopologyHints), memorymanager/policy_static.go (calculateHints), topologymanager/policy.go
(mergePermutation); read 2026-11-26. A claim's devices have no hints, and neither have GPUs whose NUMA node the
machine hides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.catalog import Catalog
from gpu_platform.catalog.models import MachineType
from gpu_platform.planning.pools.section import PoolPlan

Policy = Literal["restricted", "single-numa-node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNodes:
    """NUMA nodes of a node whose kubelet aligns the GPUs, CPUs and memory of pods.

    `gpus`: of each NUMA node that has any; `count`: all NUMA nodes; `cpus` and `memory_mib` of each one, all that
    there are; `memory_aligned`: whether the memory of Guaranteed pods is aligned, too.
    """

    policy: Policy
    gpus: tuple[int, ...]
    count: int
    cpus: int
    memory_mib: int
    memory_aligned: bool = False

    def units(self, per_node: int) -> tuple[int, ...]:
        """Return the units of a resource by NUMA node; empty where GPUs have different numbers of them."""
        each, rest = divmod(per_node, sum(self.gpus))
        return () if rest or not each else tuple(each * gpus for gpus in self.gpus)


def numa_nodes(machine: MachineType | None, policy: str, *, memory_aligned: bool = False) -> NumaNodes | None:
    """Return the NUMA nodes that the kubelet aligns pods with; None: it refuses no pod, or they are not known."""
    if machine is None or machine.numa_nodes is None or policy not in ("restricted", "single-numa-node"):
        return None
    of_each = Counter(machine.numa_nodes)
    if len(of_each) == 1:
        return None
    count = max(of_each) + 1  # those of the CPUs; the memory of GPUs that is one, too, comes after them
    return NumaNodes(
        policy="restricted" if policy == "restricted" else "single-numa-node",
        gpus=tuple(of_each[node] for node in sorted(of_each)),
        count=count,
        cpus=machine.vcpu // count,
        memory_mib=machine.memory_mib // count,
        memory_aligned=memory_aligned,
    )


def of_pool(pool: PoolPlan, catalog: Catalog) -> NumaNodes | None:
    """Return the NUMA nodes that the kubelet of a pool's nodes aligns pods with."""
    if pool.kubelet is None or pool.devices:
        return None
    machine = catalog.machine_types.get(pool.machine_type)
    aligned = pool.kubelet.memory_manager_policy == "Static"
    return numa_nodes(machine, pool.kubelet.topology_policy, memory_aligned=aligned)


def alignable_cpu(cpu: str, resource: str, units: int, pool: PoolPlan, catalog: Catalog) -> str:
    """Return the CPUs of a Guaranteed pod with so many units of a resource of a pool, a Kubernetes quantity.

    A thousandth less than whole CPUs that the kubelet could not align with its GPUs: those are not exclusive.
    """
    nodes = of_pool(pool, catalog) if units else None
    cpus = parse_quantity(cpu)
    if nodes is None or cpus != int(cpus):
        return cpu
    parts = nodes.units(pool.units_per_node.get(resource, 0))
    if fewest(int(cpus), (nodes.cpus,) * nodes.count) == fewest(units, parts):
        return cpu
    return f"{int(cpus) * 1000 - 1}m"


def most_parts(units: int, parts: Sequence[int], policy: Policy) -> int:
    """Return on how many NUMA nodes the units of a pod may be; 0: the kubelet always refuses it."""
    needed = fewest(units, parts) or 0
    return needed if policy == "restricted" or needed <= 1 else 0


def fewest(amount: int, parts: Sequence[int]) -> int | None:
    """Return the fewest parts that have an amount together; None: all parts together have less."""
    left = amount
    for number, part in enumerate(sorted(parts, reverse=True), start=1):
        left -= part
        if left <= 0:
            return number
    return None


def spreads(units: int, parts: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    """Return each way to take units of the parts, on at most so many of them."""
    ways = product(*(range(min(units, part) + 1) for part in parts))
    return [way for way in ways if sum(way) == units and sum(one > 0 for one in way) <= most]
