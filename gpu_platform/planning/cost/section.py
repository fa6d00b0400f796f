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
class UsedPrices:
    """On-demand list prices of one region that pools are counted with, and the dates of the lists.

    `reference`: the stack file names no region of a cloud; the cluster's own prices may differ.
    """

    region: str
    reference: bool
    dates: tuple[str, ...]
    pools: tuple[str, ...]

    def __str__(self) -> str:
        where = f"{self.region} (reference)" if self.reference else self.region
        return f"list, on demand, {where}, {' and '.join(self.dates)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPlan:
    """Cost at the desired size, USD/h: the known part, pools of unknown price, and what no quota covers.

    None: the price of no pool is known. `prices`: the list prices that are counted with; `declared`: pools
    whose price the stack file declares.
    """

    usd_per_hour: float | None
    most_usd_per_hour: float | None
    """Cost of the most nodes of all pools, rolls included, at the dearest machine type that each allows; None: the
    price of one of them is not known."""
    unallocated_usd_per_hour: float | None
    unknown: tuple[str, ...]
    region: str | None
    """The cluster's region, whose list prices apply; None: the stack file names none."""
    prices: tuple[UsedPrices, ...]
    declared: tuple[str, ...]
    pools: tuple[PoolCost, ...]
    budget_usd_per_month: float | None = None

    @property
    def prices_text(self) -> str:
        """The region and date of list prices, the pools with a price of their own, and those without any."""
        parts = [str(one) for one in self.prices]
        if self.declared:
            parts.append(f"usd_per_hour of the stack file for {', '.join(self.declared)}")
        if self.unknown:
            where = f" in {self.region}" if self.region is not None else ""
            parts.append(f"unknown{where} for {', '.join(self.unknown)}")
        return "; ".join(parts) or "none"
