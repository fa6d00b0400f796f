"""The report that `gpu-platform place` prints: placement, reasons, advice, fragmentation before and after, and
moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from extensions.capacity.scheduling.advice import Advice, Adviser, NodeType
from extensions.capacity.scheduling.explain import Reason, reason_of
from extensions.capacity.scheduling.fragmentation import Fragmentation, fragmentation
from extensions.capacity.scheduling.model import Pending, ProfileName, Scenario
from extensions.capacity.scheduling.moves import MovePlan, plan_moves
from extensions.capacity.scheduling.schedule import Placement, place, start

_PROFILES: Final[tuple[ProfileName, ...]] = ("default", "most-allocated", "packed")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingGroup:
    """Pending pods of a group, why they are pending, and changes that help. `advice` is empty if none helps."""

    group: int
    pending: tuple[Pending, ...]
    reasons: tuple[Reason, ...]
    advice: tuple[Advice, ...]
    advised: bool
    """False if the search for advice had no tries left for this group."""

    @property
    def count(self) -> int:
        """Number of pods that stay pending."""
        return sum(one.count for one in self.pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementReport:
    """All results of a placement.

    `fragmentation` contains the state before and after the placement, by pool. The empty name stands for all
    nodes.
    """

    scenario: Scenario
    placement: Placement
    pending: tuple[PendingGroup, ...]
    fragmentation: dict[str, tuple[Fragmentation, Fragmentation]]
    moves: tuple[MovePlan, ...]
    profiles: dict[ProfileName, tuple[int, Fragmentation]]
    """Number of placed pods and fragmentation of all nodes, for each scheduler profile."""


def report_placement(scenario: Scenario, types: Sequence[NodeType]) -> PlacementReport:
    """Place the pods of a scenario and report the result. `types` are the nodes that can be added to pools."""
    placement = place(scenario)
    adviser = Adviser(scenario, placement, types)
    pending: list[PendingGroup] = []
    for index in dict.fromkeys(one.group for one in placement.pending):
        of_group = tuple(one for one in placement.pending if one.group == index)
        advised = not adviser.exhausted
        pending.append(
            PendingGroup(
                group=index,
                pending=of_group,
                reasons=tuple(reason_of(scenario, one) for one in of_group),
                advice=adviser.advise(of_group) if advised else (),
                advised=advised,
            )
        )
    before = start(scenario)[0]
    pools = [None, *dict.fromkeys(node.pool for node in scenario.nodes if node.gpus)]
    found = {
        pool or "": (
            fragmentation(scenario, before, pool),
            fragmentation(scenario, placement.states, pool),
        )
        for pool in pools
    }
    return PlacementReport(
        scenario=scenario,
        placement=placement,
        pending=tuple(pending),
        fragmentation=found,
        moves=plan_moves(scenario, placement),
        profiles={name: _by_profile(scenario, name, placement, found[""][1]) for name in _PROFILES},
    )


def _by_profile(
    scenario: Scenario, profile: ProfileName, placement: Placement, after: Fragmentation
) -> tuple[int, Fragmentation]:
    if profile != scenario.profile:
        placement = place(replace(scenario, profile=profile))
        after = fragmentation(scenario, placement.states)
    return len(placement.assignments), after
