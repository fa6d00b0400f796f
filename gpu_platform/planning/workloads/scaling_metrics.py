"""Warn about services that scale by metrics of their pods although Prometheus may not connect to the pods.

Prometheus scrapes the pods that a PodMonitor selects, but the network policies of a team deny connections from
other namespaces. Without the metric, KEDA keeps the number of replicas.

Sources: vLLM docs, Production Metrics; Prometheus Operator docs, PodMonitor (its namespaceSelector selects pods of
any namespace, so members may not create one); KEDA docs, Prometheus scaler (ignoreNullValues); read 2026-11-30.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from gpu_platform.catalog.scaling_triggers import PROMETHEUS
from gpu_platform.planning.decision import Decision
from gpu_platform.stack.team import Team

# Metrics of the node's GPUs, of Kubernetes and of message brokers. Their exporters run in other namespaces.
_ELSEWHERE: Final = ("gpu:", "DCGM_", "container_", "kafka_", "kube_", "node_")
_SELECTED: Final = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)\s*[{\[]")
_NAMESPACE: Final = str(urlsplit(PROMETHEUS).hostname).split(".")[1]


def metric_decisions(team: Team) -> Iterator[Decision]:
    """Yield a warning for each service that scales by metrics that the Prometheus of `addons` cannot read."""
    if any(source.namespace == _NAMESPACE for source in team.ingress):
        return
    for service in team.inference_services:
        scaling = service.autoscaling
        if scaling is None or scaling.query is None or scaling.server is not None:
            continue
        if _reads_only_others(scaling.query):
            continue
        yield Decision(
            subject=f"inference service {team.name}/{service.name}",
            what="warning: autoscaling",
            chosen=f"Prometheus in namespace {_NAMESPACE} may not connect to the pods of the team",
            why="if the query reads metrics of the service's pods, it finds none, and the number of replicas "
            f"never changes; write ingress: [{{namespace: {_NAMESPACE}, ports: [{service.port}]}}] in the team, "
            "with the port of the metrics, and apply a PodMonitor for the pods",
        )


def _reads_only_others(query: str) -> bool:
    """Return whether a query selects only metrics that do not come from the service's pods."""
    metrics = _SELECTED.findall(query)
    return bool(metrics) and all(metric.startswith(_ELSEWHERE) for metric in metrics)
