"""Split the cost of the desired nodes among pools, teams and workloads.

A team pays for the part of a pool that its quota covers. A quota is not tied to a pool, so its units are divided
in proportion among all pools that offer them. If quotas exceed the offered units, all quotas are reduced in the
same proportion. GPUs that no quota covers are not allocated. The costs of teams, unallocated GPUs and nodes
without GPUs add up to the cost of the pools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from gpu_platform.base import names
from gpu_platform.planning.capacity import CapacityReport
from gpu_platform.planning.capacity.waste import PoolUse
from gpu_platform.planning.clouds.schedules import HOURS_OF_WEEK
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.section import WorkloadPlan
from gpu_platform.planning.workloads import workloads_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpending:
    """Cost of one pool in USD/h, or None if its price is unknown.

    `capacity` is the pool's capacity type. `price_source` and `price_date` describe the price of a node. The idle
    cost is the cost of GPUs that are paid for but not in use, from the measured or declared utilisation. It is
    None if the utilisation is not known.
    """

    pool: str
    capacity: str
    nodes: int
    node_usd_per_hour: float | None
    price_source: str
    price_date: str
    hours_per_week: float
    """Hours per week in which the pool has nodes. `usd_per_hour` is the average over the whole week."""
    usd_per_hour: float | None
    unallocated_usd_per_hour: float | None
    gpus: int
    utilisation: float | None
    measured: bool
    idle_usd_per_hour: float | None
    wasted_usd_per_hour: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpending:
    """GPU cost of a declared workload in USD/h, as a part of its team's cost. None if the price is unknown."""

    team: str
    workload: str
    pool: str
    units: int
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSpending:
    """Cost in USD/h of the GPUs that a team's quota covers, by pool. Pools with an unknown price are left out."""

    team: str
    by_pool: Mapping[str, float]
    unknown: tuple[str, ...]
    """Pools with an unknown price that the quota covers in part."""

    @property
    def usd_per_hour(self) -> float:
        """Cost of the GPUs that the team's quota covers, in all pools with a known price."""
        return fsum(self.by_pool.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Cost of an environment at its desired size in USD/h. Only pools with a known price are included."""

    pools: tuple[PoolSpending, ...]
    teams: tuple[TeamSpending, ...]
    workloads: tuple[WorkloadSpending, ...]
    usd_per_hour: float | None
    unallocated_usd_per_hour: float
    without_gpus_usd_per_hour: float
    """Cost of pools without GPUs, which is not divided among teams."""
    idle_usd_per_hour: float | None
    """Idle cost of pools with a known price and utilisation, or None if there are no such pools."""
    by_capacity: Mapping[str, float]
    unknown: tuple[str, ...]


def spending_of(plan: EnvironmentPlan, report: CapacityReport) -> Spending:
    """Return the cost by pool, team and workload. `report` is the capacity report for the same plan. It may
    contain measured utilisation.
    """
    shares = _shares(plan)
    pools = tuple(
        _pool(pool, use, fsum(of_team.get(pool.name, 0.0) for of_team in shares.values()))
        for pool, use in zip(plan.pools, report.uses, strict=True)
    )
    costs = {pool.pool: pool.usd_per_hour for pool in pools if pool.usd_per_hour is not None}
    without = {pool.name for pool in plan.pools if not pool.has_gpus}
    by_capacity: dict[str, float] = {}
    for pool in pools:
        if pool.usd_per_hour is not None:
            by_capacity[pool.capacity] = by_capacity.get(pool.capacity, 0.0) + pool.usd_per_hour
    idle = [pool.idle_usd_per_hour for pool in pools if pool.idle_usd_per_hour is not None]
    return Spending(
        pools=pools,
        teams=tuple(
            TeamSpending(
                team=team,
                by_pool={pool: costs[pool] * share for pool, share in of_team.items() if pool in costs and share},
                unknown=tuple(pool for pool, share in of_team.items() if pool not in costs and share),
            )
            for team, of_team in shares.items()
        ),
        workloads=_workloads(plan),
        usd_per_hour=fsum(costs.values()) if costs else None,
        unallocated_usd_per_hour=fsum(pool.unallocated_usd_per_hour or 0.0 for pool in pools),
        without_gpus_usd_per_hour=fsum(cost for pool, cost in costs.items() if pool in without),
        idle_usd_per_hour=fsum(idle) if idle else None,
        by_capacity=by_capacity,
        unknown=tuple(pool.pool for pool in pools if pool.usd_per_hour is None),
    )


def _shares(plan: EnvironmentPlan) -> dict[str, dict[str, float]]:
    """Return the share of each pool's GPUs that the quota of each team covers. The shares of a pool add up to at
    most 1.
    """
    offered: dict[str, int] = {}
    for pool in plan.pools:
        for name, count in pool.units_desired.items():
            offered[name] = offered.get(name, 0) + count
    quota = {
        team_plan.namespace: {name: int(team_plan.quota.get(names.quota_key(name), "0")) for name in offered}
        for team_plan in plan.teams
    }
    asked = {name: sum(of_team[name] for of_team in quota.values()) for name in offered}
    found: dict[str, dict[str, float]] = {team: {} for team in quota}
    for pool in plan.pools:
        if not pool.has_gpus:
            continue
        of_pool = {team: _share(pool, units, offered, asked) for team, units in quota.items()}
        # With DRA, each GPU is offered both whole and as instances. The limit of 1 avoids counting it twice.
        total = max(1.0, fsum(of_pool.values()))
        for team, share in of_pool.items():
            found[team][pool.name] = share / total
    return found


def _share(
    pool: PoolPlan, units: Mapping[str, int], offered: Mapping[str, int], asked: Mapping[str, int]
) -> float:
    return fsum(
        offer.gpus / pool.gpus_per_node * units[offer.name] / max(offered[offer.name], asked[offer.name])
        for offer in pool.resources
        if offered[offer.name]
    )


def _pool(pool: PoolPlan, use: PoolUse, allocated: float) -> PoolSpending:
    price, average = pool.price_usd_per_hour, pool.average_usd_per_hour
    cost = None if average is None else average * pool.nodes.desired
    unallocated = None if cost is None else cost * (1 - allocated) if pool.has_gpus else 0.0
    idle = None
    if cost is not None and use.utilisation is not None and pool.has_gpus:
        idle = cost * (1 - use.utilisation)
    wasted: Sequence[tuple[str, float | None]] = list(use.wasted.items()) if pool.has_gpus else ()
    return PoolSpending(
        pool=pool.name,
        capacity=str(pool.capacity.get("type", "on-demand")),
        nodes=pool.nodes.desired,
        node_usd_per_hour=price,
        price_source="usd_per_hour in the stack file" if pool.price.declared else pool.price.source,
        price_date="" if pool.price.declared else pool.price.date,
        hours_per_week=HOURS_OF_WEEK if pool.schedule is None else pool.schedule.hours,
        usd_per_hour=cost,
        unallocated_usd_per_hour=unallocated,
        gpus=use.gpus if pool.has_gpus else 0,
        utilisation=use.utilisation,
        measured=use.measured,
        idle_usd_per_hour=idle,
        wasted_usd_per_hour={
            cause: None if gpus is None or use.price is None else gpus * use.price for cause, gpus in wasted
        },
    )


def _workloads(plan: EnvironmentPlan) -> tuple[WorkloadSpending, ...]:
    pools = {pool.name: pool for pool in plan.pools}
    found: list[WorkloadSpending] = []
    for team in plan.teams:
        run = workloads_of(team.namespace, plan.workloads)
        of_jobs = [pod.workload for pod in run.all_pods] if run is not None else []
        for workload in (*team.workloads, *of_jobs):
            if workload.units and workload.pool in pools:
                found.append(_workload(team.namespace, workload, pools[workload.pool]))
    return tuple(found)


def _workload(team: str, workload: WorkloadPlan, pool: PoolPlan) -> WorkloadSpending:
    units = workload.units * workload.replicas
    offer = next((each for each in pool.resources if each.name == workload.resource and each.per_node), None)
    price = pool.average_usd_per_hour
    cost = None
    if offer is not None and price is not None:
        cost = price * (offer.gpus / pool.gpus_per_node) / offer.per_node * units
    return WorkloadSpending(team=team, workload=workload.name, pool=pool.name, units=units, usd_per_hour=cost)
