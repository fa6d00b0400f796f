"""`gpu-platform capacity`: physical and logical GPUs, whether all quotas fit the nodes, cost and waste."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from gpu_platform.base.console import console
from gpu_platform.base.errors import ExitCode
from gpu_platform.base.names import quota_key
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.capacity_document import capacity_document
from gpu_platform.cli.quotas import read_quotas
from gpu_platform.cli.tables import Column, show_table, show_text
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.measured import measured_by_pool
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.capacity import report_capacity
from gpu_platform.planning.cost import HOURS_PER_MONTH
from gpu_platform.stack.loaded import environment_of, load_stack

_EXIT_CODES = {"placed": ExitCode.GOOD, "impossible": ExitCode.FINDING, "unknown": ExitCode.UNKNOWN}


def show_capacity(
    stack: str,
    *,
    utilisation: Path | None,
    seconds: float,
    to_json: bool,
    deployed: bool = False,
    prometheus: str | None = None,
) -> ExitCode:
    """Print the capacity of an environment at its desired size.

    `deployed`: read the quotas of stacks of teams from the cluster, and show them beside the environment's own.

    Returns a finding if the quotas do not fit the nodes at the maximum size of the pools.
    """
    plan = environment_of(load_stack(stack), ", because teams have no pools", "capacity {}")
    pools = [pool.name for pool in plan.pools if pool.has_gpus]
    measured = measured_by_pool(pools, utilisation, prometheus)
    catalog = load_catalog()
    report = report_capacity(plan, catalog, measured=measured, seconds=seconds)
    document = capacity_document(plan, report)
    document["team_stacks"] = _team_stacks(plan) if deployed else None
    if to_json:
        print(json.dumps(document, indent=2))
    else:
        _show(console(), document)
    return _EXIT_CODES[document["quotas"]["verdict"]]


def _team_stacks(plan: EnvironmentPlan) -> list[dict[str, Any]] | None:
    """Return the GPU quotas of the deployed stacks of teams; None if they cannot be read."""
    quotas = read_quotas(ClusterAccess(plan))
    if quotas is None:
        return None
    return [
        {
            "stack": quota.stack,
            "team": name,
            "quota": {key: int(quota.hard.get(key, "0")) for key in plan.quota_limits},
        }
        for name, quota in quotas.items()
        if quota.stack != plan.stack
    ]


def _show_team_stacks(out: Console, document: Mapping[str, Any]) -> None:
    if document["team_stacks"] is None:
        out.print("quotas of stacks of teams are not included: --deployed reads them from the cluster")
        return
    for resource in document["resources"]:
        key = quota_key(resource["name"])
        shares = {each["team"]: each["quota"][key] for each in document["team_stacks"] if each["quota"].get(key)}
        if shares:
            total = resource["allocated"] + sum(shares.values())
            named = ", ".join(f"{team} {count}" for team, count in shares.items())
            over = ": more than is offered" if total > resource["offered"] else ""
            out.print(
                escape(
                    f"{resource['name']}: {total} of {resource['offered']} allocated with the deployed stacks of "
                    f"teams ({named}){over}"
                )
            )


def _show(out: Console, document: Mapping[str, Any]) -> None:
    _show_pools(out, document)
    for mode in document["modes"]:
        out.print(f"mode {mode['mode']}: {mode['logical_gpus']} logical GPUs of {mode['physical_gpus']} physical")
    for resource in document["resources"]:
        out.print(f"{resource['name']}: {resource['allocated']} of {resource['offered']} allocated to teams")
    _show_compute(out, document)
    _show_team_stacks(out, document)
    _show_quotas(out, document["quotas"])
    cost, effective, waste = document["cost"], document["effective"], document["waste"]
    out.print(
        f"cost: {_money(cost)} ({HOURS_PER_MONTH} h); not allocated to any team: "
        f"{_usd(cost['unallocated_usd_per_hour'])}"
    )
    highest = _usd(cost["most_usd_per_hour"])
    out.print(f"highest cost: {highest}, with every pool at its maximum size and its most expensive machine type")
    out.print(escape(f"prices: {cost['prices']}"))
    if cost["unknown_price"]:
        out.print(f"not included in the cost, price unknown: {', '.join(cost['unknown_price'])}")
    share = f" ({effective['share']:.0%})" if effective["share"] is not None else ""
    out.print(f"effective: {_money(effective)}{share}: {effective['how']}")
    if effective["unknown"]:
        out.print(
            f"not included in the effective cost: {', '.join(effective['unknown'])} (set utilisation in the pool, "
            "or use --utilisation)"
        )
    out.print(f"waste: {'at least ' if waste['at_least'] else ''}{_money(waste)}, by cause:")
    _show_causes(out, waste)
    for one in document["oversubscription"]["resources"]:
        out.print(
            f"oversubscription: {one['asked']} x {one['name']} allocated to teams, {one['offered']} available: "
            f"{counted(one['gpus'], 'GPU')} more would be needed, {_money(one)}; not included in the waste"
        )


def _show_pools(out: Console, document: Mapping[str, Any]) -> None:
    columns = (
        Column("pool"),
        Column("nodes", right=True),
        Column("machine type", 2),
        Column("GPUs", 1, right=True),
        Column("logical GPUs"),
        Column("allocated", right=True),
        Column("USD/h", right=True),
        Column("mode", 5),
        Column("GPU", 4),
        Column("USD/month", 6, right=True),
        Column("utilisation", 7, right=True),
    )
    rows = [
        (
            pool["name"],
            str(pool["nodes"]),
            pool["machine_type"],
            str(pool["physical_gpus"]),
            ", ".join(f"{count} x {_short(name)}" for name, count in pool["logical_gpus"].items()),
            f"{pool['allocated_share']:.0%}" if pool["gpu"] else "",
            _number(pool["usd_per_hour"]),
            pool["mode"] or "",
            pool["gpu"] or "none",
            _number(pool["usd_per_month"]),
            _utilisation(pool),
        )
        for pool in document["pools"]
    ]
    show_table(out, columns, rows, f"Stack {document['stack']}: pools")
    for pool in document["pools"]:
        each = f"{pool['cpu_millicores']}m CPU and {pool['memory_mib']}Mi for pods on each node"
        logical = f"{pool['logical_how']}{_mps(pool)}" + ("" if pool["gpu"] else f", {each}")
        show_text(out, f"  {pool['name']}: {logical}; {pool['price_how']}", 4)


def _short(resource: str) -> str:
    """Return a resource's name as members read it; the line of its pool has the whole one."""
    return resource.removeprefix("nvidia.com/")


def _utilisation(pool: Mapping[str, Any]) -> str:
    if pool["gpu"] is None:
        return ""
    return "unknown" if pool["utilisation"] is None else f"{pool['utilisation']:.0%}"


def _mps(pool: Mapping[str, Any]) -> str:
    share = pool["mps_share"]
    return (
        f", each with {share['memory_mib']} MiB and {share['threads_percent']} % of the threads" if share else ""
    )


def _show_compute(out: Console, document: Mapping[str, Any]) -> None:
    """Print the CPU and memory that quotas of teams allow, beside what the nodes of all pools have."""
    for one in document["compute"]:
        most = f" (at most {one['offered_most']:g})" if one["offered_most"] > one["offered"] else ""
        unlimited = f"; without a limit: {', '.join(one['unlimited'])}" if one["unlimited"] else ""
        out.print(
            f"{one['name']}: {one['allocated']:g} {one['unit']} in quotas of teams, "
            f"{one['offered']:g}{most} on the nodes of all pools{unlimited}"
        )
        if one["allocated"] > one["offered_most"]:
            alone = f"; individually: {', '.join(one['unreachable'])}" if one["unreachable"] else ""
            out.print(f"  quotas of {one['name']} exceed the nodes and cannot be used in full together{alone}")


def _show_quotas(out: Console, quotas: Mapping[str, Any]) -> None:
    for key, size in (("desired", "desired"), ("most", "maximum")):
        result = quotas[key]
        if result is None:
            continue
        nodes = ", ".join(f"{pool} {count}" for pool, count in result["nodes"].items())
        verdict = {
            "placed": "fit the nodes",
            "impossible": "do not fit the nodes",
            "unknown": "unknown, the search reached its time limit; try more --seconds",
        }[result["verdict"]]
        out.print(f"quotas at {size} size ({nodes}): {verdict}")
        if result["conflict"] is not None:
            _show_conflict(out, result["conflict"])
    show_text(out, f"  {quotas['how']}", 4)


def _show_conflict(out: Console, conflict: Mapping[str, Any]) -> None:
    kind = "smallest set of teams" if conflict["smallest"] else "set of teams"
    minimal = "; without any one of them the others fit" if conflict["minimal"] else ""
    out.print(f"  {kind} that do not fit together: {', '.join(conflict['teams'])}{minimal}")
    for lacking in conflict["lacking"]:
        out.print(f"  not enough: {lacking}")


def _show_causes(out: Console, waste: Mapping[str, Any]) -> None:
    columns = (
        Column("cause"),
        Column("GPUs", right=True),
        Column("USD/h", right=True),
        Column("USD/month", 1, right=True),
        Column("definition", wrap=True),
    )
    rows: list[tuple[str, ...]] = []
    for cause in waste["causes"]:
        without = f"; unknown for {', '.join(cause['unknown'])}" if cause["unknown"] else ""
        numbers = (cause["gpus"], cause["usd_per_hour"], cause["usd_per_month"])
        rows.append((cause["cause"], *map(_number, numbers), cause["how"] + without))
    show_table(out, columns, rows)


def _money(figures: Mapping[str, Any]) -> str:
    if figures["usd_per_hour"] is None:
        return "unknown"
    return f"{figures['usd_per_hour']:.2f} USD/h, {figures['usd_per_month']:.2f} USD/month"


def _usd(per_hour: float | None) -> str:
    return "unknown" if per_hour is None else f"{per_hour:.2f} USD/h"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
