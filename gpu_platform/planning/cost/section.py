"""The plan of what the nodes cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCost:
    """What a pool costs at its desired size, USD/h, and how much of it is not allocated to any team."""

    pool: str
    usd_per_hour: float | None
    allocated_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPlan:
    """Cost at the desired size, USD/h: the known part, pools of unknown price, and what no quota covers.

    None: the price of no pool is known.
    """

    usd_per_hour: float | None
    unallocated_usd_per_hour: float | None
    unknown: tuple[str, ...]
    pools: tuple[PoolCost, ...]
