"""Find the smallest set of quotas that do not fit on the nodes together, and the resources that the nodes lack.

The owner of a quota is a team. A conflict is a set of owners whose quotas do not fit together. Removing owners one
after another leads to a conflict that needs each of its owners. Minimum hitting sets prove that no smaller
conflict exists, because every conflict contains an owner outside each set of owners whose pods can be placed
(Ignatiev et al., "Smallest MUS Extraction with Minimal Hitting Set Dualization", CP 2015). A cheaper proof
sometimes suffices: if the largest pods of each kind can be placed for any `n` owners, no conflict has `n` owners.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu_platform.base.solver import new_solver
from gpu_platform.planning.capacity.nodes import NodeCapacity, PodGroup
from gpu_platform.planning.capacity.proof import Verdict, prove
from gpu_platform.planning.nodes.allocatable import NodeResources

_ROUNDS = 60
"""Maximum number of sets to test when proving that a conflict is the smallest."""
_PATIENCE = 3
"""Time limit for all placement tests together, as a multiple of the limit for one test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Owners whose quotas do not fit on the nodes together, and the resources that the nodes lack.

    `minimal` is True if the pods of the remaining owners can be placed whichever owner is left out. `smallest` is
    True if no other conflict has fewer owners. Both are False if there is no proof.
    """

    owners: tuple[str, ...]
    lacking: tuple[str, ...]
    minimal: bool
    smallest: bool


def smallest_conflict(
    capacities: Sequence[NodeCapacity], groups: Sequence[PodGroup], *, seconds: float = 5.0
) -> Conflict | None:
    """Return the smallest set of owners whose pods cannot all be placed. Return None if no such set is proven to
    exist.

    `seconds` limits each placement test. All tests together may take three times as long.
    """
    can_place = _PlacementTest(capacities, groups, seconds)
    everyone = frozenset(group.owner for group in groups)
    if can_place(everyone) != "impossible":
        return None
    resources = tuple(dict.fromkeys(group.resource for group in groups))
    found = min((_without_the_small(everyone, can_place, of) for of in (resources, *zip(resources))), key=len)
    minimal = smallest = can_place.any_can_be_placed(len(found) - 1)
    if not smallest:
        found, minimal = _deleted(found, can_place)
        found, smallest = _smallest(everyone, found, can_place) if minimal else (found, False)
    held = [group for group in groups if group.owner in found]
    order = dict.fromkeys(group.owner for group in groups)
    return Conflict(
        owners=tuple(owner for owner in order if owner in found),
        lacking=_lacking(capacities, held, seconds),
        minimal=minimal,
        smallest=smallest,
    )


class _PlacementTest:
    """A test of whether the pods of a set of owners can be placed. Each set is tested only once."""

    def __init__(self, capacities: Sequence[NodeCapacity], groups: Sequence[PodGroup], seconds: float) -> None:
        self._capacities, self._groups, self._seconds = capacities, groups, seconds
        self._deadline = time.monotonic() + _PATIENCE * seconds
        self._known: dict[frozenset[str], Verdict] = {}

    def __call__(self, owners: frozenset[str]) -> Verdict:
        if owners not in self._known:
            self._known[owners] = self._ask([group for group in self._groups if group.owner in owners])
        return self._known[owners]

    def _ask(self, groups: Sequence[PodGroup]) -> Verdict:
        left = self._deadline - time.monotonic()
        return prove(self._capacities, groups, seconds=min(left, self._seconds)).verdict if left > 0 else "unknown"

    def any_can_be_placed(self, few: int) -> bool:
        """Return True if the pods of every set of `few` owners can be placed, and False if this is not known."""
        by_kind: dict[tuple[str, int, frozenset[str]], list[PodGroup]] = {}
        for group in self._groups:
            by_kind.setdefault((group.resource, group.units, frozenset(group.needs)), []).append(group)
        return self._ask([_largest(groups, few) for groups in by_kind.values()]) == "placed"

    def size(self, owner: str, resources: Sequence[str] | None = None) -> int:
        """Return how many units of the given resources, or of all resources, an owner requests."""
        held = (group for group in self._groups if group.owner == owner)
        return sum(one.units * one.count for one in held if resources is None or one.resource in resources)


def _largest(groups: Sequence[PodGroup], few: int) -> PodGroup:
    """Return a group that is at least as hard to place as the pods of any `few` owners in `groups`.

    The group has at least as many pods as these owners together, and its pods are at least as large.
    """
    counts: dict[str, int] = {}
    for group in groups:
        counts[group.owner] = counts.get(group.owner, 0) + group.count
    needs = {
        pool: NodeResources(
            max(group.needs[pool].cpu_millicores for group in groups),
            max(group.needs[pool].memory_mib for group in groups),
        )
        for pool in groups[0].needs
    }
    return replace(groups[0], count=sum(sorted(counts.values())[-few:]) if few else 0, needs=needs)


def _without_the_small(
    owners: frozenset[str], can_place: _PlacementTest, resources: Sequence[str]
) -> frozenset[str]:
    """Remove as many of the smallest owners as possible, so that the remaining owners are still a conflict.

    Bisection keeps the number of tests low.
    """
    order = sorted(owners, key=lambda owner: (can_place.size(owner, resources), can_place.size(owner), owner))
    spare, needed = 0, len(order)
    while needed - spare > 1:
        middle = (spare + needed) // 2
        if can_place(frozenset(order[middle:])) == "impossible":
            spare = middle
        else:
            needed = middle
    return frozenset(order[spare:])


def _deleted(owners: frozenset[str], can_place: _PlacementTest) -> tuple[frozenset[str], bool]:
    """Remove each owner that the conflict does not need, starting with the smallest owner. The remaining owners
    are still a conflict.

    The result includes whether the remaining conflict is proven to be minimal.
    """
    kept, minimal = owners, True
    for owner in sorted(owners, key=lambda owner: (can_place.size(owner), owner)):
        verdict = can_place(kept - {owner})
        if verdict == "impossible":
            kept = kept - {owner}
        minimal = minimal and verdict != "unknown"
    return kept, minimal


def _smallest(
    owners: frozenset[str], found: frozenset[str], can_place: _PlacementTest
) -> tuple[frozenset[str], bool]:
    """Return the smallest conflict that could be found, and whether there is proof that no smaller one exists.

    `found` is the smallest conflict known so far.
    """
    left_out: list[frozenset[str]] = []
    for _ in range(_ROUNDS):
        candidate = _hitting(sorted(owners), left_out)
        if len(candidate) >= len(found):
            return found, True
        verdict = can_place(candidate)
        if verdict == "impossible":
            return candidate, True
        if verdict == "unknown":
            return found, False
        for owner in sorted(owners - candidate, key=can_place.size, reverse=True):
            if can_place(candidate | {owner}) == "placed":
                candidate = candidate | {owner}
        left_out.append(owners - candidate)
    return found, False


def _hitting(owners: Sequence[str], sets: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the smallest set of owners that contains a member of each given set (minimum hitting set)."""
    # Import OR-tools only here, because its import takes half a second.
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    chosen = {owner: model.new_bool_var(owner) for owner in owners}
    for one in sets:
        model.add_bool_or([chosen[owner] for owner in sorted(one)])
    model.minimize(sum(chosen.values()))
    solver = new_solver()
    solver.solve(model)
    return frozenset(owner for owner in owners if solver.value(chosen[owner]))


def _lacking(capacities: Sequence[NodeCapacity], groups: Sequence[PodGroup], seconds: float) -> tuple[str, ...]:
    """Return the resources that the nodes lack. These are GPU resources or, if the nodes have enough GPU units in
    total, the CPU, memory, pods or GPUs of each node.
    """
    lacking: list[str] = []
    for name, pools in dict.fromkeys((group.resource, frozenset(group.needs)) for group in groups):
        bound = [group for group in groups if group.resource == name and pools.issuperset(group.needs)]
        asked = sum(group.units * group.count for group in bound)
        offered = sum(
            capacity.units.get(name, 0) * capacity.count for capacity in capacities if capacity.pool in pools
        )
        if asked > offered:
            lacking.append(f"{name} of {', '.join(sorted(pools))}: {asked} requested, {offered} available")
    if lacking:
        return tuple(lacking)
    for what, cpu, memory in (("CPU", True, False), ("memory", False, True), ("CPU and memory", True, True)):
        freed = [_without(group, cpu=cpu, memory=memory) for group in groups]
        if prove(capacities, freed, seconds=seconds).verdict == "placed":
            nodes = "the nodes that have the GPUs" if any(group.units for group in groups) else "the CPU nodes"
            return (f"{what} on {nodes}",)
    unlimited = [replace(capacity, pods=sum(group.count for group in groups)) for capacity in capacities]
    if prove(unlimited, groups, seconds=seconds).verdict == "placed":
        return ("pods per node: the kubelet's limit minus the DaemonSet pods",)
    anywhere = [replace(capacity, numa=None) for capacity in capacities]
    if anywhere != list(capacities) and prove(anywhere, groups, seconds=seconds).verdict == "placed":
        return (
            "GPUs of one NUMA node: the nodes have enough GPUs, but the kubelet refuses pods whose GPUs are on "
            "more NUMA nodes than necessary (Topology Manager)",
        )
    return (
        "GPUs on one node: the nodes have enough GPUs in total, but pods that request several GPUs do not fit",
    )


def _without(group: PodGroup, *, cpu: bool, memory: bool) -> PodGroup:
    needs = {
        pool: NodeResources(0 if cpu else need.cpu_millicores, 0 if memory else need.memory_mib)
        for pool, need in group.needs.items()
    }
    return replace(group, needs=needs)
