"""`gpu-platform cost`: the cost by pool, team and workload, and changes to the stack file that reduce it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.cost_page import cost_page, nodes_text
from gpu_platform.live.measured import held_by_team, measured_by_pool
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.capacity import report_capacity
from gpu_platform.planning.cost import HOURS_PER_MONTH
from gpu_platform.planning.spending import Saving, Spending, savings, spending_of
from gpu_platform.stack.loaded import environment_of, load_stack, plan_platform


def show_cost(
    stack: str, *, utilisation: Path | None, prometheus: str | None, seconds: float, output: str
) -> ExitCode:
    """Print the cost of an environment at its desired size, and possible changes that reduce it, as text, JSON or
    HTML.
    """
    loaded = load_stack(stack)
    plan = environment_of(loaded, ", because teams have no pools", "cost {}")
    pools = [pool.name for pool in plan.pools if pool.has_gpus]
    measured = measured_by_pool(pools, utilisation, prometheus)
    held = held_by_team(prometheus, [one.namespace for one in plan.teams]) if prometheus is not None else None
    catalog = load_catalog()
    spending = spending_of(plan, report_capacity(plan, catalog, measured=measured, seconds=seconds))
    platform = cast("Mapping[str, Any]", loaded.platform)

    def replan(changed: Mapping[str, Any]) -> EnvironmentPlan | None:
        try:
            found = plan_platform(changed, loaded.stack)
        except BadInput:
            return None
        return found if found.kind == "environment" else None

    found = savings(platform, plan, catalog, replan, measured=measured, held=held, seconds=seconds)
    budget = cast("Mapping[str, float] | None", platform.get("budget"))
    document = cost_document(plan.stack, spending, found, budget["usd_per_month"] if budget else None)
    if output == "json":
        print(json.dumps(document, indent=2))
    elif output == "html":
        print(cost_page(document), end="")
    else:
        _show(console(), document)
    return ExitCode.GOOD


def cost_document(
    stack: str, spending: Spending, found: tuple[Saving, ...], budget_usd_per_month: float | None
) -> dict[str, Any]:
    """Return the cost as plain JSON values. Money is in USD/h, or null if unknown."""
    document = asdict(spending)
    for team, each in zip(document["teams"], spending.teams, strict=True):
        team["usd_per_hour"] = each.usd_per_hour
    month = None if spending.usd_per_hour is None else spending.usd_per_hour * HOURS_PER_MONTH
    return {
        "version": 1,
        "stack": stack,
        **document,
        "usd_per_month": month,
        "budget_usd_per_month": budget_usd_per_month,
        "savings": [asdict(saving) for saving in found],
    }


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _show(out: Console, document: Mapping[str, Any]) -> None:
    pools = Table(title=f"Stack {document['stack']}: USD/h by pool", title_justify="left", box=None)
    for column in ("pool", "capacity", "nodes", "a node", "cost", "no team's", "in use", "idle"):
        pools.add_column(column, justify="left" if column in ("pool", "capacity") else "right")
    for pool in document["pools"]:
        used = "unknown" if pool["utilisation"] is None else f"{pool['utilisation']:.0%}"
        pools.add_row(
            pool["pool"],
            pool["capacity"],
            nodes_text(pool),
            _usd(pool["node_usd_per_hour"]),
            _usd(pool["usd_per_hour"]),
            _usd(pool["unallocated_usd_per_hour"]),
            used if pool["gpus"] else "",
            _usd(pool["idle_usd_per_hour"]) if pool["gpus"] else "",
        )
    out.print(pools)
    _show_sums(out, document)
    _show_teams(out, document)
    _show_savings(out, document)


def _show_sums(out: Console, document: Mapping[str, Any]) -> None:
    total = _usd(document["usd_per_hour"])
    out.print(f"cost: {total} USD/h, {_usd(document['usd_per_month'])} USD a month of {HOURS_PER_MONTH} h")
    mix = ", ".join(f"{kind} {_usd(usd)}" for kind, usd in document["by_capacity"].items())
    if mix:
        out.print(escape(f"capacity: {mix} USD/h"))
    if any(kind == "spot" for kind in document["by_capacity"]):
        out.print("spot nodes are counted at the on-demand price, unless the pool has usd_per_hour")
    if document["unknown"]:
        pools: list[str] = document["unknown"]
        out.print(f"not included, because the price is unknown: {', '.join(pools)} (set usd_per_hour in the pool)")
    if document["budget_usd_per_month"] is not None:
        out.print(f"budget: {_usd(document['budget_usd_per_month'])} USD a month")
    sources = dict.fromkeys(
        pool["price_source"] for pool in document["pools"] if pool["node_usd_per_hour"] is not None
    )
    for source in sources:
        out.print(escape(f"price: {source}"))
    measured = [pool["pool"] for pool in document["pools"] if pool["measured"]]
    idle = document["idle_usd_per_hour"]
    how = f"measured for {', '.join(measured)}" if measured else "according to the declared utilisation"
    out.print(f"idle: {_usd(idle)}{'' if idle is None else f' USD/h, {how}'}")


def _show_teams(out: Console, document: Mapping[str, Any]) -> None:
    for team in document["teams"]:
        parts = ", ".join(f"{pool} {_usd(usd)}" for pool, usd in team["by_pool"].items())
        unknown = f"; unknown for {', '.join(team['unknown'])}" if team["unknown"] else ""
        out.print(escape(f"team {team['team']}: {_usd(team['usd_per_hour'])} USD/h ({parts or 'none'}{unknown})"))
        for workload in document["workloads"]:
            if workload["team"] == team["team"]:
                out.print(
                    escape(
                        f"  {workload['workload']}: {_usd(workload['usd_per_hour'])} USD/h, "
                        f"{counted(workload['units'], 'unit')} on {workload['pool']}"
                    )
                )
    out.print(f"not allocated to any team: {_usd(document['unallocated_usd_per_hour'])} USD/h")
    if document["without_gpus_usd_per_hour"]:
        out.print(f"pools without GPUs: {_usd(document['without_gpus_usd_per_hour'])} USD/h")


def _show_savings(out: Console, document: Mapping[str, Any]) -> None:
    if not document["savings"]:
        out.print(
            "found no change to the stack file that reduces the cost and still fits all quotas and workloads"
        )
        return
    out.print("changes that each reduce the cost:")
    for number, saving in enumerate(document["savings"], 1):
        saved = saving["usd_per_hour"]
        amount = (
            "an unknown amount, because no price list contains spot prices"
            if saved is None
            else f"{_usd(saved)} USD/h"
        )
        out.print(escape(f"{number}. {amount}: {saving['what']}"))
        for edit in saving["edits"]:
            before = "unset" if edit["before"] is None else json.dumps(edit["before"])
            out.print(escape(f"     {edit['path']}: {before} -> {json.dumps(edit['after'])}"))
        out.print(escape(f"     {saving['proof']}"))
