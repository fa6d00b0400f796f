"""What `up` and `preview` print in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape

from gpu_platform.errors import GpuPlatformError
from gpu_platform.paths import sandbox_kubeconfig
from gpu_platform.planning import EnvironmentPlan, Plan
from gpu_platform.planning.cost.cost import held_shares
from gpu_platform.rollout.node import Outcome
from gpu_platform.usage import Usage
from validators.render import print_report
from validators.report import ValidationReport

_MARKS = {"create": "+", "update": "~", "replace": "±", "delete": "-"}


@dataclass(slots=True)
class Summary:
    """What one `up` did and found; filled as it goes."""

    engine: str
    why: str
    changes: Mapping[str, Any] | None = None
    report: ValidationReport | None = None
    usage: Usage | None = None
    pool_changes: Sequence[Mapping[str, Any]] | None = ()
    """What became of the pools of the last deployment; None: not known."""
    mig_changes: Sequence[Outcome] = ()
    """What became of the nodes whose MIG layout changes."""

    def to_json(self, plan: Plan, failure: GpuPlatformError | None) -> dict[str, Any]:
        """Return it as plain JSON values."""
        environment = plan if plan.kind == "environment" else None
        return {
            "version": 1,
            "stack": plan.stack,
            "engine": {"name": self.engine, "why": self.why},
            "error": str(failure) if failure else None,
            "pool_changes": self.pool_changes,
            "mig_changes": [outcome.to_json() for outcome in self.mig_changes],
            "changes": self.changes,
            "logical_gpus": {
                pool.name: dict(pool.units_desired) for pool in (environment.pools if environment else ())
            },
            "pods": {"scheduled": self.usage.scheduled, "pending": self.usage.pending} if self.usage else None,
            "validation": self.report.to_json() if self.report else None,
            "cost": _cost(environment, self.usage) if environment else None,
        }


def _cost(plan: EnvironmentPlan, usage: Usage | None) -> dict[str, Any]:
    shares = held_shares(plan.pools, usage.units if usage else {})
    idle = sum((line.usd_per_hour or 0.0) * (1 - shares[line.pool]) for line in plan.cost.pools)
    return {
        "usd_per_hour": round(plan.cost.usd_per_hour, 4),
        "wasted_usd_per_hour": round(idle, 4),
        "unallocated_usd_per_hour": round(plan.cost.unallocated_usd_per_hour, 4),
        "unknown_price": list(plan.cost.unknown),
    }


def show_changes(out: Console, changes: Mapping[str, Any]) -> None:
    """Print each change with its fields, then the counts."""
    for change in changes["changes"]:
        place = f"{change['namespace']}/" if change["namespace"] else ""
        reason = f" ({change['reason']})" if change["reason"] else ""
        out.print(escape(f"{_MARKS[change['action']]} {change['kind']} {place}{change['name']}{reason}"))
        for field in change["fields"]:
            out.print(escape(f"    {field['path']}: {field['old']} → {field['new']}"))
    out.print(_counts(changes))


def _counts(changes: Mapping[str, Any]) -> str:
    parts = [
        f"{count} to {action}" if action in _MARKS else f"{count} {action}"
        for action, count in changes["counts"].items()
    ]
    return "changes: " + ", ".join(parts)


def show_summary(out: Console, summary: Summary, plan: Plan) -> None:
    """Print the report of an `up`: engine, resources, logical GPUs, pods, nodes, cost and waste."""
    if summary.report is not None:
        print_report(summary.report, out)
    out.print(f"stack       {plan.stack}")
    out.print(escape(f"engine      {summary.engine}: {summary.why}"))
    if summary.changes is not None:
        out.print(f"resources   {_by_kind(summary.changes)}")
        counts = summary.changes["counts"]
        out.print("            " + ", ".join(f"{action} {count}" for action, count in counts.items()))
    if plan.kind != "environment":
        return
    for index, outcome in enumerate(summary.mig_changes):
        out.print(escape(f"{'MIG' if index == 0 else '':<12}{outcome}"))
    for index, pool in enumerate(plan.pools):
        logical = ", ".join(f"{count} x {name}" for name, count in pool.units_desired.items())
        physical = pool.gpus_per_node * pool.nodes.desired
        label = "GPUs" if index == 0 else ""
        out.print(
            f"{label:<12}{pool.name}: {logical} logical, of {physical} {pool.gpu_product} ({pool.sharing.mode})"
        )
    if summary.usage is not None:
        pending = f", {summary.usage.pending} pending" if summary.usage.pending else ""
        out.print(f"GPU pods    {summary.usage.scheduled} scheduled{pending}")
    if summary.report is not None:
        counts = summary.report.to_json()["summary"]
        out.print(f"nodes       {counts['pass']} of {sum(counts.values())} validated")
    cost = _cost(plan, summary.usage)
    share = cost["wasted_usd_per_hour"] / cost["usd_per_hour"] if cost["usd_per_hour"] else 0.0
    out.print(f"cost        {cost['usd_per_hour']:.2f} USD/h")
    out.print(
        f"waste       {cost['wasted_usd_per_hour']:.2f} USD/h ({share:.0%}) held by no pod; "
        f"{cost['unallocated_usd_per_hour']:.2f} USD/h granted to no team"
    )
    if cost["unknown_price"]:
        out.print(f"            without {', '.join(cost['unknown_price'])}: price unknown")
    if plan.cluster.access == "sandbox":
        out.print(escape(f"kubeconfig  {sandbox_kubeconfig(plan.cluster.name)}"))


def _by_kind(changes: Mapping[str, Any]) -> str:
    kinds: dict[str, int] = {}
    for action, counts in changes["kinds"].items():
        for kind, count in counts.items() if action != "delete" else ():
            kinds[kind] = kinds.get(kind, 0) + count
    return ", ".join(f"{kind.split('.')[0]} {count}" for kind, count in sorted(kinds.items()))
