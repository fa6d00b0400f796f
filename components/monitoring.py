"""`Monitoring`: scrapes dcgm-exporter and creates the GPU alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from components._kubernetes_object import KubernetesObject
from components._options import child_options
from gpu_platform.base import names
from gpu_platform.planning.monitoring.grafana import content
from gpu_platform.planning.monitoring.rules import rule_groups
from gpu_platform.planning.monitoring.scraping import exporter_monitor, exporter_pods, queue_monitor
from gpu_platform.planning.monitoring.section import DashboardPlan, MonitoringPlan


class Monitoring(pulumi.ComponentResource):
    """Recording rules, alerts, Grafana dashboards, and the objects that make Prometheus scrape the operator's
    dcgm-exporter.

    It creates a ServiceMonitor and a PrometheusRule, or PodMonitoring and ClusterRules on GKE. It needs the CRDs
    of the Prometheus operator, or of Google's managed Prometheus.

    Outputs: `alerts`, the names of the alerts.
    """

    alerts: pulumi.Output[list[str]]

    def __init__(self, name: str, args: MonitoringPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Monitoring", name, None, opts)
        self._child = child_options(self, opts)
        if args.service_monitor:
            if args.exporter:
                self._create_monitor("dcgm-exporter", "gpu-platform-dcgm-exporter", args, exporter_monitor(args))
            self._create_rules(args)
            if args.queues_in is not None:
                self._create_monitor("kueue-metrics", "gpu-platform-kueue", args, queue_monitor(args))
        if args.pod_monitoring:
            if args.exporter:
                self._create_pod_monitoring(args)
            self._create_cluster_rules(args)
        for dashboard in args.dashboards:
            self._create_dashboard(dashboard, by_operator=args.grafana_operator)
        self.alerts = pulumi.Output.from_input(list(dict.fromkeys(rule.alert for rule in args.alerts)))
        self.register_outputs({"alerts": self.alerts})

    def _create_monitor(self, name: str, object_name: str, args: MonitoringPlan, spec: Mapping[str, Any]) -> None:
        self._create_for_operator(name, "ServiceMonitor", object_name, args, spec)

    def _create_pod_monitoring(self, args: MonitoringPlan) -> None:
        KubernetesObject(
            "dcgm-exporter-pods",
            "monitoring.googleapis.com/v1/PodMonitoring",
            metadata={"name": "gpu-platform-dcgm-exporter", "namespace": names.OPERATOR_NAMESPACE},
            spec=exporter_pods(args),
            opts=self._child,
        )

    def _create_rules(self, args: MonitoringPlan) -> None:
        spec = {"groups": rule_groups(args)}
        self._create_for_operator("gpu-alerts", "PrometheusRule", "gpu-platform-alerts", args, spec)

    def _create_for_operator(
        self, name: str, kind: str, object_name: str, args: MonitoringPlan, spec: Mapping[str, Any]
    ) -> None:
        """Create a Prometheus operator object with the labels that the operator selects."""
        KubernetesObject(
            name,
            f"monitoring.coreos.com/v1/{kind}",
            metadata={"name": object_name, "namespace": names.OPERATOR_NAMESPACE, "labels": args.labels or None},
            spec=spec,
            opts=self._child,
        )

    def _create_dashboard(self, dashboard: DashboardPlan, *, by_operator: bool) -> None:
        labels = None if by_operator else {"grafana_dashboard": "1"}
        KubernetesObject(
            dashboard.config_map,
            "v1/ConfigMap",
            metadata={"name": dashboard.config_map, "namespace": names.OPERATOR_NAMESPACE, "labels": labels},
            data={dashboard.file: content(dashboard)},
            opts=self._child,
        )
        if by_operator:
            KubernetesObject(
                f"{dashboard.config_map}-grafana",
                "grafana.integreatly.org/v1beta1/GrafanaDashboard",
                metadata={"name": dashboard.config_map, "namespace": names.OPERATOR_NAMESPACE},
                spec={
                    "instanceSelector": {"matchLabels": {"dashboards": "grafana"}},
                    "allowCrossNamespaceImport": True,
                    "configMapRef": {"name": dashboard.config_map, "key": dashboard.file},
                },
                opts=self._child,
            )

    def _create_cluster_rules(self, args: MonitoringPlan) -> None:
        KubernetesObject(
            "gpu-cluster-rules",
            "monitoring.googleapis.com/v1/ClusterRules",
            metadata={"name": "gpu-platform-alerts"},
            spec={"groups": [{**group, "interval": args.interval} for group in rule_groups(args)]},
            opts=self._child,
        )
