"""Grafana dashboards: JSON files in this package that `python -m tools.dashboards` generates.

Their queries use only recorded metrics, so they are the same for every version of the exporter.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from gpu_platform.planning.monitoring.section import DashboardPlan

NAMES: Final = ("fleet", "team", "node", "workload", "cost")


def dashboards() -> tuple[DashboardPlan, ...]:
    """Return the plan for every dashboard."""
    return tuple(
        DashboardPlan(name=name, config_map=f"gpu-platform-dashboard-{name}", file=f"{name}.json")
        for name in NAMES
    )


def content(dashboard: DashboardPlan) -> str:
    """Return the content of a dashboard as JSON."""
    folder = resources.files("gpu_platform.planning.monitoring") / "dashboards"
    return (folder / dashboard.file).read_text("utf-8")
