"""Types for the cost plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCost:
    """Cost of a pool at its desired size in USD/h, and the part of this cost that is not allocated to any team."""

    pool: str
    usd_per_hour: float | None
    allocated_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedPrices:
    """On-demand list prices of one region, with the dates of the lists. The cost of pools is calculated from these
    prices. `reference` is true if the stack file sets no region. The prices at the cluster's location may then
    differ.
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
    """Known cost of the desired nodes in USD/h, pools with an unknown price, and the cost that no quota covers.

    The cost is None if no pool has a known price. `prices` are the list prices on which the cost is based.
    `declared` are pools whose price is set in the stack file.
    """

    usd_per_hour: float | None
    most_usd_per_hour: float | None
    """Cost in USD/h of all pools at their maximum number of nodes, including the nodes that rolling updates add.
    Each pool is priced at its most expensive machine type. The cost is None if a price is not known.
    """
    unallocated_usd_per_hour: float | None
    unknown: tuple[str, ...]
    region: str | None
    """The cluster's region, whose list prices apply, or None if the stack file sets no region."""
    prices: tuple[UsedPrices, ...]
    declared: tuple[str, ...]
    pools: tuple[PoolCost, ...]
    budget_usd_per_month: float | None = None

    @property
    def prices_text(self) -> str:
        """Region and date of the list prices, pools with a declared price, and pools with no known price."""
        parts = [str(one) for one in self.prices]
        if self.declared:
            parts.append(f"usd_per_hour in the stack file for {', '.join(self.declared)}")
        if self.unknown:
            where = f" in {self.region}" if self.region is not None else ""
            parts.append(f"unknown{where} for {', '.join(self.unknown)}")
        return "; ".join(parts) or "none"
