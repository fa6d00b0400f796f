"""The plan of metrics and alerts."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_platform.planning.nodes.section import Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """One Prometheus alert."""

    alert: str
    expr: str
    for_: str
    severity: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAlertRule(AlertRule):
    """An alert of one pool, which has its name as a label."""

    pool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringPlan:
    """DCGM metrics and alerts."""

    service_monitor: bool
    pod_monitoring: bool
    """Whether Google's managed Prometheus scrapes the exporter of the operator."""
    exporter: str
    """The label `app` of the exporter's service and pods; empty: the owner of the cluster scrapes one."""
    interval: str
    labels: Labels
    alerts: tuple[AlertRule, ...]
