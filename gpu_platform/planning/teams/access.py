"""Rights of a team's members, as rules of the roles viewer, user and admin, and of the cluster-wide read role.

No role may change quotas, limits, network policies, Roles or RoleBindings, because a member could use them to get
more than the stack file grants the team. No role may impersonate, bind, escalate or request tokens of service
accounts.

The API groups are the groups of the projects' CRDs (JobSet, Kubeflow Trainer, KubeRay, LeaderWorkerSet, KEDA,
Gateway API and its Inference Extension, Kueue, cluster autoscaler); read 2026-11-23. A rule for an API group that
is not installed grants nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

READ = ("get", "list", "watch")
CHANGE = ("create", "update", "patch", "delete")
_WRITE = (*READ, *CHANGE)


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One rule of a role, which allows verbs on resources of one API group. The core group is an empty string."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Kinds of one API group that users create.

    `addons` are the add-ons in the stack file that install the CRDs of these kinds.
    """

    group: str
    resources: tuple[str, ...]
    addons: tuple[str, ...] = ()


# Secrets are not included, because viewers may not read them.
_OBJECTS: tuple[_Kinds, ...] = (
    _Kinds(
        "",
        ("pods", "services", "configmaps", "persistentvolumeclaims", "serviceaccounts"),
    ),
    _Kinds("apps", ("deployments", "statefulsets", "replicasets")),
    _Kinds("batch", ("jobs", "cronjobs")),
    _Kinds("policy", ("poddisruptionbudgets",)),
    _Kinds("autoscaling", ("horizontalpodautoscalers",)),
    _Kinds("resource.k8s.io", ("resourceclaims", "resourceclaimtemplates")),
    _Kinds("networking.k8s.io", ("ingresses",)),
    _Kinds("gateway.networking.k8s.io", ("httproutes", "grpcroutes"), ("gateway",)),
    _Kinds("inference.networking.k8s.io", ("inferencepools",)),
    _Kinds("jobset.x-k8s.io", ("jobsets",), ("jobset", "trainer")),
    _Kinds("leaderworkerset.x-k8s.io", ("leaderworkersets",), ("leaderworkerset",)),
    _Kinds("trainer.kubeflow.org", ("trainjobs", "trainingruntimes"), ("trainer",)),
    _Kinds("kubeflow.org", ("pytorchjobs", "mpijobs")),
    _Kinds("ray.io", ("rayclusters", "rayjobs", "rayservices"), ("kuberay",)),
    _Kinds("keda.sh", ("scaledobjects", "scaledjobs", "triggerauthentications"), ("keda",)),
)
# The platform or controllers manage these objects, so team members may not change them.
_READ_ALONE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("pods/log", "events", "resourcequotas", "limitranges")),
    ("events.k8s.io", ("events",)),
    ("apps", ("controllerrevisions",)),
    ("discovery.k8s.io", ("endpointslices",)),
    ("networking.k8s.io", ("networkpolicies",)),
    ("rbac.authorization.k8s.io", ("roles", "rolebindings")),
    ("kueue.x-k8s.io", ("localqueues", "workloads")),
    # Kueue creates ProvisioningRequests, and a PodTemplate for each kind of their pods, for admitted workloads.
    # A member's own request would add nodes without regard to queue and quota. So would a member's PodTemplate,
    # because Kueue uses an existing one with the expected name, and an autoscaler reads it later.
    # Source: kubernetes-sigs/kueue v0.19.2, pkg/controller/admissionchecks/provisioning; read 2026-12-01.
    ("", ("podtemplates",)),
    ("autoscaling.x-k8s.io", ("provisioningrequests",)),
)
_SCALES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("apps", ("deployments/scale", "statefulsets/scale", "replicasets/scale")),
    ("leaderworkerset.x-k8s.io", ("leaderworkersets/scale",)),
)

VIEWER: tuple[AccessRule, ...] = tuple(
    AccessRule(group, resources, READ)
    for group, resources in (*((kinds.group, kinds.resources) for kinds in _OBJECTS), *_READ_ALONE)
)
"""Rules of the role for reading the team's objects, logs, quota and queues. The role cannot read Secrets or open a
shell in a pod.
"""
USER: tuple[AccessRule, ...] = (
    *(AccessRule(kinds.group, kinds.resources, _WRITE) for kinds in _OBJECTS),
    *(AccessRule(group, resources, READ) for group, resources in _READ_ALONE),
    AccessRule("", ("secrets",), _WRITE),
    AccessRule("", ("pods/exec", "pods/attach", "pods/portforward"), ("create", "get")),
    AccessRule("", ("pods/ephemeralcontainers",), ("get", "update", "patch")),
    *(AccessRule(group, resources, ("get", "update", "patch")) for group, resources in _SCALES),
)
"""Rules of the role for running workloads. Users in `members` have this role."""
ADMIN: tuple[AccessRule, ...] = (
    *USER,
    *(AccessRule(kinds.group, kinds.resources, ("deletecollection",)) for kinds in _OBJECTS),
    AccessRule("", ("secrets",), ("deletecollection",)),
    AccessRule("", ("pods/eviction",), ("create",)),
)
"""Rules of the role that has all rights of the user role, and can also delete whole collections and evict pods."""
COMPUTE_DOMAINS = AccessRule("resource.nvidia.com", ("computedomains",), _WRITE)
"""Rule that allows ComputeDomains for a team's jobs if NVLink connects nodes. The DRA driver's controller handles
the ComputeDomains.
"""
COMPUTE_DOMAINS_READ = AccessRule("resource.nvidia.com", ("computedomains",), READ)
ADDONS_BY_GROUP: Mapping[str, tuple[str, ...]] = {kinds.group: kinds.addons for kinds in _OBJECTS if kinds.addons}
"""Add-ons in the stack file that install the CRDs of each API group."""
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
"""Rules that let every member read nodes, and the cluster-wide objects that workloads refer to."""


def cluster_role_name(namespace: str) -> str:
    """Return the name of the ClusterRole for a team's members. The ClusterRoleBinding has the same name."""
    return f"gpu-platform-team-{namespace}"
