"""What the platform costs at its desired size, and how much of that is granted to nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_platform.planning.plan import CostPlan, PoolCost, PoolPlan

HOURS_PER_MONTH = 730  # 365 days x 24 h / 12, as the clouds bill


def used_shares(pools: Sequence[PoolPlan], used: Mapping[str, int]) -> dict[str, float]:
    """Return by pool the share of its GPU capacity that `used` units by resource take.

    Units of a resource that several pools offer count for them in proportion to what they offer.
    """
    totals: dict[str, int] = {}
    for pool in pools:
        for name, count in pool.units_desired.items():
            totals[name] = totals.get(name, 0) + count
    shares: dict[str, float] = {}
    for pool in pools:
        # Each physical GPU weighs the same, in however many units it is offered.
        weights = {offer.name: offer.gpus for offer in pool.resources}
        whole = sum(weights.values())
        shares[pool.name] = sum(
            weight / whole * min(1.0, used.get(name, 0) / totals[name])
            for name, weight in weights.items()
            if totals[name]
        )
    return shares


def plan_cost(pools: Sequence[PoolPlan], granted: Mapping[str, int]) -> CostPlan:
    """Return the cost of the desired nodes. `granted`: units by extended resource over all teams."""
    shares = used_shares(pools, granted)
    lines: list[PoolCost] = []
    for pool in pools:
        price = pool.price_usd_per_hour
        total = None if price is None else price * pool.nodes.desired
        lines.append(PoolCost(pool=pool.name, usd_per_hour=total, granted_share=shares[pool.name]))
    return CostPlan(
        usd_per_hour=sum(line.usd_per_hour or 0.0 for line in lines),
        ungranted_usd_per_hour=sum((line.usd_per_hour or 0.0) * (1 - line.granted_share) for line in lines),
        unknown=tuple(line.pool for line in lines if line.usd_per_hour is None),
        pools=tuple(lines),
    )
