"""The kubelet's device manager and CPU manager: the NUMA nodes of a pod's devices and CPUs.

The managers count the units of each NUMA node and do not track single units, because hints contain no more detail.
All NUMA nodes have equally large, consecutive ranges of the machine's CPUs, and the kubelet reserves the first
CPUs. There are no memory hints, because the sandbox's nodes have no static Memory Manager.

Source: kubernetes v1.36.3, pkg/kubelet/cm: topologymanager/scope_container.go, scope_pod.go;
devicemanager/manager.go (devicesToAllocate, filterByAffinity); cpumanager/policy_static.go (guaranteedCPUs,
podGuaranteedCPUs, allocateCPUs, updateCPUsToReuse), cpu_assignment.go (takeByTopologyNUMAPacked); read 2026-11-26.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kubernetes.utils.quantity import parse_quantity

from gpu_platform.base import names
from gpu_platform.catalog import MachineType
from sandbox.simulator.admission import TOPOLOGY, Rejection, allocation_error
from sandbox.simulator.allocatable import node_allocatable
from sandbox.simulator.device_plugin import NO_NUMA_NODE, Advertised
from sandbox.simulator.topology_manager import POLICIES, Hint, Policy, hints_of, merge

Units = Mapping[int, int]
"""Units of a resource on each NUMA node."""
Held = Mapping[str, Units]
"""Units that are allocated to one pod, by resource."""
Container = Mapping[str, Any]

_CPU: Final = "cpu"
_REFUSED: Final = Rejection(TOPOLOGY, "Resources cannot be allocated with Topology locality")


@dataclass(frozen=True, slots=True)
class AlignedNode:
    """A node whose kubelet has a Topology Manager policy.

    `present` contains all units of each resource by NUMA node. `usable` contains only healthy devices and
    unreserved CPUs.
    """

    policy: Policy
    scope: Literal["container", "pod"]
    present: Mapping[str, Units]
    usable: Mapping[str, Units]

    @property
    def numa_nodes(self) -> int:
        """Number of NUMA nodes with CPUs."""
        return len(self.present[_CPU])


def aligned_node(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    machine: MachineType,
    advertised: Mapping[str, Advertised],
) -> AlignedNode | None:
    """Return a node with the topology policy of its pool, or None if its kubelet does not use hints."""
    policy = POLICIES.get(labels.get(names.TOPOLOGY_POLICY_LABEL, ""))
    if policy is None:
        return None
    numa_nodes = max(machine.numa_nodes or (0,)) + 1
    each = machine.vcpu // numa_nodes
    reserved = -(-(machine.vcpu * 1000 - node_allocatable(machine).cpu_millicores) // 1000)
    cpus = dict.fromkeys(range(numa_nodes), each)
    return AlignedNode(
        policy=policy,
        scope="pod" if annotations.get(names.SANDBOX_TOPOLOGY_SCOPE_ANNOTATION) == "pod" else "container",
        present={_CPU: cpus} | {name: offer.numa for name, offer in advertised.items()},
        usable={_CPU: cpus | {0: each - reserved}}
        | {name: offer.healthy_numa for name, offer in advertised.items()},
    )


def admit(pod: Mapping[str, Any], node: AlignedNode, held: Iterable[Held]) -> Held | Rejection:
    """Return the units of each resource that the node allocates to a pod, or the pod's rejection.

    `held` contains the units that other pods hold.
    """
    allocation = _Allocation(node, held)
    spec = pod["spec"]
    init: Sequence[Container] = spec.get("initContainers") or ()
    containers: Sequence[Container] = spec["containers"]
    requests = [_requests(pod, container, node) for container in (*init, *containers)]
    restartable = [one.get("restartPolicy") == "Always" for one in init] + [True] * len(containers)
    of_pod: Hint | None = None
    if node.scope == "pod":
        of_pod, admitted = allocation.best_hint(_of_pod(requests, restartable))
        if not admitted:
            return _REFUSED
    for wanted, stays in zip(requests, restartable, strict=True):
        hint, admitted = (of_pod, True) if of_pod is not None else allocation.best_hint(wanted)
        if not admitted:
            return _REFUSED
        for resource, amount in wanted.items():
            if (error := allocation.take(resource, amount, hint.mask, stays=stays)) is not None:
                return allocation_error(error)
    return allocation.held


def _requests(pod: Mapping[str, Any], container: Container, node: AlignedNode) -> dict[str, int]:
    """Return the devices and exclusive CPUs that a container requests, in the order of their managers."""
    limits: Mapping[str, str] = container.get("resources", {}).get("limits") or {}
    wanted = {
        resource: int(parse_quantity(amount))
        for resource, amount in limits.items()
        if resource in node.present and resource != _CPU
    }
    guaranteed = pod["status"].get("qosClass") == "Guaranteed"
    # For pod-level resources, the CPU manager gives no hints (PodLevelResourceManagers is alpha).
    if guaranteed and not pod["spec"].get("resources"):
        cpus = parse_quantity(limits.get(_CPU, "0"))
        if cpus and cpus == int(cpus):
            wanted[_CPU] = int(cpus)
    return wanted


def _of_pod(requests: Sequence[Mapping[str, int]], stays: Sequence[bool]) -> Mapping[str, int]:
    """Return the requests of a whole pod. `stays` contains, for each container, whether it runs until the pod
    ends.
    """
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for wanted, beside in zip(requests, stays, strict=True):
        if beside:
            running.update(wanted)
        else:
            most |= running + Counter(wanted)
    return most | running


class _Allocation:
    """The devices and CPUs that a node allocates to one pod, container by container."""

    def __init__(self, node: AlignedNode, held: Iterable[Held]) -> None:
        self._node = node
        self._free = {resource: Counter(units) for resource, units in node.usable.items()}
        for one in held:
            for resource, units in one.items():
                if resource in self._free:
                    self._free[resource] -= Counter(units)
        self._reusable: dict[str, Counter[int]] = {}
        self.held: dict[str, Counter[int]] = {}

    def best_hint(self, wanted: Mapping[str, int]) -> tuple[Hint, bool]:
        """Return the best hint for a request, and whether the policy admits the container or pod."""
        hints = [self._hints(resource, amount) for resource, amount in wanted.items()]
        return merge(self._node.policy, self._node.numa_nodes, hints)

    def _hints(self, resource: str, amount: int) -> Sequence[Hint] | None:
        units = self._node.present[resource]
        present = {node: units[node] for node in units if node != NO_NUMA_NODE}
        if not present:
            return None
        return hints_of(amount, present, self._free[resource], self._reusable.get(resource, {}))

    def take(self, resource: str, amount: int, mask: int | None, *, stays: bool) -> str | None:
        """Allocate units to a container, first from the NUMA nodes in the mask. Return an error if too few units
        are free.

        `stays` is true if the container may run together with later containers. Otherwise, later containers can
        reuse the units.
        """
        free, reusable = self._free[resource], self._reusable.setdefault(resource, Counter())
        used, new = Counter[int](), Counter[int]()
        _move(reusable, used, amount, [node for node, units in reusable.items() if units])
        left = amount - used.total()
        if left > free.total():
            return _too_few(resource, left, free.total())
        while left:
            node = min((one for one, units in free.items() if units), key=self._order(resource, left, mask))
            left -= _move(free, new, left, [node])
        self.held[resource] = self.held.get(resource, Counter()) + new
        if not stays:
            reusable.update(used + new)
        return None

    def _order(self, resource: str, left: int, mask: int | None) -> Callable[[int], tuple[bool, bool, int, int]]:
        """Return a sort key for NUMA nodes: first nodes in the mask, then unused nodes (only for CPUs), then nodes
        with the fewest free units.
        """
        free, present = self._free[resource], self._node.present[resource]

        def place(node: int) -> tuple[bool, bool, int, int]:
            aligned = node != NO_NUMA_NODE and (mask is None or bool(mask >> node & 1))
            whole = resource == _CPU and free[node] == present[node] <= left
            return (not aligned, not whole, free[node], node)

        return place


def _move(source: Counter[int], target: Counter[int], most: int, nodes: Iterable[int]) -> int:
    """Move at most `most` units from the given NUMA nodes, one node after another, and return the number of moved
    units.
    """
    moved = 0
    for node in nodes:
        units = min(source[node], most - moved)
        source[node] -= units
        target[node] += units
        moved += units
    return moved


def _too_few(resource: str, wanted: int, available: int) -> str:
    if resource == _CPU:
        return f"not enough cpus available to satisfy request: requested={wanted}, available={available}"
    return f"requested number of devices unavailable for {resource}. Requested: {wanted}, Available: {available}"
