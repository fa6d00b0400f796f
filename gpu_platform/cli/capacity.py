"""`gpu-platform capacity`: physical and logical GPUs, quotas against them, cost and waste."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from gpu_platform.cli.console import console
from gpu_platform.errors import BadInput, ExitCode, Problem
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.cost import HOURS_PER_MONTH
from gpu_platform.stacks import load_stack


def show_capacity(stack: str, *, as_json: bool) -> ExitCode:
    """Print the capacity of an environment at its desired size."""
    plan = load_stack(stack).plan
    if plan.kind != "environment":
        problem = Problem(
            "kind",
            "'team'",
            "environment: pools belong to it",
            f"run `gpu-platform capacity {plan.environment_stack}`",
        )
        raise BadInput(stack, [problem])
    document = capacity_document(plan)
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        show_document(console(), document)
    return ExitCode.GOOD


def capacity_document(plan: EnvironmentPlan) -> dict[str, Any]:
    """Return capacity, grants and cost as plain JSON values; money in USD, memory in MiB."""
    offered: dict[str, int] = {}
    for pool in plan.pools:
        for name, count in pool.units_desired.items():
            offered[name] = offered.get(name, 0) + count
    granted = {
        name: sum(int(tenant.quota.get(f"requests.{name}", "0")) for tenant in plan.tenants) for name in offered
    }
    cost = plan.cost
    return {
        "version": 1,
        "stack": plan.stack,
        "pools": [
            {
                "name": pool.name,
                "machine_type": pool.machine_type,
                "nodes": pool.nodes.desired,
                "gpu": pool.gpu_product,
                "physical_gpus": pool.gpus_per_node * pool.nodes.desired,
                "mode": pool.sharing.mode,
                "logical_gpus": dict(pool.units_desired),
                "usd_per_hour": line.usd_per_hour,
                "granted_share": round(line.granted_share, 4),
            }
            for pool, line in zip(plan.pools, cost.pools, strict=True)
        ],
        "resources": [
            {"name": name, "offered": count, "granted": granted[name]} for name, count in sorted(offered.items())
        ],
        "cost": {
            "usd_per_hour": round(cost.usd_per_hour, 4),
            "usd_per_month": round(cost.usd_per_hour * HOURS_PER_MONTH, 2),
            "ungranted_usd_per_hour": round(cost.ungranted_usd_per_hour, 4),
            "unknown_price": list(cost.unknown),
        },
    }


def show_document(console: Console, document: Mapping[str, Any]) -> None:
    """Print a capacity document as tables."""
    pools = Table(title=f"Stack {document['stack']}: pools", title_justify="left", box=None)
    for column in ("pool", "nodes", "machine type", "GPU", "GPUs", "mode", "logical GPUs", "USD/h", "granted"):
        pools.add_column(column, overflow="fold")
    for pool in document["pools"]:
        logical = ", ".join(f"{count} x {name}" for name, count in pool["logical_gpus"].items())
        price = "unknown" if pool["usd_per_hour"] is None else f"{pool['usd_per_hour']:.2f}"
        pools.add_row(
            pool["name"],
            str(pool["nodes"]),
            pool["machine_type"],
            pool["gpu"],
            str(pool["physical_gpus"]),
            pool["mode"],
            logical,
            price,
            f"{pool['granted_share']:.0%}",
        )
    console.print(pools)
    for resource in document["resources"]:
        console.print(f"{resource['name']}: {resource['granted']} granted of {resource['offered']} offered")
    cost = document["cost"]
    console.print(
        f"cost: {cost['usd_per_hour']:.2f} USD/h, {cost['usd_per_month']:.2f} USD/month ({HOURS_PER_MONTH} h); "
        f"granted to nobody: {cost['ungranted_usd_per_hour']:.2f} USD/h"
    )
    if cost["unknown_price"]:
        console.print(f"not in the cost, price unknown: {', '.join(cost['unknown_price'])}")
