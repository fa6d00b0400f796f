"""Rights of a team's members: rules of the roles viewer, user and admin, and of the cluster-wide read role.

No role may change quotas, limits, network policies, Roles or RoleBindings, by which a member could leave the
team's share, and none may impersonate, bind, escalate or request tokens of service accounts.
API groups: those of the projects' CRDs (JobSet, Kubeflow Trainer, KubeRay, LeaderWorkerSet, KEDA, Gateway API and
its Inference Extension, Kueue, cluster autoscaler); read 2026-11-23. A group that is not installed gives no right.
"""

from __future__ import annotations

from dataclasses import dataclass

READ = ("get", "list", "watch")
CHANGE = ("create", "update", "patch", "delete")
_WRITE = (*READ, *CHANGE)


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One rule of a role: verbs on resources of one API group; "": the core group."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


# What users make, by API group. Without secrets, which viewers may not read.
_OBJECTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "",
        ("pods", "services", "configmaps", "persistentvolumeclaims", "serviceaccounts", "podtemplates"),
    ),
    ("apps", ("deployments", "statefulsets", "replicasets")),
    ("batch", ("jobs", "cronjobs")),
    ("policy", ("poddisruptionbudgets",)),
    ("autoscaling", ("horizontalpodautoscalers",)),
    ("resource.k8s.io", ("resourceclaims", "resourceclaimtemplates")),
    ("networking.k8s.io", ("ingresses",)),
    ("gateway.networking.k8s.io", ("httproutes", "grpcroutes")),
    ("inference.networking.k8s.io", ("inferencepools",)),
    ("jobset.x-k8s.io", ("jobsets",)),
    ("leaderworkerset.x-k8s.io", ("leaderworkersets",)),
    ("trainer.kubeflow.org", ("trainjobs", "trainingruntimes")),
    ("kubeflow.org", ("pytorchjobs", "mpijobs")),
    ("ray.io", ("rayclusters", "rayjobs", "rayservices")),
    ("keda.sh", ("scaledobjects", "scaledjobs", "triggerauthentications")),
)
# Of the platform or of controllers: nobody of the team changes them.
_READ_ALONE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("pods/log", "events", "resourcequotas", "limitranges")),
    ("events.k8s.io", ("events",)),
    ("apps", ("controllerrevisions",)),
    ("discovery.k8s.io", ("endpointslices",)),
    ("networking.k8s.io", ("networkpolicies",)),
    ("rbac.authorization.k8s.io", ("roles", "rolebindings")),
    ("kueue.x-k8s.io", ("localqueues", "workloads")),
    # Kueue makes them for what it starts: one of a member's own would bring nodes past queue and quota.
    ("autoscaling.x-k8s.io", ("provisioningrequests",)),
)
_SCALES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("apps", ("deployments/scale", "statefulsets/scale", "replicasets/scale")),
    ("leaderworkerset.x-k8s.io", ("leaderworkersets/scale",)),
)

VIEWER: tuple[AccessRule, ...] = tuple(
    AccessRule(group, resources, READ) for group, resources in (*_OBJECTS, *_READ_ALONE)
)
"""Reads the team's objects, logs, quota and queues; no secrets, and no shell in a pod."""
USER: tuple[AccessRule, ...] = (
    *(AccessRule(group, resources, _WRITE) for group, resources in _OBJECTS),
    *(AccessRule(group, resources, READ) for group, resources in _READ_ALONE),
    AccessRule("", ("secrets",), _WRITE),
    AccessRule("", ("pods/exec", "pods/attach", "pods/portforward"), ("create", "get")),
    AccessRule("", ("pods/ephemeralcontainers",), ("get", "update", "patch")),
    *(AccessRule(group, resources, ("get", "update", "patch")) for group, resources in _SCALES),
)
"""Runs workloads: the right of `members`."""
ADMIN: tuple[AccessRule, ...] = (
    *USER,
    *(AccessRule(group, resources, ("deletecollection",)) for group, resources in _OBJECTS),
    AccessRule("", ("secrets",), ("deletecollection",)),
    AccessRule("", ("pods/eviction",), ("create",)),
)
"""A user who may also delete whole collections and evict pods."""
COMPUTE_DOMAINS = AccessRule("resource.nvidia.com", ("computedomains",), _WRITE)
"""Where NVLink connects nodes: domains of a team's own jobs, which the DRA driver's controller serves."""
COMPUTE_DOMAINS_READ = AccessRule("resource.nvidia.com", ("computedomains",), READ)
CLUSTER_READ: tuple[AccessRule, ...] = (
    AccessRule("", ("nodes",), READ),
    AccessRule("storage.k8s.io", ("storageclasses",), READ),
    AccessRule("scheduling.k8s.io", ("priorityclasses",), READ),
    AccessRule("node.k8s.io", ("runtimeclasses",), READ),
    AccessRule("resource.k8s.io", ("deviceclasses", "resourceslices"), READ),
    AccessRule("networking.k8s.io", ("ingressclasses",), READ),
    AccessRule("gateway.networking.k8s.io", ("gatewayclasses",), READ),
    AccessRule("trainer.kubeflow.org", ("clustertrainingruntimes",), READ),
    AccessRule(
        "kueue.x-k8s.io", ("clusterqueues", "resourceflavors", "topologies", "workloadpriorityclasses"), READ
    ),
)
"""Every member, on the whole cluster: what a pod may name, and where it could run."""


def cluster_role_name(namespace: str) -> str:
    """Return the name of the ClusterRole, and of its binding, of a team's members."""
    return f"gpu-platform-team-{namespace}"
