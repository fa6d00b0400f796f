"""What Prometheus scrapes of the exporter of GPU metrics and of Kueue, and with which labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.planning.monitoring.section import MonitoringPlan

# Name of the port in the service of dcgm-exporter, given by the operator, and of the port of its container.
_METRICS_PORT: Final = "gpu-metrics"
_EXPORTER_PORT: Final = "metrics"
# Labels of the service of Kueue's metrics (charts/kueue of v0.19.2, templates/manager/auth_proxy_service.yaml).
_KUEUE_METRICS: Final = {"app.kubernetes.io/name": "kueue", "app.kubernetes.io/component": "metrics-service"}
# The pool's label of a node, as Prometheus spells it in its discovery.
_POOL_OF_NODE: Final = "__meta_kubernetes_node_label_" + re.sub("[^a-zA-Z0-9]", "_", names.POOL_LABEL)

Spec = Mapping[str, Any]


def exporter_monitor(plan: MonitoringPlan) -> Spec:
    """Return the spec of the ServiceMonitor of the exporter of GPU metrics."""
    return {
        "selector": {"matchLabels": {"app": plan.exporter}},
        "namespaceSelector": {"matchNames": [names.OPERATOR_NAMESPACE]},
        # Keep the labels pod and namespace of the exporter: they name the workload that uses the GPU.
        "endpoints": [
            {
                "port": _METRICS_PORT,
                "interval": plan.interval,
                "honorLabels": True,
                "relabelings": [
                    {"sourceLabels": [_POOL_OF_NODE], "targetLabel": "pool"},
                    # Series of a free GPU name no pod: they would get the exporter's own, as if it held the GPU.
                    {"action": "labeldrop", "regex": "namespace|pod|container"},
                ],
            }
        ],
        # Of the exporter's node, so that rules know its pool.
        "attachMetadata": {"node": True},
    }


def exporter_pods(plan: MonitoringPlan) -> Spec:
    """Return the spec of the PodMonitoring of the exporter, for Google's managed Prometheus."""
    return {
        "selector": {"matchLabels": {"app": plan.exporter}},
        "endpoints": [{"port": _EXPORTER_PORT, "interval": plan.interval}],
    }


def queue_monitor(plan: MonitoringPlan) -> Spec:
    """Return the spec of the ServiceMonitor of Kueue."""
    return {
        "selector": {"matchLabels": _KUEUE_METRICS},
        "namespaceSelector": {"matchNames": [plan.queues_in]},
        "endpoints": [
            {
                "port": "https",
                "scheme": "https",
                "interval": plan.interval,
                # Kueue asks the API server whether the bearer may read /metrics.
                "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                # Its certificate is its own, as the chart's ServiceMonitor has it.
                "tlsConfig": {"insecureSkipVerify": True},
            }
        ],
    }
