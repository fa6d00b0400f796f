"""Manifests of an inference service: a Deployment or LeaderWorkerSet, and its Service, scaling and route.

Sources: Kubernetes docs, Deployments, Disruptions, Pod Topology Spread Constraints; LeaderWorkerSet docs, concepts
and exclusive placement; KEDA docs, Prometheus scaler (ignoreNullValues is true by default) and fallback;
HorizontalPodAutoscaler behavior; Gateway API docs, HTTPRoute; read 2026-11-23.

Kubernetes docs, Container Lifecycle Hooks (sleep, on by default since 1.30) and Pod Lifecycle (endpoints of a
terminating pod); llm-d-benchmark#1734, kserve#5485 and #5496; kubernetes-sigs/lws, pkg/controllers
(reconcileHeadlessServices) and pkg/utils/controller; read 2026-11-28.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.planning.workloads.section import InferenceServicePlan, RoutePlan
from gpu_platform.workload_manifests.pods import Manifest, TeamPods

_PROBE_SECONDS: Final = 5
# A saturated server answers late but works. With the default timeout of one second, the kubelet would kill it.
_LATE_SECONDS: Final = 5
_LIVENESS_SECONDS: Final = 30
_LIVENESS_FAILURES: Final = 10
_DRAIN_SECONDS: Final = 10
"""Time for Services, gateways and load balancers to stop sending requests to a terminating pod. It is part of
`grace`.
"""
_LONGEST_PERIOD: Final = 1800  # maximum period of a scaling policy
# With this annotation, a restarted pod recreates its group only if all pods of the group have started before.
# Otherwise a program that exits while other pods wait for nodes or images would recreate the group repeatedly.
# Source: LeaderWorkerSet 0.8, docs on failure handling, and kubernetes-sigs/lws#726; read 2026-11-30.
_AFTER_START: Final[Mapping[str, str]] = {
    "leaderworkerset.sigs.k8s.io/experimental-recreate-group-after-start": "true"
}
_LEADER: Final[Mapping[str, str]] = {"leaderworkerset.sigs.k8s.io/worker-index": "0"}


def inference_service(team: TeamPods, service: InferenceServicePlan) -> list[Manifest]:
    """Return the objects of an inference service, in the order of their creation."""
    name = service.pod.workload.name
    selector = {names.NAME_LABEL: name, **(_LEADER if service.nodes > 1 else {})}
    main = _leader_worker_set(team, service) if service.nodes > 1 else _deployment(team, service)
    found = [team.service(name, selector, service.port), *team.compute_domain(service.pod), main]
    if _several(service):
        found.append(_budget(team, name))
    if service.autoscaling is not None:
        found.append(_scaled(team, name, main, service))
    if service.route is not None:
        found.append(_route(team, name, service.port, service.route))
    return found


def _deployment(team: TeamPods, service: InferenceServicePlan) -> Manifest:
    name = service.pod.workload.name
    spec: Manifest = {
        "replicas": service.replicas,
        "selector": {"matchLabels": {names.NAME_LABEL: name}},
        # With the default of 600 s, a rollout would fail (ProgressDeadlineExceeded) while a model loads.
        "progressDeadlineSeconds": service.progress_seconds,
        # The quota might not cover an additional pod.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": team.template(
            service.pod,
            _serving(service),
            labels=team.queue_labels,
            topologySpreadConstraints=_spread(name, several=_several(service)),
        ),
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": team.metadata(name), "spec": spec}


def _several(service: InferenceServicePlan) -> bool:
    """Return whether a service can have more than one copy of its model, at least temporarily."""
    return service.replicas > 1 or service.autoscaling is not None


def _spread(name: str, *, several: bool) -> list[Manifest]:
    """Return constraints that spread the copies over nodes and zones if possible."""
    if not several:
        return []
    selector = {"matchLabels": {names.NAME_LABEL: name}}
    return [
        {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
        for key in ("topology.kubernetes.io/zone", names.HOSTNAME_LABEL)
    ]


def _serving(service: InferenceServicePlan) -> Manifest:
    asked = {"httpGet": {"path": service.health_path, "port": service.port}}
    probe = {**asked, "periodSeconds": _PROBE_SECONDS, "timeoutSeconds": _LATE_SECONDS}
    alive = {
        **asked,
        "periodSeconds": _LIVENESS_SECONDS,
        "timeoutSeconds": _LIVENESS_SECONDS,
        "failureThreshold": _LIVENESS_FAILURES,
    }
    failures = max(1, -(-service.startup_seconds // _PROBE_SECONDS))
    return {
        "ports": [{"name": "main", "containerPort": service.port}],
        "startupProbe": {**probe, "failureThreshold": failures},
        "readinessProbe": probe,
        "livenessProbe": alive,
        # A pod that begins to terminate still receives requests. SIGTERM is delayed until the requests stop.
        "lifecycle": {
            "preStop": {"sleep": {"seconds": min(_DRAIN_SECONDS, (service.pod.grace_seconds or 0) // 2)}}
        },
    }


def _leader_worker_set(team: TeamPods, service: InferenceServicePlan) -> Manifest:
    name = service.pod.workload.name
    spec: Manifest = {
        "replicas": service.replicas,
        # LeaderWorkerSet creates no headless Service, because a Service with its name already exists.
        "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
        "rolloutStrategy": {
            "type": "RollingUpdate",
            "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1},
        },
        "leaderWorkerTemplate": {
            "size": service.nodes,
            # A copy of the model cannot serve requests if one of its pods is missing.
            # If a pod restarts, all pods of its copy are therefore recreated.
            "restartPolicy": "RecreateGroupOnPodRestart",
            "leaderTemplate": team.template(service.pod, _serving(service)),
            "workerTemplate": team.template(service.pod, {}),
        },
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {**team.metadata(name, queued=True), "annotations": dict(_AFTER_START)},
        "spec": spec,
    }


def _budget(team: TeamPods, name: str) -> Manifest:
    """Return a disruption budget with which a drain can evict one copy at a time.

    If a copy spans several nodes, the budget still counts the pods of all copies. When a worker is evicted, its
    whole copy restarts. The other pods of the copy are then not ready and may be evicted as well.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": team.metadata(name),
        "spec": {
            "maxUnavailable": 1,
            # A drain may always evict pods that are not ready.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": {names.NAME_LABEL: name}},
        },
    }


def _scaled(team: TeamPods, name: str, target: Manifest, service: InferenceServicePlan) -> Manifest:
    """Return the ScaledObject of a service that has `autoscaling`.

    If a metric is missing, the number of replicas is kept. A missing metric does not count as a load of 0.
    """
    scaling = service.autoscaling
    assert scaling is not None  # noqa: S101 - the caller looked
    triggers: list[dict[str, Any]] = []
    if scaling.query:
        metadata = {
            "serverAddress": scaling.server,
            "query": scaling.query,
            "threshold": scaling.threshold,
            # With `true`, an empty result would count as 0.
            # An outage of Prometheus or of the exporter would then remove replicas.
            "ignoreNullValues": "false",
        }
        triggers.append({"type": "prometheus", "metadata": metadata})
    if scaling.kafka:
        known_by = scaling.kafka_authentication
        reference = {"authenticationRef": {"name": known_by}} if known_by else {}
        triggers.append({"type": "kafka", "metadata": dict(scaling.kafka), **reference})
    # The metric reflects a new pod only after its model is loaded.
    # Until then, the same load must not add another pod.
    up = {"type": "Pods", "value": 1, "periodSeconds": min(max(service.startup_seconds, 15), _LONGEST_PERIOD)}
    behavior = {
        "scaleUp": {"policies": [up]},
        "scaleDown": {
            "stabilizationWindowSeconds": scaling.cool_down_seconds,
            "policies": [{**up, "periodSeconds": 60}],
        },
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": team.metadata(name),
        "spec": {
            "scaleTargetRef": {"apiVersion": target["apiVersion"], "kind": target["kind"], "name": name},
            "minReplicaCount": scaling.min_replicas,
            "maxReplicaCount": scaling.max_replicas,
            "fallback": {
                "failureThreshold": 3,
                "replicas": scaling.min_replicas,
                "behavior": "currentReplicasIfHigher",
            },
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
            "triggers": triggers,
        },
    }


def _route(team: TeamPods, name: str, port: int, route: RoutePlan) -> Manifest:
    rule: Manifest = {
        "matches": [{"path": {"type": "PathPrefix", "value": route.path}}],
        "backendRefs": [{"name": name, "port": port}],
    }
    if route.timeout_seconds is not None:
        rule["timeouts"] = {"request": f"{route.timeout_seconds}s"}
    spec: Manifest = {
        "parentRefs": [{"name": route.gateway, "namespace": route.gateway_namespace}],
        "rules": [rule],
    }
    if route.hostname is not None:
        spec["hostnames"] = [route.hostname]
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": team.metadata(name),
        "spec": spec,
    }
