"""The plan of metrics, recording rules and alerts."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_platform.planning.nodes.section import Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRule:
    """One metric that Prometheus computes from others."""

    record: str
    expr: str
    labels: Labels = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """One Prometheus alert. `runbook`: what whoever gets it does first, a place in docs/runbooks.md."""

    alert: str
    expr: str
    for_: str
    severity: str
    summary: str
    labels: Labels = field(default_factory=dict[str, str])

    @property
    def runbook(self) -> str:
        """Its heading in docs/runbooks.md."""
        return self.alert.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardPlan:
    """A Grafana dashboard. `name`: of its file; `config_map`: its name, with the file's content at key `file`."""

    name: str
    config_map: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringPlan:
    """DCGM metrics, recording rules and alerts."""

    service_monitor: bool
    pod_monitoring: bool
    """Whether Google's managed Prometheus scrapes the exporter of the operator, where a pool has it, and evaluates
    the rules."""
    exporter: str
    """The label `app` of the exporter's service and pods; empty: no pool has the operator's."""
    queues_in: str | None = None
    """Namespace of the Kueue that the Prometheus operator scrapes; None where the program installs none."""
    exporter_version: str
    interval: str
    labels: Labels
    runbooks: str
    """Address of the page of runbooks."""
    recording: tuple[RecordingRule, ...]
    alerts: tuple[AlertRule, ...]
    dashboards: tuple[DashboardPlan, ...] = ()
    grafana_operator: bool = False
    """Whether Grafana's operator loads the dashboards; else a sidecar does, by the label of their ConfigMaps."""

    def has_alert(self, name: str) -> bool:
        """Return whether something evaluates an alert."""
        return (self.service_monitor or self.pod_monitoring) and any(rule.alert == name for rule in self.alerts)
