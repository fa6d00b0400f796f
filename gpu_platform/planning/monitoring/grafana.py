"""Grafana dashboards: JSON files beside this module, which `python -m tools.dashboards` writes.

Their queries use recorded metrics alone, so they are the same for every version of the exporter.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from gpu_platform.planning.monitoring.section import DashboardPlan

NAMES: Final = ("fleet", "team", "node", "workload", "cost")


def dashboards() -> tuple[DashboardPlan, ...]:
    """Return the plan of every dashboard."""
    return tuple(
        DashboardPlan(name=name, config_map=f"gpu-platform-dashboard-{name}", file=f"{name}.json")
        for name in NAMES
    )


def content(dashboard: DashboardPlan) -> str:
    """Return the JSON of a dashboard."""
    folder = resources.files("gpu_platform.planning.monitoring") / "dashboards"
    return (folder / dashboard.file).read_text("utf-8")
