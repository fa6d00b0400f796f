"""Decide whether all pods can run on the nodes at once, with a placement as proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any, Literal

from gpu_platform.base.solver import new_solver
from gpu_platform.planning.capacity.nodes import NodeCapacity, PodGroup
from gpu_platform.planning.nodes.allocatable import NodeResources
from gpu_platform.planning.pools import numa

Verdict = Literal["placed", "impossible", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsOnNode:
    """The pods of one group on one node of a pool. Nodes are numbered from 0."""

    group: PodGroup
    pool: str
    node: int
    pods: int

    @property
    def need(self) -> NodeResources:
        """CPU and memory of one pod."""
        return self.group.needs[self.pool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The result of a placement test.

    The verdict `placed` means that every pod has a node. `impossible` means that no placement exists. `unknown`
    means that no placement was found in time. Unless the verdict is `placed`, `pods` are the pods that a greedy
    packing placed.
    """

    verdict: Verdict
    pods: tuple[PodsOnNode, ...]


def prove(capacities: Sequence[NodeCapacity], groups: Sequence[PodGroup], *, seconds: float = 10.0) -> Proof:
    """Return whether all pods fit on the nodes at once, given the units, CPU, memory and number of pods of each
    node.

    If the kubelet aligns pods to NUMA nodes, the units of each pod must be on as few NUMA nodes as possible.

    A greedy packing often suffices. Otherwise OR-tools CP-SAT decides, on one thread, so that the same input
    always has the same result. After `seconds` the verdict is `unknown`.
    """
    placed, left = _fill(capacities, groups)
    if not left:
        return Proof(verdict="placed", pods=placed)
    if any(
        _asked(groups, name) > _offered(capacities, groups, name) for name in {group.resource for group in groups}
    ):
        return Proof(verdict="impossible", pods=placed)
    alike = _merged(groups)
    kinds = [replace(one[0], count=sum(group.count for group in one)) for one in alike]
    verdict, found = _search(capacities, kinds, seconds)
    if verdict != "placed":
        return Proof(verdict=verdict, pods=placed)
    by_kind = [[place for place in found if place.group is kind] for kind in kinds]
    pods = [place for one, places in zip(alike, by_kind, strict=True) for place in _distributed(places, one)]
    return Proof(verdict=verdict, pods=tuple(pods))


def _merged(groups: Sequence[PodGroup]) -> list[list[PodGroup]]:
    """Combine groups with equal requests, so that the search does not need to distinguish many teams."""
    found: dict[object, list[PodGroup]] = {}
    for group in groups:
        key = (group.resource, group.units, frozenset(group.needs.items()))
        found.setdefault(key, []).append(group)
    return list(found.values())


def _distributed(places: Sequence[PodsOnNode], groups: Sequence[PodGroup]) -> Iterator[PodsOnNode]:
    """Divide the placed pods of a merged group among its original groups, one group after another."""
    rest = list(places)
    for group in groups:
        left = group.count
        while left:
            place = rest.pop()
            pods = min(left, place.pods)
            yield replace(place, group=group, pods=pods)
            left -= pods
            if place.pods > pods:
                rest.append(replace(place, pods=place.pods - pods))


def _asked(groups: Sequence[PodGroup], resource: str) -> int:
    return sum(group.units * group.count for group in groups if group.resource == resource)


def _offered(capacities: Sequence[NodeCapacity], groups: Sequence[PodGroup], resource: str) -> int:
    allowed = {pool for group in groups if group.resource == resource for pool in group.needs}
    return sum(
        capacity.units.get(resource, 0) * capacity.count for capacity in capacities if capacity.pool in allowed
    )


class _Node:
    """Free resources of one node during the placement of pods."""

    def __init__(self, capacity: NodeCapacity, number: int) -> None:
        self.pool, self.number = capacity.pool, number
        self.units = dict(capacity.units)
        # Fraction of a GPU per unit, if units of several device classes share GPUs.
        self.parts = {name: Fraction(capacity.gpus, count) for name, count in capacity.units.items() if count}
        self.gpus = Fraction(capacity.gpus)
        self.cpu, self.memory = capacity.cpu_millicores, capacity.memory_mib
        self.pods = capacity.pods
        self._numa = capacity.numa
        # Free units of each NUMA node, for each resource that the kubelet aligns.
        self.parts_free: dict[str, list[int]] = {}
        if capacity.numa is not None:
            by_resource = {name: capacity.numa.units(count) for name, count in capacity.units.items()}
            self.parts_free = {name: list(parts) for name, parts in by_resource.items() if parts}
        self._parts_empty = {name: tuple(parts) for name, parts in self.parts_free.items()}

    def fitting(self, group: PodGroup) -> int:
        """Return how many more pods of a group a greedy packing places on the node."""
        fits = self.limit(group)
        if not fits or not group.units or group.resource not in self.parts_free:
            return fits
        free, most = list(self.parts_free[group.resource]), self.most_parts(group)
        return next((pods for pods in range(fits) if not _taken(free, group.units, most)), fits)

    def limit(self, group: PodGroup) -> int:
        """Return how many pods of a group would fit if their units could come from any NUMA nodes."""
        need = group.needs.get(self.pool)
        if need is None:
            return 0
        fits = [self.pods, self.units.get(group.resource, 0) // group.units if group.units else group.count]
        if part := self.parts.get(group.resource):
            fits.append(int(self.gpus // (part * group.units)))
        fits += [self.cpu // need.cpu_millicores] if need.cpu_millicores else []
        fits += [self.memory // need.memory_mib] if need.memory_mib else []
        return min(fits)

    def take(self, group: PodGroup, pods: int) -> None:
        need = group.needs[self.pool]
        self.pods -= pods
        if group.units:
            self.units[group.resource] -= group.units * pods
            if group.resource in self.parts_free:
                free, most = self.parts_free[group.resource], self.most_parts(group)
                for _ in range(pods):
                    _taken(free, group.units, most)
            self.gpus -= self.parts[group.resource] * group.units * pods
        self.cpu -= need.cpu_millicores * pods
        self.memory -= need.memory_mib * pods

    def most_parts(self, group: PodGroup) -> int:
        """Return the maximum number of NUMA nodes that may provide the units of one pod, or 0 if the pod cannot
        run on the node.
        """
        assert self._numa is not None  # noqa: S101 - asked for resources that are aligned
        return numa.most_parts(group.units, self._parts_empty[group.resource], self._numa.policy)

    def aligned(self, groups: Sequence[PodGroup]) -> set[str]:
        """Return the resources for which the kubelet limits how many NUMA nodes a pod's units may come from."""
        return {
            group.resource
            for group in groups
            if group.units > 1
            and self.pool in group.needs
            and (parts := self._parts_empty.get(group.resource)) is not None
            and self.most_parts(group) < len(parts)
        }

    def ways(self, group: PodGroup) -> list[tuple[int, ...]]:
        """Return every way to satisfy a pod's request with units from the NUMA nodes."""
        return numa.spreads(group.units, self._parts_empty[group.resource], self.most_parts(group))


def _taken(free: list[int], units: int, most: int) -> bool:
    """Take units from at most `most` NUMA nodes, and return whether enough units were free.

    Prefer the fullest NUMA node that has enough free units.
    """
    one = min((part for part in free if part >= units), default=None) if most else None
    chosen = [free.index(one)] if one is not None else sorted(range(len(free)), key=lambda i: -free[i])[:most]
    if sum(free[index] for index in chosen) < units:
        return False
    for index in sorted(chosen, key=lambda index: free[index]):
        taken = min(units, free[index])
        free[index] -= taken
        units -= taken
    return True


def _fill(capacities: Sequence[NodeCapacity], groups: Sequence[PodGroup]) -> tuple[tuple[PodsOnNode, ...], int]:
    """Place the hardest groups first, each on the fullest nodes with enough free resources. Return the placement
    and the number of pods that were not placed.
    """
    nodes = [_Node(capacity, number) for capacity in capacities for number in range(capacity.count)]
    placed: list[PodsOnNode] = []
    unplaced = 0
    for group in sorted(groups, key=_hardness):
        left = group.count
        for node in sorted(nodes, key=lambda node: node.units.get(group.resource, 0)):
            pods = min(left, node.fitting(group))
            if pods:
                node.take(group, pods)
                placed.append(PodsOnNode(group=group, pool=node.pool, node=node.number, pods=pods))
                left -= pods
        unplaced += left
    return tuple(placed), unplaced


def _hardness(group: PodGroup) -> tuple[int, int, int, str, str]:
    largest = max((need.cpu_millicores for need in group.needs.values()), default=0)
    return len(group.needs), -group.units, -largest, group.owner, group.name


def _add_parts(model: Any, node: _Node, held: Sequence[tuple[PodGroup, Any]]) -> None:  # noqa: ANN401 - a CpModel
    """Constrain the model so that each pod takes its units from the NUMA nodes in a way that the kubelet
    accepts.
    """
    free: list[list[Any]] = [[] for _ in node.parts_free[held[0][0].resource]]
    for group, pods in held:
        ways = [(way, model.new_int_var(0, group.count, "")) for way in node.ways(group)]
        model.add(sum(variable for _, variable in ways) == pods)
        for way, variable in ways:
            for index, units in enumerate(way):
                free[index].append(variable * units)
    for taken, units in zip(free, node.parts_free[held[0][0].resource], strict=True):
        model.add(sum(taken) <= units)


def _search(
    capacities: Sequence[NodeCapacity], groups: Sequence[PodGroup], seconds: float
) -> tuple[Verdict, tuple[PodsOnNode, ...]]:
    # Import OR-tools only here, because its import takes half a second.
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    nodes = [_Node(capacity, number) for capacity in capacities for number in range(capacity.count)]
    on_node: list[list[tuple[PodGroup, Any]]] = [[] for _ in nodes]
    places: list[tuple[PodGroup, _Node, Any]] = []
    for group in groups:
        pods: list[Any] = []
        for index, node in enumerate(nodes):
            most = min(group.count, node.limit(group))
            if most:
                variable = model.new_int_var(0, most, "")
                pods.append(variable)
                on_node[index].append((group, variable))
                places.append((group, node, variable))
        model.add(sum(pods) == group.count)
    for node, held in zip(nodes, on_node, strict=True):
        aligned = node.aligned([group for group, _ in held])
        for resource, units in node.units.items():
            of_it = [(group, pods) for group, pods in held if group.resource == resource]
            model.add(sum(pods * group.units for group, pods in of_it) <= units)
            if resource in aligned:
                _add_parts(model, node, of_it)
        # The solver needs whole numbers.
        scale = lcm(*(part.denominator for part in node.parts.values())) if node.gpus else 0
        if scale:
            taken = sum(
                pods * group.units * int(node.parts[group.resource] * scale) for group, pods in held if group.units
            )
            model.add(taken <= int(node.gpus * scale))
        model.add(sum(pods for _, pods in held) <= node.pods)
        model.add(sum(pods * group.needs[node.pool].cpu_millicores for group, pods in held) <= node.cpu)
        model.add(sum(pods * group.needs[node.pool].memory_mib for group, pods in held) <= node.memory)
    solver = new_solver(seconds)
    status = solver.solve(model)
    if solver.status_name(status) == "INFEASIBLE":
        return "impossible", ()
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return "unknown", ()
    return "placed", tuple(
        PodsOnNode(group=group, pool=node.pool, node=node.number, pods=solver.value(pods))
        for group, node, pods in places
        if solver.value(pods)
    )
