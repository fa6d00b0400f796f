"""`Monitoring`: the component that scrapes dcgm-exporter and creates the GPU alerts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pulumi

from components._kubernetes_object import KubernetesObject
from components._options import child_options
from gpu_platform.base import names
from gpu_platform.planning.monitoring.grafana import content
from gpu_platform.planning.monitoring.rules import rule_groups
from gpu_platform.planning.monitoring.section import DashboardPlan, MonitoringPlan

# Name of the port in the service of dcgm-exporter, given by the operator.
_METRICS_PORT = "gpu-metrics"
# Labels of the service of Kueue's metrics (charts/kueue of v0.19.2, templates/manager/auth_proxy_service.yaml).
_KUEUE_METRICS = {"app.kubernetes.io/name": "kueue", "app.kubernetes.io/component": "metrics-service"}
# Name of the port of its container.
_EXPORTER_PORT = "metrics"
# The pool's label of a node, as Prometheus spells it in its discovery.
_POOL_OF_NODE = "__meta_kubernetes_node_label_" + re.sub("[^a-zA-Z0-9]", "_", names.POOL_LABEL)


class Monitoring(pulumi.ComponentResource):
    """Scraping of the operator's dcgm-exporter, recording rules, alerts and Grafana dashboards.

    Objects are a ServiceMonitor and a PrometheusRule, or PodMonitoring and ClusterRules on GKE.

    Needs the CRDs of the Prometheus operator, or of Google's managed Prometheus. Outputs: `alerts`, their names.
    """

    alerts: pulumi.Output[list[str]]

    def __init__(self, name: str, args: MonitoringPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Monitoring", name, None, opts)
        self._child = child_options(self, opts)
        if args.service_monitor:
            if args.exporter:
                self._create_service_monitor(args)
            self._create_rules(args)
            if args.queues_in is not None:
                self._create_queue_monitor(args)
        if args.pod_monitoring:
            if args.exporter:
                self._create_pod_monitoring(args)
            self._create_cluster_rules(args)
        for dashboard in args.dashboards:
            self._create_dashboard(dashboard, by_operator=args.grafana_operator)
        self.alerts = pulumi.Output.from_input(list(dict.fromkeys(rule.alert for rule in args.alerts)))
        self.register_outputs({"alerts": self.alerts})

    def _create_service_monitor(self, args: MonitoringPlan) -> None:
        self._create_for_operator(
            "dcgm-exporter",
            "ServiceMonitor",
            "gpu-platform-dcgm-exporter",
            args,
            {
                "selector": {"matchLabels": {"app": args.exporter}},
                "namespaceSelector": {"matchNames": [names.OPERATOR_NAMESPACE]},
                # Keep the labels pod and namespace of the exporter: they name the workload that uses the GPU.
                "endpoints": [
                    {
                        "port": _METRICS_PORT,
                        "interval": args.interval,
                        "honorLabels": True,
                        "relabelings": [
                            {"sourceLabels": [_POOL_OF_NODE], "targetLabel": "pool"},
                            # Series of a free GPU name no pod: they would get the exporter's own, as if it held
                            # the GPU.
                            {"action": "labeldrop", "regex": "namespace|pod|container"},
                        ],
                    }
                ],
                # Of the exporter's node, so that rules know its pool.
                "attachMetadata": {"node": True},
            },
        )

    def _create_queue_monitor(self, args: MonitoringPlan) -> None:
        self._create_for_operator(
            "kueue-metrics",
            "ServiceMonitor",
            "gpu-platform-kueue",
            args,
            {
                "selector": {"matchLabels": _KUEUE_METRICS},
                "namespaceSelector": {"matchNames": [args.queues_in]},
                "endpoints": [
                    {
                        "port": "https",
                        "scheme": "https",
                        "interval": args.interval,
                        # Kueue asks the API server whether the bearer may read /metrics.
                        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                        # Its certificate is its own, as the chart's ServiceMonitor has it.
                        "tlsConfig": {"insecureSkipVerify": True},
                    }
                ],
            },
        )

    def _create_pod_monitoring(self, args: MonitoringPlan) -> None:
        KubernetesObject(
            "dcgm-exporter-pods",
            "monitoring.googleapis.com/v1/PodMonitoring",
            metadata={"name": "gpu-platform-dcgm-exporter", "namespace": names.OPERATOR_NAMESPACE},
            spec={
                "selector": {"matchLabels": {"app": args.exporter}},
                "endpoints": [{"port": _EXPORTER_PORT, "interval": args.interval}],
            },
            opts=self._child,
        )

    def _create_rules(self, args: MonitoringPlan) -> None:
        spec = {"groups": rule_groups(args)}
        self._create_for_operator("gpu-alerts", "PrometheusRule", "gpu-platform-alerts", args, spec)

    def _create_for_operator(
        self, name: str, kind: str, object_name: str, args: MonitoringPlan, spec: Mapping[str, Any]
    ) -> None:
        """Create an object of the Prometheus operator, with the labels by which it selects them."""
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
