"""The plan's rules in the format of Prometheus, its operator and Google's managed Prometheus."""

from __future__ import annotations

from typing import Any

from gpu_platform.planning.monitoring.section import MonitoringPlan


def rule_groups(plan: MonitoringPlan) -> list[dict[str, Any]]:
    """Return the rule groups. A group is evaluated in order, so that a metric is recorded before it is used."""
    return [
        {
            "name": "gpu-platform-metrics",
            "rules": [
                {
                    "record": rule.record,
                    "expr": rule.expr,
                    **({"labels": dict(rule.labels)} if rule.labels else {}),
                }
                for rule in plan.recording
            ],
        },
        {
            "name": "gpu-platform-alerts",
            "rules": [
                {
                    "alert": rule.alert,
                    "expr": rule.expr,
                    "for": rule.for_,
                    "labels": {"severity": rule.severity, **rule.labels},
                    "annotations": {"summary": rule.summary, "runbook_url": f"{plan.runbooks}#{rule.runbook}"},
                }
                for rule in plan.alerts
            ],
        },
    ]
