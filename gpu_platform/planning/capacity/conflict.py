"""The smallest set of quotas that cannot be honoured together, and what they lack.

A set found by deletion conflicts while each of its proper subsets can be placed. That it is also the smallest is
shown by hitting sets: whoever is left out of a set that can be placed is part of every conflict there is (Ignatiev
et al., "Smallest MUS Extraction with Minimal Hitting Set Dualization", CP 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu_platform.planning.capacity.proof import Verdict, prove
from gpu_platform.planning.capacity.rooms import NodeRoom, PodGroup
from gpu_platform.planning.node_resources import NodeResources

_ROUNDS = 60
"""Sets that are looked at to show that a conflict is the smallest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Owners whose quotas cannot be honoured together, and what they lack.

    `minimal`: without any one of them the others can be placed. `smallest`: no other conflict has fewer owners.
    """

    owners: tuple[str, ...]
    lacking: tuple[str, ...]
    minimal: bool
    smallest: bool


def smallest_conflict(
    rooms: Sequence[NodeRoom], groups: Sequence[PodGroup], *, seconds: float = 5.0
) -> Conflict | None:
    """Return the smallest set of owners whose pods cannot all be placed; None where that cannot be shown.

    `seconds` bounds each question that is asked on the way.
    """
    judge = _Judge(rooms, groups, seconds)
    everyone = frozenset(group.owner for group in groups)
    if judge(everyone) != "impossible":
        return None
    found, minimal = _deleted(everyone, judge)
    found, smallest = _smallest(everyone, found, judge) if minimal else (found, False)
    held = [group for group in groups if group.owner in found]
    order = dict.fromkeys(group.owner for group in groups)
    return Conflict(
        owners=tuple(owner for owner in order if owner in found),
        lacking=_lacking(rooms, held, seconds),
        minimal=minimal,
        smallest=smallest,
    )


class _Judge:
    """Answers whether some owners' pods can be placed, each set once."""

    def __init__(self, rooms: Sequence[NodeRoom], groups: Sequence[PodGroup], seconds: float) -> None:
        self._rooms, self._groups, self._seconds = rooms, groups, seconds
        self._known: dict[frozenset[str], Verdict] = {}

    def __call__(self, owners: frozenset[str]) -> Verdict:
        if owners not in self._known:
            held = [group for group in self._groups if group.owner in owners]
            self._known[owners] = prove(self._rooms, held, seconds=self._seconds).verdict
        return self._known[owners]

    def size(self, owner: str) -> int:
        """Return the units that an owner asks for."""
        return sum(group.units * group.count for group in self._groups if group.owner == owner)


def _deleted(owners: frozenset[str], judge: _Judge) -> tuple[frozenset[str], bool]:
    """Leave out, the small first, whoever the conflict does not need."""
    kept, minimal = owners, True
    for owner in sorted(owners, key=lambda owner: (judge.size(owner), owner)):
        verdict = judge(kept - {owner})
        if verdict == "impossible":
            kept = kept - {owner}
        minimal = minimal and verdict != "unknown"
    return kept, minimal


def _smallest(owners: frozenset[str], found: frozenset[str], judge: _Judge) -> tuple[frozenset[str], bool]:
    """Return the smallest conflict, and whether that is shown; `found` is the smallest known so far."""
    left_out: list[frozenset[str]] = []
    for _ in range(_ROUNDS):
        candidate = _hitting(sorted(owners), left_out)
        if len(candidate) >= len(found):
            return found, True
        verdict = judge(candidate)
        if verdict == "impossible":
            return candidate, True
        if verdict == "unknown":
            return found, False
        for owner in sorted(owners - candidate, key=judge.size, reverse=True):
            if judge(candidate | {owner}) == "placed":
                candidate = candidate | {owner}
        left_out.append(owners - candidate)
    return found, False


def _hitting(owners: Sequence[str], sets: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the fewest owners of which each set has one."""
    # Costs half a second and is needed by this alone.
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    chosen = {owner: model.new_bool_var(owner) for owner in owners}
    for one in sets:
        model.add_bool_or([chosen[owner] for owner in sorted(one)])
    model.minimize(sum(chosen.values()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.solve(model)
    return frozenset(owner for owner in owners if solver.value(chosen[owner]))


def _lacking(rooms: Sequence[NodeRoom], groups: Sequence[PodGroup], seconds: float) -> tuple[str, ...]:
    """Say what there is too little of: units in all, else CPU or memory, else room on one node."""
    told: list[str] = []
    for name, pools in dict.fromkeys((group.resource, frozenset(group.needs)) for group in groups):
        bound = [group for group in groups if group.resource == name and pools.issuperset(group.needs)]
        asked = sum(group.units * group.count for group in bound)
        offered = sum(room.units.get(name, 0) * room.count for room in rooms if room.pool in pools)
        if asked > offered:
            told.append(f"{name} of {', '.join(sorted(pools))}: {asked} asked for, {offered} offered")
    if told:
        return tuple(told)
    for what, cpu, memory in (("CPU", True, False), ("memory", False, True), ("CPU and memory", True, True)):
        freed = [_without(group, cpu=cpu, memory=memory) for group in groups]
        if prove(rooms, freed, seconds=seconds).verdict == "placed":
            return (f"{what} on the nodes that have the GPUs",)
    return ("GPUs on one node: there are enough in all, but pods of several GPUs do not fit beside each other",)


def _without(group: PodGroup, *, cpu: bool, memory: bool) -> PodGroup:
    needs = {
        pool: NodeResources(0 if cpu else need.cpu_millicores, 0 if memory else need.memory_mib)
        for pool, need in group.needs.items()
    }
    return replace(group, needs=needs)
