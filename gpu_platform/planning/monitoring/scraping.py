"""Prometheus settings for scraping the GPU metrics exporter and Kueue, including the labels to add."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.planning.monitoring.section import MonitoringPlan

# Names of the metrics port of dcgm-exporter, in the Service that the operator creates and in the container.
_METRICS_PORT: Final = "gpu-metrics"
_EXPORTER_PORT: Final = "metrics"
# Labels of the Service for Kueue's metrics (charts/kueue of v0.19.2, templates/manager/auth_proxy_service.yaml).
_KUEUE_METRICS: Final = {"app.kubernetes.io/name": "kueue", "app.kubernetes.io/component": "metrics-service"}
# The node's pool label in the spelling of Prometheus service discovery.
_POOL_OF_NODE: Final = "__meta_kubernetes_node_label_" + re.sub("[^a-zA-Z0-9]", "_", names.POOL_LABEL)

Spec = Mapping[str, Any]


def exporter_monitor(plan: MonitoringPlan) -> Spec:
    """Return the spec of the ServiceMonitor for the GPU metrics exporter."""
    return {
        "selector": {"matchLabels": {"app": plan.exporter}},
        "namespaceSelector": {"matchNames": [names.OPERATOR_NAMESPACE]},
        # Keep the pod and namespace labels of the exporter, because they name the workload that uses the GPU.
        "endpoints": [
            {
                "port": _METRICS_PORT,
                "interval": plan.interval,
                "honorLabels": True,
                "relabelings": [
                    {"sourceLabels": [_POOL_OF_NODE], "targetLabel": "pool"},
                    # Drop the labels of the exporter's own pod, because series of free GPUs would get them.
                    {"action": "labeldrop", "regex": "namespace|pod|container"},
                ],
            }
        ],
        # Discover the labels of the node too, because a relabeling above reads the node's pool label.
        "attachMetadata": {"node": True},
    }


def exporter_pods(plan: MonitoringPlan) -> Spec:
    """Return the spec of the PodMonitoring for the exporter, for Google's managed Prometheus."""
    return {
        "selector": {"matchLabels": {"app": plan.exporter}},
        "endpoints": [{"port": _EXPORTER_PORT, "interval": plan.interval}],
    }


def queue_monitor(plan: MonitoringPlan) -> Spec:
    """Return the spec of the ServiceMonitor for Kueue."""
    return {
        "selector": {"matchLabels": _KUEUE_METRICS},
        "namespaceSelector": {"matchNames": [plan.queues_in]},
        "endpoints": [
            {
                "port": "https",
                "scheme": "https",
                "interval": plan.interval,
                # Kueue asks the API server whether the token may read /metrics.
                "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                # Kueue's certificate is self-signed; the chart's ServiceMonitor has the same setting.
                "tlsConfig": {"insecureSkipVerify": True},
            }
        ],
    }
