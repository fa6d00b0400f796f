"""Requirements of the kubelet's Topology Manager, which puts a pod's GPUs, whole CPUs and memory on the same NUMA
nodes.

kube-scheduler ignores NUMA nodes. It binds a pod to a node with enough resources in total, and the kubelet
then rejects the pod (`TopologyAffinityError`). The controller of a Job creates such pods again and again. The
policy `restricted` rejects a pod in these cases:
- Its GPUs are on more NUMA nodes than this number of GPUs needs.
- Its exclusive CPUs could be on fewer NUMA nodes than its GPUs, or need more NUMA nodes.
- With the static policy for memory, the same applies to its memory.

The hints of all resources must be equal, and each as narrow as possible. Exclusive CPUs are the whole CPUs of a
container in a Guaranteed pod, with the CPU manager's static policy.

The policy `single-numa-node` rejects a pod whose resources are not all on one NUMA node. The devices of a claim
have no hints. GPUs have no hints if the machine hides their NUMA node. Sources: kubernetes v1.36.3,
pkg/kubelet/cm: devicemanager/topology_hints.go (generateDeviceTopologyHints), cpumanager/policy_static.go
(generateCPUTopologyHints), memorymanager/policy_static.go (calculateHints), topologymanager/policy.go
(mergePermutation); read 2026-11-26.
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
    """The NUMA nodes of a node whose kubelet aligns the GPUs, CPUs and memory of pods.

    `gpus` contains the number of GPUs of each NUMA node that has GPUs. `count` is the number of all NUMA nodes.
    `cpus` and `memory_mib` are the CPUs and memory of each NUMA node. `memory_aligned` indicates whether the
    memory of Guaranteed pods is aligned too.
    """

    policy: Policy
    gpus: tuple[int, ...]
    count: int
    cpus: int
    memory_mib: int
    memory_aligned: bool = False

    def units(self, per_node: int) -> tuple[int, ...]:
        """Return the units of a resource on each NUMA node. Return an empty tuple if the GPUs do not all have the
        same number of units.
        """
        each, rest = divmod(per_node, sum(self.gpus))
        return () if rest or not each else tuple(each * gpus for gpus in self.gpus)


def numa_nodes(machine: MachineType | None, policy: str, *, memory_aligned: bool = False) -> NumaNodes | None:
    """Return the NUMA nodes to which the kubelet aligns pods.

    The result is None if the kubelet never rejects a pod for alignment, or if the NUMA nodes are not known.
    """
    if machine is None or machine.numa_nodes is None or policy not in ("restricted", "single-numa-node"):
        return None
    of_each = Counter(machine.numa_nodes)
    if len(of_each) == 1:
        return None
    count = max(of_each) + 1  # number of NUMA nodes with CPUs; NUMA nodes with only GPU memory have higher indices
    return NumaNodes(
        policy="restricted" if policy == "restricted" else "single-numa-node",
        gpus=tuple(of_each[node] for node in sorted(of_each)),
        count=count,
        cpus=machine.vcpu // count,
        memory_mib=machine.memory_mib // count,
        memory_aligned=memory_aligned,
    )


def of_pool(pool: PoolPlan, catalog: Catalog) -> NumaNodes | None:
    """Return the NUMA nodes to which the kubelet aligns pods on a pool's nodes, or None."""
    if pool.kubelet is None or pool.devices:
        return None
    machine = catalog.machine_types.get(pool.machine_type)
    aligned = pool.kubelet.memory_manager_policy == "Static"
    return numa_nodes(machine, pool.kubelet.topology_policy, memory_aligned=aligned)


def alignable_cpu(cpu: str, resource: str, units: int, pool: PoolPlan, catalog: Catalog) -> str:
    """Return the CPU request, as a Kubernetes quantity, for a Guaranteed pod with `units` of a pool's resource.

    If the kubelet could not align whole CPUs with the GPUs, the result is a thousandth of a CPU less, because
    fractional CPUs are not exclusive.
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
    """Return the maximum number of NUMA nodes across which a pod's GPU resources may be spread, or 0 if the
    kubelet always rejects the pod.
    """
    needed = fewest(units, parts) or 0
    return needed if policy == "restricted" or needed <= 1 else 0


def fewest(amount: int, parts: Sequence[int]) -> int | None:
    """Return the minimum number of entries of `parts` whose sum is at least `amount`, or None if the sum of all
    entries is smaller.
    """
    left = amount
    for number, part in enumerate(sorted(parts, reverse=True), start=1):
        left -= part
        if left <= 0:
            return number
    return None


def spreads(units: int, parts: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    """Return all ways to take `units` from at most `most` NUMA nodes. `parts` are the units on each NUMA node."""
    ways = product(*(range(min(units, part) + 1) for part in parts))
    return [way for way in ways if sum(way) == units and sum(one > 0 for one in way) <= most]
