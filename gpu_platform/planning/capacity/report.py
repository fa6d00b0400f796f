"""Capacity of an environment: the proof that its quotas can be honoured, and what its GPUs are used for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_platform.catalog import Catalog
from gpu_platform.planning.capacity.conflict import Conflict, smallest_conflict
from gpu_platform.planning.capacity.nodes import NodeCapacity, PodGroup, groups_of, node_capacities
from gpu_platform.planning.capacity.proof import Proof, prove
from gpu_platform.planning.capacity.waste import PoolUse, pool_use
from gpu_platform.planning.plan import EnvironmentPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Honoured:
    """Whether all quotas can be honoured at once on `rooms`; where they cannot, the smallest set that cannot."""

    rooms: tuple[NodeCapacity, ...]
    proof: Proof
    conflict: Conflict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversubscribed:
    """Units of a resource that are promised beyond what there is, and the GPUs that they would take."""

    resource: str
    asked: int
    offered: int
    gpus: float
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReport:
    """`most`: the same question at the most nodes; None where the desired size suffices or is all there can be."""

    desired: Honoured
    most: Honoured | None
    uses: tuple[PoolUse, ...]
    oversubscribed: tuple[Oversubscribed, ...]


def report_capacity(
    plan: EnvironmentPlan, catalog: Catalog, *, measured: Mapping[str, float] | None = None, seconds: float = 10.0
) -> CapacityReport:
    """Return the capacity report. `measured`: utilisation by pool, 0..1; `seconds`: for one proof."""
    groups = groups_of(plan)
    desired = _honoured(node_capacities(plan.pools), groups, seconds)
    most_rooms = node_capacities(plan.pools, most=True)
    ask_again = desired.proof.verdict != "placed" and most_rooms != desired.rooms
    uses = tuple(
        pool_use(
            pool,
            room,
            groups,
            [pods for pods in desired.proof.pods if pods.pool == pool.name],
            (measured or {}).get(pool.name),
            catalog,
        )
        for pool, room in zip(plan.pools, desired.rooms, strict=True)
    )
    return CapacityReport(
        desired=desired,
        most=_honoured(most_rooms, groups, seconds) if ask_again else None,
        uses=uses,
        oversubscribed=_oversubscribed(desired.rooms, groups, uses),
    )


def _honoured(rooms: tuple[NodeCapacity, ...], groups: Sequence[PodGroup], seconds: float) -> Honoured:
    proof = prove(rooms, groups, seconds=seconds)
    conflict = smallest_conflict(rooms, groups, seconds=seconds) if proof.verdict == "impossible" else None
    return Honoured(rooms=rooms, proof=proof, conflict=conflict)


def _oversubscribed(
    rooms: Sequence[NodeCapacity], groups: Sequence[PodGroup], uses: Sequence[PoolUse]
) -> tuple[Oversubscribed, ...]:
    prices = {use.pool: use.price for use in uses}
    found: list[Oversubscribed] = []
    for name in dict.fromkeys(name for room in rooms for name in room.units):
        asked = sum(group.units * group.count for group in groups if group.resource == name)
        of_it = [room for room in rooms if room.units.get(name)]
        offered = sum(room.units[name] * room.count for room in of_it)
        if asked <= offered:
            continue
        each = [room.gpus_each[name] for room in of_it]
        gpus = (asked - offered) * sum(each) / len(each)
        known = [price for room in of_it if (price := prices[room.pool]) is not None]
        usd = gpus * min(known) if known else None
        found.append(Oversubscribed(resource=name, asked=asked, offered=offered, gpus=gpus, usd_per_hour=usd))
    return tuple(found)
