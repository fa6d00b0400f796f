"""Converts a capacity report to plain JSON values and describes how each figure is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import fsum
from typing import Any

from gpu_platform.base import names
from gpu_platform.base.quantity import counted, parse_quantity
from gpu_platform.planning.capacity.proof import PodsOnNode
from gpu_platform.planning.capacity.quota_fit import CapacityReport, QuotaFit
from gpu_platform.planning.capacity.waste import CAUSES, GEOMETRY, IDLE, STRANDED, UNALLOCATED, PoolUse
from gpu_platform.planning.cost import HOURS_PER_MONTH
from gpu_platform.planning.cost.section import PoolCost
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.free import free_resources
from gpu_platform.planning.pools.section import PoolPlan

_HOW_CAUSE = {
    GEOMETRY: "GPU compute slices that no MIG instance of the layout uses",
    STRANDED: "free units in the placement that even the smallest pod cannot use, because the node has too "
    "little free CPU or memory",
    UNALLOCATED: "free units in the placement, excluding stranded units",
    IDLE: "idle time of GPUs that are allocated to a team, except the time that the causes above account for",
}
_HOW_QUOTAS = (
    "checked by placing pods on the nodes according to GPU units, CPU and memory: the pods of the declared "
    "workloads, and one-unit pods for the rest of each team's quota. Each one-unit pod gets an equal part of "
    "the team's remaining CPU and memory, but no more than one unit's share of a node"
)
_HOW_MPS = "memory and threads of one GPU divided by the number of replicas, rounded down; a pod gets one replica"
_HOW_OVERSUBSCRIPTION = (
    "cost of the missing units, which are the units of all quotas minus the available units at the desired size, "
    "at the cheapest known price of a pool with such units. The cost is not included in the waste, because nobody "
    "pays for missing units"
)


def capacity_document(plan: EnvironmentPlan, report: CapacityReport) -> dict[str, Any]:
    """Return capacity, placement, cost and waste.

    Money is in USD (null if unknown), memory in MiB. Shares are numbers from 0 to 1.
    """
    offered: dict[str, int] = {}
    for pool in plan.pools:
        for name, count in pool.units_desired.items():
            offered[name] = offered.get(name, 0) + count
    allocated = {
        name: sum(int(team.quota.get(names.quota_key(name), "0")) for team in plan.teams) for name in offered
    }
    lines = zip(plan.pools, plan.cost.pools, report.uses, strict=True)
    return {
        "version": 1,
        "stack": plan.stack,
        "pools": [_pool(pool, line, use) for pool, line, use in lines],
        "modes": _modes(plan.pools),
        "resources": [
            {"name": name, "offered": count, "allocated": allocated[name]}
            for name, count in sorted(offered.items())
        ],
        "compute": _compute(plan),
        "quotas": _quotas(report),
        "cost": _cost(plan),
        "effective": _effective(report.uses),
        "waste": _waste(report.uses),
        "oversubscription": {
            "resources": [
                {
                    "name": one.resource,
                    "asked": one.asked,
                    "offered": one.offered,
                    "gpus": round(one.gpus, 4),
                    "usd_per_hour": _hour(one.usd_per_hour),
                    "usd_per_month": _month(one.usd_per_hour),
                }
                for one in report.oversubscribed
            ],
            "how": _HOW_OVERSUBSCRIPTION,
        },
    }


def _pool(pool: PoolPlan, line: PoolCost, use: PoolUse) -> dict[str, Any]:
    nodes = pool.nodes.desired
    # With DRA, a GPU is allocated either as a whole or in partitions, so the counts of its resources are
    # alternatives.
    also = " or " if pool.devices else " + "
    logical = (
        "no GPUs"
        if not pool.has_gpus
        else also.join(f"{counted(nodes, 'node')} x {offer.per_node} {offer.name}" for offer in pool.resources)
    )
    share = pool.sharing.mps
    return {
        "name": pool.name,
        "machine_type": pool.machine_type,
        "nodes": nodes,
        "gpu": pool.gpu_product or None,
        "physical_gpus": use.gpus,
        "mode": pool.sharing.mode if pool.has_gpus else None,
        "cpu_millicores": pool.cpu_millicores,
        "memory_mib": pool.memory_mib,
        "logical_gpus": dict(pool.units_desired),
        "logical_how": logical,
        "mps_share": share
        and {"memory_mib": share.memory_mib, "threads_percent": share.threads_percent, "how": _HOW_MPS},
        "usd_per_hour": line.usd_per_hour,
        "usd_per_month": _month(line.usd_per_hour),
        "price_region": pool.price.region,
        "price_date": pool.price.date or None,
        "price_how": _price_how(pool),
        "allocated_share": round(line.allocated_share, 4),
        "utilisation": use.utilisation,
        "utilisation_how": "measured"
        if use.measured
        else f"declared in {pool.path}.utilisation"
        if use.utilisation is not None
        else "unknown: neither declared nor measured"
        if pool.has_gpus
        else "not applicable: the pool has no GPUs",
        "wasted_gpus": {cause: _rounded(use.wasted[cause]) for cause in CAUSES},
    }


def _modes(pools: Sequence[PoolPlan]) -> list[dict[str, Any]]:
    """Return the numbers of physical and logical GPUs for each sharing mode."""
    modes: dict[str, dict[str, Any]] = {}
    for pool in pools:
        if not pool.has_gpus:
            continue
        mode = modes.setdefault(
            pool.sharing.mode, {"mode": pool.sharing.mode, "physical_gpus": 0, "logical_gpus": 0}
        )
        mode["physical_gpus"] += pool.gpus_per_node * pool.nodes.desired
        units = pool.units_desired.values()
        mode["logical_gpus"] += max(units) if pool.devices else sum(units)
    return list(modes.values())


def _compute(plan: EnvironmentPlan) -> list[dict[str, Any]]:
    """Return the CPU (cores) and memory (GiB) of all pools, including CPU pools, and the team quotas for CPU and
    memory.
    """
    return [
        _compute_line(
            plan,
            "cpu",
            "cores",
            {pool.name: free_resources(pool).cpu_millicores / 1000 for pool in plan.pools},
            Decimal(1),
        ),
        _compute_line(
            plan,
            "memory",
            "GiB",
            {pool.name: free_resources(pool).memory_mib / 1024 for pool in plan.pools},
            Decimal(2**30),
        ),
    ]


def _compute_line(
    plan: EnvironmentPlan, name: str, unit: str, each: Mapping[str, float], scale: Decimal
) -> dict[str, Any]:
    quotas = {team_plan.namespace: team_plan.quota.get(f"requests.{name}") for team_plan in plan.teams}
    most = sum(each[pool.name] * pool.nodes.max for pool in plan.pools)
    return {
        "name": name,
        "unit": unit,
        "offered": round(sum(each[pool.name] * pool.nodes.desired for pool in plan.pools), 2),
        "offered_most": round(most, 2),
        "allocated": round(
            float(sum((parse_quantity(quota) for quota in quotas.values() if quota), Decimal(0)) / scale), 2
        ),
        "unreachable": [
            team for team, quota in quotas.items() if quota and float(parse_quantity(quota) / scale) > most
        ],
        "unlimited": [team for team, quota in quotas.items() if quota is None],
        "how": "resources that DaemonSets leave free on the nodes of all pools; teams without a limit are not "
        "included in the quotas",
    }


def _price_how(pool: PoolPlan) -> str:
    price = pool.price
    if price.usd_per_hour is None:
        region = f" in {price.region}" if price.region is not None else ""
        return f"unknown: no list price for {pool.machine_type}{region}; write {pool.path}.usd_per_hour"
    if price.declared:
        return f"{counted(pool.nodes.desired, 'node')} x {price.usd_per_hour} USD/h of {pool.path}.usd_per_hour"
    kind = pool.capacity["type"]
    bound = "an upper bound, because " if kind == "spot" else ""
    unknown = f"; {bound}the price of {kind} capacity is unknown: write {pool.path}.usd_per_hour"
    other = "" if kind == "on-demand" else unknown
    where = f"{price.region} as reference" if price.reference else price.region
    nodes = counted(pool.nodes.desired, "node")
    return f"{nodes} x {price.usd_per_hour} USD/h on demand in {where} ({price.source}){other}"


def _quotas(report: CapacityReport) -> dict[str, Any]:
    last = report.most or report.desired
    return {
        "verdict": last.proof.verdict,
        "at": "most nodes" if report.most is not None else "desired nodes",
        "desired": _quota_fit(report.desired),
        "most": _quota_fit(report.most) if report.most is not None else None,
        "how": _HOW_QUOTAS,
    }


def _quota_fit(fit: QuotaFit) -> dict[str, Any]:
    conflict = fit.conflict
    return {
        "verdict": fit.proof.verdict,
        "nodes": {capacity.pool: capacity.count for capacity in fit.capacities},
        "conflict": None
        if conflict is None
        else {
            "teams": list(conflict.owners),
            "lacking": list(conflict.lacking),
            "minimal": conflict.minimal,
            "smallest": conflict.smallest,
        },
        "placement": [_placed(pods) for pods in fit.proof.pods],
    }


def _placed(pods: PodsOnNode) -> dict[str, Any]:
    return {
        "pool": pods.pool,
        "node": pods.node,
        "team": pods.group.owner,
        "pods_of": pods.group.name,
        "pods": pods.pods,
        "resource": pods.group.resource,
        "units": pods.group.units,
        "cpu_millicores": pods.need.cpu_millicores,
        "memory_mib": pods.need.memory_mib,
    }


def _cost(plan: EnvironmentPlan) -> dict[str, Any]:
    cost = plan.cost
    return {
        "usd_per_hour": _hour(cost.usd_per_hour),
        "usd_per_month": _month(cost.usd_per_hour),
        "unallocated_usd_per_hour": _hour(cost.unallocated_usd_per_hour),
        "most_usd_per_hour": _hour(cost.most_usd_per_hour),
        "unknown_price": list(cost.unknown),
        "prices": cost.prices_text,
        "how": f"desired nodes x price of a node, for pools with a known price; a month has {HOURS_PER_MONTH} h",
    }


def _effective(uses: Sequence[PoolUse]) -> dict[str, Any]:
    known = [use for use in uses if use.effective is not None and use.price is not None]
    usd = fsum((use.effective or 0.0) * (use.price or 0.0) for use in known) if known else None
    cost = fsum(use.gpus * (use.price or 0.0) for use in known)
    return {
        "usd_per_hour": _hour(usd),
        "usd_per_month": _month(usd),
        "share": round(usd / cost, 4) if usd is not None and cost else None,
        "unknown": [use.pool for use in uses if use.gpus and use not in known],
        "how": "GPUs x utilisation x price of a GPU, for pools where both are known",
    }


def _waste(uses: Sequence[PoolUse]) -> dict[str, Any]:
    causes = [_cause(cause, uses) for cause in CAUSES]
    known = [_cause_usd(cause, uses) for cause in CAUSES]
    usd = fsum(one for one in known if one is not None) if any(one is not None for one in known) else None
    return {
        "usd_per_hour": _hour(usd),
        "usd_per_month": _month(usd),
        "at_least": any(use.gpus and (use.price is None or use.utilisation is None) for use in uses),
        "causes": causes,
        "how": "sum of the causes; `at_least` is true if the price or the utilisation of a pool is unknown",
    }


def _cause(cause: str, uses: Sequence[PoolUse]) -> dict[str, Any]:
    usd = _cause_usd(cause, uses)
    gpus = [count for use in uses if (count := use.wasted[cause]) is not None]
    return {
        "cause": cause,
        "gpus": _rounded(sum(gpus)) if gpus else None,
        "usd_per_hour": _hour(usd),
        "usd_per_month": _month(usd),
        "unknown": [use.pool for use in uses if use.gpus and (use.wasted[cause] is None or use.price is None)],
        "how": _HOW_CAUSE[cause],
    }


def _cause_usd(cause: str, uses: Sequence[PoolUse]) -> float | None:
    """Return the cost of one cause of waste in USD/h, or None if it is unknown for every pool.

    The cost covers the pools whose waste and price are known.
    """
    known = [
        count * use.price for use in uses if (count := use.wasted[cause]) is not None and use.price is not None
    ]
    return fsum(known) if known else None


def _hour(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 4)


def _month(usd_per_hour: float | None) -> float | None:
    return None if usd_per_hour is None else round(usd_per_hour * HOURS_PER_MONTH, 2)


def _rounded(gpus: float | None) -> float | None:
    return None if gpus is None else round(gpus, 4)
