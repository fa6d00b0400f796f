"""Compares a plan's demand with the value and usage of each cloud quota that limits the demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_platform.catalog import Catalog
from gpu_platform.online.finding import OnlineFinding
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.prerequisites import QuotaNeed, gpu_quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDemand:
    """Demand of a stack on a quota, both for its desired and for its maximum node count."""

    name: str
    unit: str
    region: str
    desired: int
    most: int
    wanted_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaState:
    """A quota's value, and its usage outside the stack. If `used` is None, `unknown` is the reason."""

    limit: float
    used: float | None
    unknown: str = ""


def gpu_demands(plan: EnvironmentPlan, catalog: Catalog) -> tuple[QuotaDemand, ...]:
    """Return the demand for each GPU quota whose name is known."""
    return tuple(
        QuotaDemand(
            name=need.name,
            unit=need.unit,
            region=need.region,
            desired=_desired(need, plan, catalog),
            most=need.amount,
            wanted_by=", ".join(need.pools),
        )
        for need in gpu_quotas(plan, catalog)
        if need.name is not None
    )


def unnamed_needs(plan: EnvironmentPlan, catalog: Catalog) -> tuple[QuotaNeed, ...]:
    """Return the plan's demand on GPU quotas whose names are not known."""
    return tuple(need for need in gpu_quotas(plan, catalog) if need.name is None)


def unnamed_findings(plan: EnvironmentPlan, catalog: Catalog, console: str) -> Sequence[OnlineFinding]:
    """Return a finding with severity `unknown` for each needed quota without a known name."""
    return [
        OnlineFinding(
            looked_at=f"quota of {', '.join(need.pools)} in {need.region}",
            severity="unknown",
            found="not checked",
            why=f"the name of the quota is not in the catalogue; the pools need {need.amount} {need.unit}",
            fix=f"check it yourself: {console}",
        )
        for need in unnamed_needs(plan, catalog)
    ]


def compare_quota(demand: QuotaDemand, state: QuotaState, fix: str) -> OnlineFinding:
    """Return a finding about whether the quota suffices for the desired and for the maximum node count.

    The available amount is the value of the quota minus the usage by others.
    """
    used = state.used or 0
    free = max(state.limit - used, 0)
    use = f"{used:g} used by others" if state.used is not None else f"usage unknown ({state.unknown})"
    need = f"{demand.desired} {demand.unit} needed at first, {demand.most} at most, by {demand.wanted_by}"
    found = f"{state.limit:g} {demand.unit}, {use}; {need}"
    looked_at = f"quota {demand.name} in {demand.region}"
    missing = demand.desired - free
    if missing > 0:
        return OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found=found,
            why=f"{missing:g} {demand.unit} {'is' if missing == 1 else 'are'} missing for the desired nodes",
            fix=f"{fix}: request at least {used + demand.most:g} {demand.unit}",
        )
    missing = demand.most - free
    if missing > 0:
        return OnlineFinding(
            looked_at=looked_at,
            severity="warns",
            found=found,
            why=f"the desired nodes fit, but {missing:g} {demand.unit} {'is' if missing == 1 else 'are'} missing "
            "for the maximum",
            fix=f"{fix}: request at least {used + demand.most:g} {demand.unit}, or lower count.max",
        )
    if state.used is None:
        return OnlineFinding(
            looked_at=looked_at,
            severity="warns",
            found=found,
            why="the value suffices only if nothing else uses the quota",
            fix="compare it with the usage shown in the cloud console",
        )
    return OnlineFinding(looked_at=looked_at, severity="fine", found=found)


def _desired(need: QuotaNeed, plan: EnvironmentPlan, catalog: Catalog) -> int:
    pools = [pool for pool in plan.pools if pool.name in need.pools]
    return sum(
        pool.nodes.desired
        * (catalog.machine_types[pool.machine_type].vcpu if need.unit == "vCPU" else pool.gpus_per_node)
        for pool in pools
    )
