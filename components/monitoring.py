"""`Monitoring`: the component that scrapes dcgm-exporter and creates the GPU alerts."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from components._options import child_options
from gpu_platform import names
from gpu_platform.planning.monitoring.section import MonitoringPlan, PoolAlertRule

# Name of the port in the service of dcgm-exporter, given by the operator.
_METRICS_PORT = "gpu-metrics"
# Name of the port of its container.
_EXPORTER_PORT = "metrics"


class Monitoring(pulumi.ComponentResource):
    """A ServiceMonitor for the operator's dcgm-exporter, and PrometheusRules; or a PodMonitoring.

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
        if args.pod_monitoring:
            self._create_pod_monitoring(args)
        self.alerts = pulumi.Output.from_input(list(dict.fromkeys(rule.alert for rule in args.alerts)))
        self.register_outputs({"alerts": self.alerts})

    def _create_service_monitor(self, args: MonitoringPlan) -> None:
        k8s.apiextensions.CustomResource(
            "dcgm-exporter",
            api_version="monitoring.coreos.com/v1",
            kind="ServiceMonitor",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name="gpu-platform-dcgm-exporter", namespace=names.OPERATOR_NAMESPACE, labels=args.labels or None
            ),
            spec={
                "selector": {"matchLabels": {"app": args.exporter}},
                "namespaceSelector": {"matchNames": [names.OPERATOR_NAMESPACE]},
                # Keep the labels pod and namespace of the exporter: they name the workload that uses the GPU.
                "endpoints": [{"port": _METRICS_PORT, "interval": args.interval, "honorLabels": True}],
            },
            opts=self._child,
        )

    def _create_pod_monitoring(self, args: MonitoringPlan) -> None:
        k8s.apiextensions.CustomResource(
            "dcgm-exporter-pods",
            api_version="monitoring.googleapis.com/v1",
            kind="PodMonitoring",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name="gpu-platform-dcgm-exporter", namespace=names.OPERATOR_NAMESPACE
            ),
            spec={
                "selector": {"matchLabels": {"app": args.exporter}},
                "endpoints": [{"port": _EXPORTER_PORT, "interval": args.interval}],
            },
            opts=self._child,
        )

    def _create_rules(self, args: MonitoringPlan) -> None:
        k8s.apiextensions.CustomResource(
            "gpu-alerts",
            api_version="monitoring.coreos.com/v1",
            kind="PrometheusRule",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name="gpu-platform-alerts", namespace=names.OPERATOR_NAMESPACE, labels=args.labels or None
            ),
            spec={
                "groups": [
                    {
                        "name": "gpu-platform",
                        "rules": [
                            {
                                "alert": rule.alert,
                                "expr": rule.expr,
                                "for": rule.for_,
                                "labels": {
                                    "severity": rule.severity,
                                    **({"pool": rule.pool} if isinstance(rule, PoolAlertRule) else {}),
                                },
                                "annotations": {"summary": rule.summary},
                            }
                            for rule in args.alerts
                        ],
                    }
                ]
            },
            opts=self._child,
        )
