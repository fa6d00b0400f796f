"""Check that all team quotas fit on the planned nodes, and report how the GPUs are used."""

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
class QuotaFit:
    """The result of placing all quotas on the nodes at once. If they do not fit, it contains the smallest set of
    quotas that do not fit.
    """

    capacities: tuple[NodeCapacity, ...]
    proof: Proof
    conflict: Conflict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversubscribed:
    """A resource whose quotas add up to more units than the nodes offer, and the number of GPUs in the excess
    units.
    """

    resource: str
    asked: int
    offered: int
    gpus: float
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReport:
    """The capacity of an environment.

    `most` is the result at the pools' maximum size. It is None if the desired size suffices or is fixed.
    """

    desired: QuotaFit
    most: QuotaFit | None
    uses: tuple[PoolUse, ...]
    oversubscribed: tuple[Oversubscribed, ...]


def report_capacity(
    plan: EnvironmentPlan, catalog: Catalog, *, measured: Mapping[str, float] | None = None, seconds: float = 10.0
) -> CapacityReport:
    """Return the capacity report.

    `measured` is the measured utilisation of each pool, from 0 to 1. `seconds` is the time limit for one placement
    test.
    """
    groups = groups_of(plan, catalog)
    desired = _quota_fit(node_capacities(plan.pools, catalog), groups, seconds)
    most_capacities = node_capacities(plan.pools, catalog, most=True)
    ask_again = desired.proof.verdict != "placed" and most_capacities != desired.capacities
    uses = tuple(
        pool_use(
            pool,
            capacity,
            groups,
            [pods for pods in desired.proof.pods if pods.pool == pool.name],
            (measured or {}).get(pool.name),
            catalog,
        )
        for pool, capacity in zip(plan.pools, desired.capacities, strict=True)
    )
    return CapacityReport(
        desired=desired,
        most=_quota_fit(most_capacities, groups, seconds) if ask_again else None,
        uses=uses,
        oversubscribed=_oversubscribed(desired.capacities, groups, uses),
    )


def _quota_fit(capacities: tuple[NodeCapacity, ...], groups: Sequence[PodGroup], seconds: float) -> QuotaFit:
    proof = prove(capacities, groups, seconds=seconds)
    conflict = smallest_conflict(capacities, groups, seconds=seconds) if proof.verdict == "impossible" else None
    return QuotaFit(capacities=capacities, proof=proof, conflict=conflict)


def _oversubscribed(
    capacities: Sequence[NodeCapacity], groups: Sequence[PodGroup], uses: Sequence[PoolUse]
) -> tuple[Oversubscribed, ...]:
    prices = {use.pool: use.price for use in uses}
    found: list[Oversubscribed] = []
    for name in dict.fromkeys(name for capacity in capacities for name in capacity.units):
        asked = sum(group.units * group.count for group in groups if group.resource == name)
        of_it = [capacity for capacity in capacities if capacity.units.get(name)]
        offered = sum(capacity.units[name] * capacity.count for capacity in of_it)
        if asked <= offered:
            continue
        each = [capacity.gpus_each[name] for capacity in of_it]
        gpus = (asked - offered) * sum(each) / len(each)
        known = [price for capacity in of_it if (price := prices[capacity.pool]) is not None]
        usd = gpus * min(known) if known else None
        found.append(Oversubscribed(resource=name, asked=asked, offered=offered, gpus=gpus, usd_per_hour=usd))
    return tuple(found)
