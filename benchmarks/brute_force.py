"""Computes by brute force whether the pods of all quotas fit on the nodes of a small stack file.

The result is the verdict that `capacity` should give. The search tries every placement. The module neither calls
the planner nor reads its catalogue. It has its own copies of the machine types, the kubelet's reservations and the
quota rules, taken from the same sources as the planner's. It supports the stack file fields that
`random_stacks.py` writes.

A node has CPU, memory, a maximum number of pods, units of each GPU resource, EFA interfaces and huge pages. A pod
can request each of these. If the kubelet aligns pods, the GPUs of a pod are on as few NUMA nodes as possible. The
pods of a team run on any node with the GPU resource that they request, because team members may tolerate the
taints of a pool. Teams with the priority `training` use inference pools only if no other pool has the resource.

Sources: EC2 and Compute Engine documentation (machine types); awslabs/amazon-eks-ami (reserved CPU and memory,
pods); Google Cloud, "Plan GKE Standard node sizes"; NVIDIA MIG user guide (memory slices); docs/capacity.md (the
pods of a quota); read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from operator import sub
from typing import Any, Final, NamedTuple

GPU: Final = "nvidia.com/gpu"
SHARE: Final = "nvidia.com/gpu.shared"
MOST_STATES: Final = 30_000


class TooLarge(Exception):
    """The stack has more placements than the search can try."""


class Machine(NamedTuple):
    """A machine type, with memory in MiB. Only EC2 types have `interfaces` and `addresses` (IP addresses per
    interface).

    `numa` contains the number of GPUs on each NUMA node. It is empty if the numbers are unknown or if all GPUs are
    on one NUMA node.
    """

    vendor: str
    cores: int
    memory: int
    gpus: int = 0
    interfaces: int = 0
    addresses: int = 0
    efa: int = 0
    numa: tuple[int, ...] = ()


MACHINES: Final[Mapping[str, Machine]] = {
    "g4dn.xlarge": Machine("aws", 4, 16_384, 1, 3, 10),
    "g4dn.2xlarge": Machine("aws", 8, 32_768, 1, 3, 10),
    "g4dn.12xlarge": Machine("aws", 48, 196_608, 4, 8, 30, 1),
    "g5.xlarge": Machine("aws", 4, 16_384, 1, 4, 15),
    "g5.12xlarge": Machine("aws", 48, 196_608, 4, 15, 50, 1),
    "p4d.24xlarge": Machine("aws", 96, 1_179_648, 8, 15, 50, 4, (4, 4)),
    "m7i.xlarge": Machine("aws", 4, 16_384, 0, 4, 15),
    "m7i.2xlarge": Machine("aws", 8, 32_768, 0, 4, 15),
    "g2-standard-4": Machine("gcp", 4, 16_384, 1),
    "g2-standard-24": Machine("gcp", 24, 98_304, 2),
    "a2-highgpu-1g": Machine("gcp", 12, 87_040, 1),
    "a2-highgpu-2g": Machine("gcp", 24, 174_080, 2),
    "e2-standard-4": Machine("gcp", 4, 16_384),
    "dgx-a100-640gb": Machine("on-prem", 256, 2_097_152, 8, numa=(2, 2, 2, 2)),
}
MEMORY_SLICES: Final = {  # memory slices of each MIG profile; an A100 (40 GB or 80 GB) has 8 slices
    "1g.5gb": 1, "2g.10gb": 2, "3g.20gb": 4, "4g.20gb": 4, "7g.40gb": 8,
    "1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8,
}  # fmt: skip
_HUGE_PAGES: Final = 5128 * 2  # MiB of huge pages on a node with EFA
_HUGE_PAGES_OF_POD: Final = 5120


class Node(NamedTuple):
    """Free resources of a node. `units` contains the number of units of each resource in `_Fleet.resources`.

    If the kubelet aligns pods to NUMA nodes, `gpus` contains the number of GPUs on each NUMA node, and `numa` the
    number of these GPUs that are free.
    """

    pool: int
    cpu: int
    memory: int
    pods: int
    efa: int
    huge_pages: int
    units: tuple[int, ...]
    numa: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    single_numa: bool = False


class Pod(NamedTuple):
    """Requests of one pod. `pools` contains the CPU and memory request for each pool that the pod may run on."""

    resource: int | None
    units: int
    efa: int
    huge_pages: int
    pools: Mapping[int, tuple[int, int]]


def fits(stack: Mapping[str, Any]) -> str:
    """Return the correct verdict: `placed` if the pods of all quotas fit on the desired or the maximum number of
    nodes, otherwise `impossible`.

    Raises TooLarge if there are too many placements to try.
    """
    fleet = _Fleet(stack)
    pods = [pod for team in stack["teams"] for pod in fleet.pods_of(team)]
    desired = [pool["count"]["desired"] for pool in stack["pools"]]
    fixed = ["names" in pool.get("nodes", {}) for pool in stack["pools"]]
    most = [
        size if stays else pool["count"].get("max", size)
        for pool, size, stays in zip(stack["pools"], desired, fixed, strict=True)
    ]
    return "placed" if any(place_all(fleet.nodes(sizes), pods) for sizes in (desired, most)) else "impossible"


def has_units(stack: Mapping[str, Any]) -> bool:
    """Return whether the desired nodes have, in total, enough units of each resource for all pods, wherever the
    pods are placed.
    """
    fleet = _Fleet(stack)
    nodes = fleet.nodes([pool["count"]["desired"] for pool in stack["pools"]])
    pods = [pod for team in stack["teams"] for pod in fleet.pods_of(team)]
    return all(
        sum(pod.units for pod in pods if pod.resource == place) <= sum(node.units[place] for node in nodes)
        for place in range(len(fleet.resources))
    )


def empty_nodes(stack: Mapping[str, Any]) -> list[Node]:
    """Return one empty node of each pool."""
    return _Fleet(stack).empty


def place_all(nodes: Sequence[Node], pods: Sequence[Pod]) -> bool:
    """Return whether all pods fit, by trying every node for each pod. Equal states of the nodes are tried only
    once.
    """
    states = {tuple(sorted(nodes))}
    # Large pods, and pods that may run on few pools, are placed first.
    # This order leaves fewer states to try, and does not change the result.
    for pod in sorted(
        pods, key=lambda pod: (len(pod.pools), -pod.units, -max(pod.pools.values(), default=(0, 0))[0])
    ):
        states = {after for state in states for after in _put(state, pod)}
        if len(states) > MOST_STATES:
            raise TooLarge
    return bool(states)


def _put(nodes: tuple[Node, ...], pod: Pod) -> Iterator[tuple[Node, ...]]:
    for index, node in enumerate(nodes):
        left = _less(node, pod)
        if left is not None and node not in nodes[:index]:
            for aligned in _aligned(left, pod):
                yield tuple(sorted((*nodes[:index], aligned, *nodes[index + 1 :])))


def _aligned(node: Node, pod: Pod) -> Iterator[Node]:
    """Yield the resulting state of the node for each choice of GPUs that the kubelet accepts for the pod.

    The kubelet uses as few NUMA nodes as possible.

    Source: kubernetes, pkg/kubelet/cm/devicemanager/topology_hints.go and topologymanager, v1.36.3.
    """
    if not node.numa or not pod.units:
        yield node
        return
    places = range(len(node.gpus))
    masks = [mask for many in places for mask in combinations(places, many + 1)]
    least = min(len(mask) for mask in masks if sum(node.gpus[place] for place in mask) >= pod.units)
    if node.single_numa and least > 1:
        return
    for mask in masks:
        if len(mask) == least:
            for taken in product(*(range(node.numa[place] + 1 if place in mask else 1) for place in places)):
                if sum(taken) == pod.units:
                    yield node._replace(numa=tuple(map(sub, node.numa, taken)))


def _less(node: Node, pod: Pod) -> Node | None:
    if node.pool not in pod.pools:
        return None
    cpu, memory = pod.pools[node.pool]
    units = list(node.units)
    if pod.resource is not None:
        units[pod.resource] -= pod.units
    left = Node(
        node.pool,
        node.cpu - cpu,
        node.memory - memory,
        node.pods - 1,
        node.efa - pod.efa,
        node.huge_pages - pod.huge_pages,
        tuple(units),
        node.numa,
        node.gpus,
        node.single_numa,
    )
    return None if min(*left[1:6], *units, 0) < 0 else left


class _Fleet:
    """Nodes and pods of one stack file."""

    def __init__(self, stack: Mapping[str, Any]) -> None:
        self.provider: str = stack["cluster"]["provider"]
        self.pools: list[Mapping[str, Any]] = stack["pools"]
        self.offers = [_offers(pool) for pool in self.pools]
        self.resources = list(dict.fromkeys(name for offers in self.offers for name in offers))
        self.empty = [self._node(index) for index in range(len(self.pools))]

    def nodes(self, sizes: Sequence[int]) -> list[Node]:
        return [node for node, size in zip(self.empty, sizes, strict=True) for _ in range(size)]

    def _efa(self, pool: Mapping[str, Any]) -> int:
        wired = self.provider == "eks" and pool.get("network", {}).get("rdma", False)
        return MACHINES[pool["machine_type"]].efa if wired else 0

    def _node(self, index: int) -> Node:
        pool = self.pools[index]
        machine, efa = MACHINES[pool["machine_type"]], self._efa(pool)
        taken_cpu, taken_memory, taken_pods = _daemonsets(self.provider, machine, efa)
        cpu = machine.cores * 1000 - _reserved_cpu(machine.cores) - taken_cpu
        memory = machine.memory - _reserved_memory(machine) - 100 - taken_memory
        most = machine.interfaces * (machine.addresses - 1) + 2 if machine.vendor == "aws" else 110
        huge_pages = _HUGE_PAGES if efa else 0
        policy = self._topology_policy(pool, machine)
        numa = machine.numa if policy in ("restricted", "single-numa-node") else ()
        return Node(
            index,
            cpu,
            memory - huge_pages,
            (110 if self.provider == "sandbox" else most) - taken_pods,
            efa,
            huge_pages,
            tuple(self.offers[index].get(name, (0, 0))[0] for name in self.resources),
            numa,
            numa,
            policy == "single-numa-node",
        )

    def _topology_policy(self, pool: Mapping[str, Any], machine: Machine) -> str:
        """Return the kubelet's topology policy. On nodes with shared GPUs, a pod requests one unit and needs no
        alignment.
        """
        if pool.get("sharing", {"mode": "none"})["mode"] != "none":
            return "none"
        if "topology" in pool:
            return str(pool["topology"]["policy"])
        aligned = self.provider != "existing" and pool["workload"] == "training" and machine.gpus > 1
        return "restricted" if aligned else "none"

    def pods_of(self, team: Mapping[str, Any]) -> Iterator[Pod]:
        left = {
            self.resources.index(name): count for name, count in _quota(team).items() if name in self.resources
        }
        cpu, memory = _millicores(team["quota"].get("cpu")), _mib(team["quota"].get("memory"))
        for workload in team.get("workloads", ()):
            index = next(place for place, pool in enumerate(self.pools) if pool["name"] == workload["pool"])
            pod = self._declared(workload, index)
            own_cpu, own_memory = pod.pools[index]
            for _ in range(workload.get("replicas", 1)):
                cpu = None if cpu is None else max(0, cpu - own_cpu)
                memory = None if memory is None else max(0, memory - own_memory)
                if pod.resource is not None:
                    left[pod.resource] -= pod.units
                yield pod
        gpus = {resource: self._gpus_of_unit(resource) for resource, count in left.items() if count > 0}
        of_all = sum((gpus[resource] * left[resource] for resource in gpus), Fraction(0))
        for resource, each in gpus.items():
            part = each / of_all
            request = (500 if cpu is None else int(cpu * part), 1024 if memory is None else int(memory * part))
            pools = {index: self._at_most(request, index, resource) for index in self._serving(team, resource)}
            yield from [Pod(resource, 1, 0, 0, pools)] * left[resource]

    def _declared(self, workload: Mapping[str, Any], index: int) -> Pod:
        pool = self.pools[index]
        need = {index: (_millicores(workload.get("cpu", 1)) or 0, _mib(workload.get("memory", "4Gi")) or 0)}
        if not self.offers[index]:
            return Pod(None, 0, 0, 0, need)
        if pool.get("sharing", {}).get("mode", "none") == "none":
            units = workload.get("gpus", 1)
            # Pods that use all GPUs of a node also request EFA, to communicate with other nodes.
            efa = self._efa(pool) if units == MACHINES[pool["machine_type"]].gpus else 0
            return Pod(self.resources.index(GPU), units, efa, _HUGE_PAGES_OF_POD if efa else 0, need)
        profile = workload.get("profile")
        others = [name for name in self.offers[index] if name != GPU] or [GPU]
        named = [name for name in others if name.removesuffix(".shared") == f"nvidia.com/mig-{profile}"]
        return Pod(self.resources.index((named or others)[0]), 1, 0, 0, need)

    def _gpus_of_unit(self, resource: int) -> Fraction:
        """Return the number of GPUs in a unit of a resource, averaged over the pools that have the resource."""
        name = self.resources[resource]
        each = [offers[name][1] for offers in self.offers if name in offers]
        return sum(each, Fraction(0)) / len(each)

    def _at_most(self, request: tuple[int, int], index: int, resource: int) -> tuple[int, int]:
        """Return the request, limited to the unit's share of the node's CPU and memory.

        The share is the number of GPUs in the unit, divided by the number of GPUs on the node.
        """
        part = self.offers[index][self.resources[resource]][1] / MACHINES[self.pools[index]["machine_type"]].gpus
        node = self.empty[index]
        return min(request[0], int(node.cpu * part)), min(request[1], int(node.memory * part))

    def _serving(self, team: Mapping[str, Any], resource: int) -> list[int]:
        having = [index for index, offers in enumerate(self.offers) if self.resources[resource] in offers]
        refused = {"inference"} if team["priority"] == "training" else set[str]()
        return [index for index in having if self.pools[index]["workload"] not in refused] or having


def _offers(pool: Mapping[str, Any]) -> dict[str, tuple[int, Fraction]]:
    """Return, for each resource, the number of its units on a node and the number of GPUs in one unit."""
    gpus, sharing = MACHINES[pool["machine_type"]].gpus, pool.get("sharing", {"mode": "none"})
    if not gpus:
        return {}
    if sharing["mode"] == "none":
        return {GPU: (gpus, Fraction(1))}
    replicas = sharing.get("replicas", 1)
    if sharing["mode"] != "mig":
        return {SHARE: (gpus * replicas, Fraction(1, replicas))}
    units: dict[str, int] = {}
    held: dict[str, Fraction] = {}
    for gpu in range(gpus):
        layout = _layout(sharing, gpu)
        whole = sum(MEMORY_SLICES[profile] * count for profile, count in layout.items())
        for profile, count in layout.items():
            name = f"nvidia.com/mig-{profile}" + (".shared" if replicas > 1 else "")
            if sharing.get("strategy") == "single":
                name = SHARE if replicas > 1 else GPU
            units[name] = units.get(name, 0) + count * replicas
            held[name] = held.get(name, Fraction(0)) + Fraction(MEMORY_SLICES[profile] * count, whole)
        if not layout:
            units[GPU] = units.get(GPU, 0) + 1
            held[GPU] = held.get(GPU, Fraction(0)) + 1
    return {name: (count, held[name] / count) for name, count in units.items()}


def _layout(sharing: Mapping[str, Any], gpu: int) -> Mapping[str, int]:
    if "layout" in sharing:
        return sharing["layout"]
    nothing: Mapping[str, int] = {}
    return next((one["layout"] for one in sharing["layouts"] if gpu in one["devices"]), nothing)


def _quota(team: Mapping[str, Any]) -> dict[str, int]:
    quota = team["quota"]
    return {
        GPU: quota.get("gpus", 0),
        SHARE: quota.get("shared", 0),
        **{f"nvidia.com/mig-{profile}": count for profile, count in quota.get("mig", {}).items()},
        **{f"nvidia.com/mig-{profile}.shared": count for profile, count in quota.get("mig_shared", {}).items()},
    }


def _daemonsets(provider: str, machine: Machine, efa: int) -> tuple[int, int, int]:
    """Return the CPU (millicores) and memory (MiB) that DaemonSets request on a node, and the number of their
    pods.
    """
    found = [(50, 64, 1)]  # requests of the node agent
    if provider != "sandbox":
        found.append((100, 130, 2))  # allowance for the cluster owner's DaemonSets
    if (provider in ("eks", "gke") and machine.gpus) or provider == "existing":
        found.append((0, 0, 9))  # DaemonSets of the GPU Operator
    if provider == "eks" or (provider == "existing" and machine.vendor == "aws"):
        found += [(50, 0, 1), (100, 0, 1), (30, 120, 1), (0, 0, 1), (10, 30, 2)]  # add-ons
        if provider == "existing":
            found += [(0, 0, 1), (30, 104, 1), (10, 40, 1)]  # requests of a volume driver, if any
            found += [(100, 50, 1)] if machine.efa else []
        found += [(10, 20, 1)] if efa else []
    elif provider != "sandbox":
        found.append((344, 596, 11))
        if machine.vendor == "gcp" and (machine.gpus or provider == "existing"):
            found.append((150, 64, 1))  # requests of the driver installer
    cpu, memory, pods = (sum(column) for column in zip(*found, strict=True))
    return cpu, memory, pods


def _reserved_cpu(cores: int) -> int:
    """Return the reserved millicores: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of
    each further core.
    """
    return round(sum((60, 10, 5, 5)[:cores]) + max(0, cores - 4) * 2.5)


def _reserved_memory(machine: Machine) -> int:
    if machine.vendor == "aws":
        return 255 + 11 * (machine.interfaces * (machine.addresses - 1) + 2)
    if machine.vendor == "on-prem":
        return 255 + 11 * 110
    reserved, rest = 0.0, machine.memory
    for gib, share in ((4, 0.25), (4, 0.2), (8, 0.1), (112, 0.06)):
        reserved += share * min(rest, gib * 1024)
        rest -= min(rest, gib * 1024)
    return round(reserved + 0.02 * rest)


def _millicores(amount: str | int | None) -> int | None:
    if amount is None:
        return None
    text = str(amount)
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def _mib(amount: str | None) -> int | None:
    if amount is None:
        return None
    return int(amount[:-2]) * {"Mi": 1, "Gi": 1024}[amount[-2:]]
