"""Calculate the cost of the desired nodes, and the part of the cost that is not allocated to any team."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from gpu_platform.planning.clouds.section import ClusterPlan
from gpu_platform.planning.cost.section import CostPlan, PoolCost, UsedPrices
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.operations import Budget

HOURS_PER_MONTH = 730  # 365 days x 24 h / 12, as used in the clouds' bills


def allocated_shares(pools: Sequence[PoolPlan], quota: Mapping[str, int]) -> dict[str, float]:
    """Return, by pool, the fraction of the desired nodes' GPUs that a quota covers, or 1 if a pool has no GPUs.

    `quota` contains units by resource. A quota is not tied to a pool. If several pools offer a resource, its units
    are divided among these pools in proportion to the units that they offer.
    """
    totals: dict[str, int] = {}
    for pool in pools:
        for name, count in pool.units_desired.items():
            totals[name] = totals.get(name, 0) + count
    shares = {name: min(1.0, quota.get(name, 0) / total) for name, total in totals.items() if total}
    return {pool.name: _weighed(pool, shares) for pool in pools}


def held_shares(pools: Sequence[PoolPlan], held: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """Return, by pool, the fraction of the desired nodes' GPUs that pods use, or 1 if a pool has no GPUs.

    `held` contains the used units by pool and resource.
    """
    shares: dict[str, float] = {}
    for pool in pools:
        units = held.get(pool.name, {})
        of_resource = {
            name: min(1.0, units.get(name, 0) / total) for name, total in pool.units_desired.items() if total
        }
        shares[pool.name] = _weighed(pool, of_resource)
    return shares


def _weighed(pool: PoolPlan, shares: Mapping[str, float]) -> float:
    """Return the fraction of a pool's GPUs that is used or covered by a quota, or 1 for a pool without GPUs.

    `shares` contains this fraction for the units of each resource. Each resource is weighted by the fraction of a
    node's GPUs that its units take.
    """
    if not pool.has_gpus:
        return 1.0
    whole = pool.gpus_per_node
    # With DRA, each GPU is offered both whole and as instances. The limit of 1 avoids counting it twice.
    return min(1.0, fsum(offer.gpus / whole * shares.get(offer.name, 0.0) for offer in pool.resources))


def idle_cost(pools: Sequence[PoolPlan], cost: CostPlan, held: Mapping[str, Mapping[str, int]]) -> float | None:
    """Return the cost of the GPU capacity that no pod uses, in USD/h, or None if no pool has a known price.

    `held` contains the used units by pool and resource.
    """
    return _total(cost.pools, held_shares(pools, held))


def _total(lines: Sequence[PoolCost], used: Mapping[str, float]) -> float | None:
    """Return the cost of the unused part of all pools with a known price, or None if no pool has a known price.

    `used` contains the used fraction of each pool.
    """
    known = [line.usd_per_hour * (1 - used.get(line.pool, 0.0)) for line in lines if line.usd_per_hour is not None]
    return fsum(known) if known else None


def plan(
    pools: Sequence[PoolPlan],
    quota: Mapping[str, int],
    cluster: ClusterPlan | None = None,
    budget: Budget | None = None,
) -> CostPlan:
    """Return the cost of the desired nodes during their scheduled hours, and the maximum cost of the pools.

    `quota` contains the units of all teams by extended resource. `cluster` determines how many nodes a rolling
    update adds.
    """
    shares = allocated_shares(pools, quota)
    lines: list[PoolCost] = []
    for pool in pools:
        price = pool.average_usd_per_hour
        total = None if price is None else price * pool.nodes.desired
        lines.append(PoolCost(pool=pool.name, usd_per_hour=total, allocated_share=shares[pool.name]))
    return CostPlan(
        usd_per_hour=_total(lines, {}),
        most_usd_per_hour=_most([_most_of(pool, cluster) for pool in pools]),
        unallocated_usd_per_hour=_total(lines, shares),
        unknown=tuple(line.pool for line in lines if line.usd_per_hour is None),
        region=next((one.price.region for one in pools if one.price.region and not one.price.reference), None),
        prices=_used_prices(pools),
        declared=tuple(pool.name for pool in pools if pool.price.declared),
        pools=tuple(lines),
        budget_usd_per_month=budget.usd_per_month if budget is not None else None,
    )


def check(budget: Budget | None, pools: Sequence[PoolPlan], problems: Problems) -> None:
    """Record a problem if the known cost of the desired nodes exceeds the budget."""
    if budget is None:
        return
    costs = {pool.name: price * pool.nodes.desired for pool in pools if (price := pool.average_usd_per_hour)}
    total = fsum(costs.values()) * HOURS_PER_MONTH
    if total > budget.usd_per_month:
        dear = ", ".join(
            f"{name} {usd * HOURS_PER_MONTH:.0f}" for name, usd in sorted(costs.items(), key=lambda each: -each[1])
        )
        problems.at("budget.usd_per_month").add(
            f"{budget.usd_per_month:.10g}, but the desired nodes cost {total:.0f} USD a month: {dear}",
            f"at least {total:.0f}, or fewer or cheaper nodes",
            "raise the budget, or lower count.desired of a pool",
        )


def most_nodes(pool: PoolPlan, cluster: ClusterPlan | None) -> int:
    """Return the maximum number of nodes that a pool has at a time, including nodes that a rolling update adds."""
    return pool.nodes.max + (cluster.surge_nodes.get(pool.name, 0) if cluster is not None else 0)


def _most_of(pool: PoolPlan, cluster: ClusterPlan | None) -> float | None:
    nodes, price = most_nodes(pool, cluster), pool.price.most_usd_per_hour
    return 0.0 if nodes == 0 else None if price is None else nodes * price


def _most(costs: Sequence[float | None]) -> float | None:
    """Return the sum of the costs, or None if one of them is not known."""
    known = [cost for cost in costs if cost is not None]
    return fsum(known) if known and len(known) == len(costs) else None


def _used_prices(pools: Sequence[PoolPlan]) -> tuple[UsedPrices, ...]:
    """Return the list prices that the cost of the pools is based on, by region."""
    found: dict[tuple[str, bool], list[PoolPlan]] = {}
    for pool in pools:
        if pool.price.region is not None and pool.price.usd_per_hour is not None:
            found.setdefault((pool.price.region, pool.price.reference), []).append(pool)
    return tuple(
        UsedPrices(
            region=region,
            reference=reference,
            dates=tuple(sorted({pool.price.date for pool in of_region})),
            pools=tuple(pool.name for pool in of_region),
        )
        for (region, reference), of_region in found.items()
    )


def decisions(
    stack: str,
    cost: CostPlan,
    pools: Sequence[PoolPlan],
    cluster: ClusterPlan | None = None,
    budget: Budget | None = None,
    *,
    alerts: bool = False,
) -> tuple[Decision, ...]:
    """Return the decisions that explain the prices of the pools, their maximum cost and the budget, if any.

    `alerts` is true if an alert compares the cost of the running nodes with the budget.
    """
    if not cost.pools:
        return ()
    subject = f"stack {stack}"
    most = "unknown" if cost.most_usd_per_hour is None else f"{cost.most_usd_per_hour:.2f} USD/h"
    sizes = ", ".join(f"{pool.name} {most_nodes(pool, cluster)}" for pool in pools)
    nowhere = any(one.reference for one in cost.prices)
    why = "the stack file sets no region" if nowhere else "only list prices of the cluster's region are used"
    why += "; `usd_per_hour` of a pool overrides the list price"
    return (
        Decision(subject=subject, what="prices", chosen=cost.prices_text, why=why),
        Decision(
            subject=subject,
            what="highest cost",
            chosen=most,
            why=f"maximum node counts, including rolling updates: {sizes}; each pool is priced at its most "
            "expensive machine type",
        ),
        *(_budget(subject, cost, budget, alerts=alerts) if budget is not None else ()),
    )


def _budget(subject: str, cost: CostPlan, budget: Budget, *, alerts: bool) -> Iterator[Decision]:
    if cost.usd_per_hour is not None:
        yield Decision(
            subject=subject,
            what="budget",
            chosen=f"{cost.usd_per_hour * HOURS_PER_MONTH:,.0f} of {budget.usd_per_month:,.0f} USD a month",
            why="the desired nodes; an alert fires if the running nodes cost more"
            if alerts
            else "the desired nodes; no alert compares the cost of the running nodes with the budget, because "
            "such an alert needs the Prometheus operator and the program's own exporter",
        )
    if cost.unknown:
        yield Decision(
            subject=subject,
            what="warning: budget",
            chosen="without " + ", ".join(f"pool {name}" for name in cost.unknown),
            why="their prices are not known, so neither `check` nor an alert includes their cost; "
            "set usd_per_hour",
        )
