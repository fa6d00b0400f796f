"""Types for the monitoring plan: metrics, recording rules, alerts and dashboards."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_platform.planning.nodes.section import Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRule:
    """A metric that Prometheus computes from other metrics."""

    record: str
    expr: str
    labels: Labels = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A Prometheus alert. `runbook` is a section in docs/runbooks.md with the first steps for whoever receives the
    alert.
    """

    alert: str
    expr: str
    for_: str
    severity: str
    summary: str
    labels: Labels = field(default_factory=dict[str, str])

    @property
    def runbook(self) -> str:
        """The anchor of the alert's section in docs/runbooks.md."""
        return self.alert.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardPlan:
    """A Grafana dashboard. `name` is the name of its file. ConfigMap `config_map` contains the file under the key
    `file`.
    """

    name: str
    config_map: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringPlan:
    """DCGM metrics, recording rules and alerts."""

    service_monitor: bool
    pod_monitoring: bool
    """Whether Google's managed Prometheus evaluates the rules. It also scrapes the operator's exporter if a pool
    runs the exporter.
    """
    exporter: str
    """The label `app` of the exporter's service and pods. Empty if no pool runs the operator's exporter."""
    queues_in: str | None = None
    """Namespace of Kueue, which the Prometheus operator scrapes, or None if the program does not install Kueue."""
    exporter_version: str
    interval: str
    labels: Labels
    runbooks: str
    """Address of the runbooks page."""
    recording: tuple[RecordingRule, ...]
    alerts: tuple[AlertRule, ...]
    dashboards: tuple[DashboardPlan, ...] = ()
    grafana_operator: bool = False
    """Whether Grafana's operator loads the dashboards. Otherwise a sidecar loads them by the label of their
    ConfigMaps.
    """

    def has_alert(self, name: str) -> bool:
        """Return whether an alert exists and a Prometheus evaluates it."""
        return (self.service_monitor or self.pod_monitoring) and any(rule.alert == name for rule in self.alerts)
