"""Compare nodes, GPUs, cost and quotas with the last deployment. Both increases and decreases are included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import Any

from gpu_platform.planning.changes.deployed import NOT_DEPLOYED, mapping_of, team_facts, teams_of
from gpu_platform.planning.changes.impact import short
from gpu_platform.planning.changes.pool_facts import pool_facts
from gpu_platform.planning.changes.pools import PoolChange, recreated_pools, unused_sizes
from gpu_platform.planning.changes.team_impacts import limit_of
from gpu_platform.planning.cost import HOURS_PER_MONTH
from gpu_platform.planning.plan import EnvironmentPlan, Plan

_COST, _BUDGET = "cost_usd_per_hour", "budget_usd_per_month"


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A change in the size of a pool or team, in `cost` or in `budget`, with the old and the new value as text."""

    subject: str
    what: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.what} {self.old} → {self.new}"

    def to_json(self) -> dict[str, str]:
        """Return the change for a JSON report."""
        return asdict(self)


def size_outputs(plan: EnvironmentPlan) -> Mapping[str, Any]:
    """Return the stack outputs that `size_changes` compares, for a plan that is not deployed."""
    return {
        "pools": pool_facts(plan),
        "teams": team_facts(plan),
        _COST: plan.cost.usd_per_hour,
        _BUDGET: plan.cost.budget_usd_per_month,
    }


def size_changes(
    outputs: Mapping[str, Any], plan: Plan, changes: Sequence[PoolChange] = ()
) -> tuple[SizeChange, ...]:
    """Return the sizes that differ from the last deployment. The result is empty if the stack has no outputs.

    Pool sizes are compared by their desired number of nodes. Edits that change no nodes are ignored. `changes` are
    the changes to pools. Sizes that an older release did not write are not compared.
    """
    found: list[SizeChange] = []
    if plan.kind == "environment":
        unused = unused_sizes(outputs.get("pools"), plan, recreated_pools(changes))
        if "pools" in outputs:
            found += _of_pools(mapping_of(outputs["pools"]), pool_facts(plan), unused)
        if _COST in outputs:
            costs = (_month(cost) for cost in (outputs[_COST], usd_per_hour(plan, unused)))
            found.append(SizeChange("cost", "USD a month", *costs))
        if _BUDGET in outputs:
            budgets = (_budget(budget) for budget in (outputs[_BUDGET], plan.cost.budget_usd_per_month))
            found.append(SizeChange("budget", "USD a month", *budgets))
    if "teams" in outputs:
        found += _of_teams(teams_of(outputs), team_facts(plan))
    return tuple(one for one in found if one.old != one.new)


def usd_per_hour(plan: EnvironmentPlan, unused: Mapping[str, int]) -> float | None:
    """Return the cost of the planned nodes in USD per hour, or None if it is not known.

    `unused` contains the pools whose edited `desired` changes no nodes, each with the node count to use instead.
    """
    if plan.cost.usd_per_hour is None:
        return None
    kept = (
        (unused[pool.name] - pool.nodes.desired) * (pool.average_usd_per_hour or 0.0)
        for pool in plan.pools
        if pool.name in unused
    )
    return fsum((plan.cost.usd_per_hour, *kept))


def _of_pools(
    before: Mapping[str, Any], now: Mapping[str, Any], unused: Mapping[str, int]
) -> Iterator[SizeChange]:
    for name in dict.fromkeys((*before, *now)):
        sizes = [mapping_of(facts.get(name)) for facts in (before, now)]
        nodes = [int(facts.get("nodes", 0)) for facts in sizes]
        nodes[1] = unused.get(name, nodes[1])
        gpus = [count * int(facts.get("gpus_per_node", 0)) for count, facts in zip(nodes, sizes, strict=True)]
        yield SizeChange(f"pool {name}", "nodes", *map(str, nodes))
        yield SizeChange(f"pool {name}", "GPUs", *map(str, gpus))


def _of_teams(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[SizeChange]:
    for name in dict.fromkeys((*before, *now)):
        old, new = (mapping_of(mapping_of(facts.get(name)).get("quota")) for facts in (before, now))
        keys = [key for key in dict.fromkeys((*old, *new)) if limit_of(old, key) != limit_of(new, key)]
        texts = (
            ", ".join(f"{short(key)}: {limit_of(quota, key)}" for key in keys) if name in facts else NOT_DEPLOYED
            for quota, facts in ((old, before), (new, now))
        )
        yield SizeChange(f"team {name}", "quota", *texts)


def _month(usd_per_hour: float | None) -> str:
    return "unknown" if usd_per_hour is None else f"{usd_per_hour * HOURS_PER_MONTH:,.0f}"


def _budget(usd_per_month: float | None) -> str:
    """Return a budget as text. The stack output contains 0 if the stack has no budget."""
    return NOT_DEPLOYED if not usd_per_month else f"{usd_per_month:,.0f}"
