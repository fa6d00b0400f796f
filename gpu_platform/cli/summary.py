"""Prints the report of `up` and the changes of `preview`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape

from gpu_platform.base.errors import GpuPlatformError
from gpu_platform.base.paths import sandbox_kubeconfig
from gpu_platform.cli.tables import show_text
from gpu_platform.deploy.changes import value_text
from gpu_platform.deploy.rollout.node import Outcome
from gpu_platform.live.usage import Usage
from gpu_platform.live.workload_status import UnreadyWorkload
from gpu_platform.planning import EnvironmentPlan, Plan
from gpu_platform.planning.cost import idle_cost
from validators.render import print_report
from validators.report import ValidationReport

_MARKS = {"create": "+", "update": "~", "replace": "±", "delete": "-", "retain": "=", "skip": "!"}


@dataclass(slots=True)
class Summary:
    """Results of an `up` run, which fills in the fields step by step."""

    engine: str
    why: str
    changes: Mapping[str, Any] | None = None
    report: ValidationReport | None = None
    usage: Usage | None = None
    pool_changes: Sequence[Mapping[str, Any]] | None = ()
    """Changes to pools since the last deployment, or None if they are unknown."""
    team_changes: Sequence[Mapping[str, Any]] | None = ()
    """Teams that left the stack or returned to it, or None if this is unknown."""
    mig_changes: Sequence[Outcome] = ()
    """Results for the nodes whose MIG layout changes."""
    unready: Sequence[UnreadyWorkload] = ()
    """Declared team workloads that do not have all their pods running."""
    impact: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Effects of all changes, as announced before the first change was made."""

    def to_json(self, plan: Plan, failure: GpuPlatformError | None) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        environment = plan if plan.kind == "environment" else None
        return {
            "version": 1,
            "stack": plan.stack,
            "engine": {"name": self.engine, "why": self.why},
            "error": str(failure) if failure else None,
            "impact": dict(self.impact),
            "pool_changes": self.pool_changes,
            "team_changes": self.team_changes,
            "mig_changes": [outcome.to_json() for outcome in self.mig_changes],
            "changes": self.changes,
            "logical_gpus": {
                pool.name: dict(pool.units_desired) for pool in (environment.pools if environment else ())
            },
            "pods": {"scheduled": self.usage.scheduled, "pending": self.usage.pending} if self.usage else None,
            "unready_workloads": [workload.to_json() for workload in self.unready],
            "validation": self.report.to_json() if self.report else None,
            "cost": _cost(environment, self.usage) if environment else None,
        }


def _cost(plan: EnvironmentPlan, usage: Usage | None) -> dict[str, Any]:
    idle = None if usage is None else idle_cost(plan.pools, plan.cost, usage.units)  # None if not counted
    return {
        "usd_per_hour": _rounded(plan.cost.usd_per_hour),
        "wasted_usd_per_hour": _rounded(idle),
        "unallocated_usd_per_hour": _rounded(plan.cost.unallocated_usd_per_hour),
        "unknown_price": list(plan.cost.unknown),
        "prices": plan.cost.prices_text,
    }


def _rounded(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 4)


def show_changes(out: Console, changes: Mapping[str, Any], *, objects: bool = True) -> None:
    """Print the counts of changes. With `objects`, first print each change with its fields."""
    for change in changes["changes"] if objects else ():
        place = f"{change['namespace']}/" if change["namespace"] else ""
        reason = f" ({change['reason']})" if change["reason"] else ""
        out.print(escape(f"{_MARKS.get(change['action'], ' ')} {change['kind']} {place}{change['name']}{reason}"))
        for notice in change.get("notices", ()):
            out.print(escape(f"    {notice}"))
        for one in change["fields"]:
            out.print(escape(f"    {one['path']}: {value_text(one['old'])} → {value_text(one['new'])}"))
    if not objects:
        for notice in _notices(changes):
            out.print(escape(notice))
    hint = "" if objects or not changes["changes"] else "; --objects lists them"
    out.print(_counts(changes) + hint)


def _counts(changes: Mapping[str, Any]) -> str:
    parts = [
        f"{count} to {action}" if action in _MARKS else f"{count} {action}"
        for action, count in _shown_counts(changes)
    ]
    return "changes: " + ", ".join(parts)


def _shown_counts(changes: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the counts by action. The counts of retained and skipped objects are left out if they are 0."""
    return [
        (action, count) for action, count in changes["counts"].items() if count or action not in {"retain", "skip"}
    ]


def _notices(changes: Mapping[str, Any]) -> Iterator[str]:
    """Yield the notices of all objects, each with the name of its object."""
    for change in changes["changes"]:
        place = f" in namespace {change['namespace']}" if change["namespace"] else ""
        for notice in change.get("notices", ()):
            yield f"{change['kind']} {change['name']}{place}: {notice}"


def show_summary(out: Console, summary: Summary, plan: Plan) -> None:
    """Print the report of `up`: engine, resources, logical GPUs, pods, nodes, cost and waste."""
    if summary.report is not None:
        print_report(summary.report, out)
    out.print(f"stack       {plan.stack}")
    out.print(escape(f"engine      {summary.engine}: {summary.why}"))
    if summary.changes is not None:
        show_text(out, f"resources   {_by_kind(summary.changes)}", 12)
        counts = _shown_counts(summary.changes)
        show_text(out, "            " + ", ".join(f"{action} {count}" for action, count in counts), 12)
        for line in _notices(summary.changes):
            out.print(escape(f"            {line}"))
    for index, workload in enumerate(summary.unready):
        out.print(escape(f"{'not running' if index == 0 else '':<12}{workload}"))
    if plan.kind != "environment":
        return
    for index, outcome in enumerate(summary.mig_changes):
        out.print(escape(f"{'MIG' if index == 0 else '':<12}{outcome}"))
    # After a failed rollout, the other changes of the stack are not applied, so these GPUs are only planned.
    heading = "planned" if summary.changes is None and summary.usage is None else "GPUs"
    for index, pool in enumerate(pool for pool in plan.pools if pool.has_gpus):
        logical = ", ".join(f"{count} x {name}" for name, count in pool.units_desired.items())
        physical = pool.gpus_per_node * pool.nodes.desired
        label = heading if index == 0 else ""
        shared = "" if pool.sharing.mode == "none" else f" ({pool.sharing.mode})"
        out.print(f"{label:<12}{pool.name}: {logical} logical, of {physical} {pool.gpu_product}{shared}")
    if summary.usage is not None:
        pending = f", {summary.usage.pending} pending" if summary.usage.pending else ""
        out.print(f"GPU pods    {summary.usage.scheduled} scheduled{pending}")
    if summary.report is not None:
        counts = summary.report.to_json()["summary"]
        out.print(f"nodes       {counts['pass']} of {sum(counts.values())} validated")
    for line in cost_lines(_cost(plan, summary.usage)):
        out.print(escape(line))
    if plan.cluster.access == "sandbox":
        out.print(escape(f"kubeconfig  {sandbox_kubeconfig(plan.cluster.name)}"))


def cost_lines(cost: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the lines about cost, waste and prices.

    The line about cost names the pools whose price is unknown, so that they do not seem to be free of charge.
    """
    prices = f"prices      {cost['prices']}"
    unknown: Sequence[str] = cost["unknown_price"]
    pools = f"pool{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}"
    if cost["usd_per_hour"] is None:
        fix = "set usd_per_hour in the pool"
        return f"cost        unknown: no list price for {pools}; {fix}", "waste       unknown", prices
    beside = f" and the unknown price of {pools}" if unknown else ""
    without = f"; without {pools}" if unknown else ""
    if cost["wasted_usd_per_hour"] is None:
        wasted = "unknown, because the pods were not counted"
    else:
        share = cost["wasted_usd_per_hour"] / cost["usd_per_hour"] if cost["usd_per_hour"] else 0.0
        wasted = f"{cost['wasted_usd_per_hour']:.2f} USD/h ({share:.0%}) not used by any pod"
    return (
        f"cost        {cost['usd_per_hour']:.2f} USD/h{beside}",
        f"waste       {wasted}; {cost['unallocated_usd_per_hour']:.2f} USD/h not allocated to any team{without}",
        prices,
    )


def _by_kind(changes: Mapping[str, Any]) -> str:
    kinds: dict[str, int] = {}
    for action, counts in changes["kinds"].items():
        for kind, count in counts.items() if action not in ("delete", "skip") else ():
            kinds[kind] = kinds.get(kind, 0) + count
    return ", ".join(f"{kind.split('.')[0]} {count}" for kind, count in sorted(kinds.items()))
