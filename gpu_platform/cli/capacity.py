"""`gpu-platform capacity`: physical and logical GPUs, cost, waste, and whether the nodes satisfy all quotas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from gpu_platform.base.console import console
from gpu_platform.base.errors import ExitCode
from gpu_platform.catalog import load_catalog
from gpu_platform.cli import capacity_lines as lines
from gpu_platform.cli.capacity_document import capacity_document
from gpu_platform.cli.capacity_page import capacity_page
from gpu_platform.cli.quotas import read_quotas
from gpu_platform.cli.tables import Column, show_table, show_text
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.measured import measured_by_pool
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.capacity import report_capacity
from gpu_platform.stack.loaded import environment_of, load_stack

_EXIT_CODES = {"placed": ExitCode.GOOD, "impossible": ExitCode.FINDING, "unknown": ExitCode.UNKNOWN}


def show_capacity(
    stack: str,
    *,
    utilisation: Path | None,
    seconds: float,
    output: str,
    deployed: bool = False,
    prometheus: str | None = None,
) -> ExitCode:
    """Print the capacity of an environment at its desired size as text, JSON or HTML.

    With `deployed`, the quotas of team stacks are read from the cluster and shown next to the quotas of the
    environment.

    Returns the exit code of a finding if the nodes cannot satisfy all quotas when every pool has its maximum size.
    """
    plan = environment_of(load_stack(stack), ", because teams have no pools", "capacity {}")
    pools = [pool.name for pool in plan.pools if pool.has_gpus]
    measured = measured_by_pool(pools, utilisation, prometheus)
    catalog = load_catalog()
    report = report_capacity(plan, catalog, measured=measured, seconds=seconds)
    document = capacity_document(plan, report)
    document["team_stacks"] = _team_stacks(plan) if deployed else None
    if output == "json":
        print(json.dumps(document, indent=2))
    elif output == "html":
        print(capacity_page(document), end="")
    else:
        _show(console(), document)
    return _EXIT_CODES[document["quotas"]["verdict"]]


def _team_stacks(plan: EnvironmentPlan) -> list[dict[str, Any]] | None:
    """Return the GPU quotas of the deployed team stacks, or None if they cannot be read."""
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


def _show(out: Console, document: Mapping[str, Any]) -> None:
    _show_pools(out, document)
    allocated = (
        f"{one['name']}: {one['allocated']} of {one['offered']} allocated to teams"
        for one in document["resources"]
    )
    quotas = document["quotas"]
    units = (*lines.modes(document), *allocated, *lines.compute(document), *lines.team_stacks(document))
    for line in (*units, *lines.quotas(quotas)):
        out.print(escape(line))
    show_text(out, f"  {quotas['how']}", 4)
    for line in lines.cost(document):
        out.print(escape(line))
    out.print(f"{lines.waste(document)}, by cause:")
    _show_causes(out, document["waste"])
    for line in lines.oversubscription(document):
        out.print(line)


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
            lines.logical_gpus(pool),
            f"{pool['allocated_share']:.0%}" if pool["gpu"] else "",
            lines.number(pool["usd_per_hour"]),
            pool["mode"] or "",
            pool["gpu"] or "none",
            lines.number(pool["usd_per_month"]),
            lines.utilisation(pool),
        )
        for pool in document["pools"]
    ]
    show_table(out, columns, rows, f"Stack {document['stack']}: pools")
    for line in lines.pools(document):
        show_text(out, f"  {line}", 4)


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
        numbers = (cause["gpus"], cause["usd_per_hour"], cause["usd_per_month"])
        rows.append((cause["cause"], *map(lines.number, numbers), lines.definition(cause)))
    show_table(out, columns, rows)
