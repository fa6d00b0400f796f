"""`TeamNamespace`: the namespace of a team, with quotas, access, network policies and workloads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from components._in_namespace import role_ref
from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options, formerly, retained
from components._policies_in_effect import policies_in_effect
from components.config_map import pod_file
from components.device_claims import claim_template, compute_domain, of_team
from components.queues import TeamQueue, TeamQueueArgs
from components.team_admission import (
    TeamAdmission,
    TeamAdmissionArgs,
    TeamPodSecurity,
    TeamPodSecurityArgs,
)
from components.team_pod_defaults import TeamPodDefaults, TeamPodDefaultsArgs
from components.team_workloads import create_workloads
from gpu_platform.base import names
from gpu_platform.guide.document import CONFIG_MAP as GUIDE_CONFIG_MAP
from gpu_platform.guide.document import config_map_data
from gpu_platform.planning.clouds.section import PodEgress
from gpu_platform.planning.guide import GuidePlan
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.teams.access import (
    ADMIN,
    CLUSTER_READ,
    COMPUTE_DOMAINS,
    COMPUTE_DOMAINS_READ,
    USER,
    VIEWER,
    AccessRule,
    cluster_role_name,
)
from gpu_platform.planning.teams.section import (
    NODE_START_SECONDS,
    HostEgress,
    PodIngress,
    ServiceAccountPlan,
    TeamMember,
    TeamPlan,
    WorkloadPlan,
)
from gpu_platform.planning.workloads import TeamWorkloadsPlan
from gpu_platform.workload_manifests import TeamPods

# NodeLocal DNSCache listens on the host network, outside every namespace.
# The first address is the default of Kubernetes, and the second is the default of Kubespray.
# Source: Kubespray v2.31.0, roles/kubespray_defaults, nodelocaldns_ip; read 2026-11-30.
_NODE_LOCAL_DNS = ("169.254.20.10/32", "169.254.25.10/32")
_DNS_NAMESPACE = "kube-system"
# DNS uses TCP for responses that are too large for UDP.
_DNS_PORTS = ((53, "UDP"), (53, "TCP"))
# Deny both directions by default, because teams share nodes.
# Pods reach only their own namespace and DNS.
_DENIED = ["Ingress", "Egress"]
# API of GKE's FQDN policies; source: GKE docs, "FQDN network policies"; read 2026-11-25.
_HOST_POLICY_API = "networking.gke.io/v1alpha1"
# API of Cilium's policies; source: Cilium docs 1.19, "DNS based" and "Layer 7 Policies"; read 2026-11-25.
_CILIUM_POLICY_API = "cilium.io/v2"
_CILIUM_NAMESPACE_LABEL = "k8s:io.kubernetes.pod.namespace"
# The namespace allows no pods with another team's priority class or with affinity to other namespaces.
_FORBIDDEN_PODS = {"pods": "0"}
_SHARED_MEMORY = "shared-memory"  # name of the volume at /dev/shm
# An update deletes a pod before it creates the next, because a surge would exceed the GPU quota.
_MAX_SURGE = 0
_MAX_UNAVAILABLE = 1
# The Pod Security level `restricted` requires these two settings of every container.
# Images that run as root also work with these settings.
_DROPPED_CAPABILITIES = ["ALL"]
_SECCOMP = "RuntimeDefault"
# Pods that cannot start are the team's problem. `up` reports them without failing the platform or other teams.
_NOT_AWAITED = {"pulumi.com/skipAwait": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamNamespaceArgs:
    """Plans for a team and, if they exist, for its queue, its members' guide and its workloads.

    `annotations` are the annotations of the service account that are not known before a deployment.
    """

    plan: TeamPlan
    queue: TeamQueuePlan | None = None
    guide: GuidePlan | None = None
    workloads: TeamWorkloadsPlan | None = None
    annotations: Mapping[str, pulumi.Input[str]] = field(default_factory=dict[str, pulumi.Input[str]])


class TeamNamespace(pulumi.ComponentResource):
    """The namespace of one team with Pod Security, quotas, limits, RBAC, network policies, and its workloads.

    Outputs: `namespace`.
    """

    namespace: pulumi.Output[str]

    def __init__(self, name: str, args: TeamNamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:TeamNamespace", name, None, formerly("Tenant", opts))
        plan, queue, guide = args.plan, args.queue, args.guide
        self._plan = plan
        self._queue = queue
        namespace = KubernetesObject(
            plan.namespace,
            "v1/Namespace",
            metadata={"name": plan.namespace, "labels": plan.labels},
            opts=retained(child_options(self, opts, *self._create_pod_security(opts))),
        )
        self._child = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        self._kept = retained(self._child)
        admission = TeamAdmission(
            self._logical("admission"),
            TeamAdmissionArgs(
                namespace=plan.namespace,
                policies=plan.policies,
            ),
            self._child,
        )
        guards = [*self._create_quotas(), self._create_limits(), *admission.guards]
        if plan.pod_defaults is not None:
            guards += TeamPodDefaults(
                self._logical("pod-defaults"),
                TeamPodDefaultsArgs(
                    namespace=plan.namespace,
                    defaults=plan.pod_defaults,
                    default_request=plan.default_request,
                    default_limit=plan.default_limit,
                ),
                self._child,
            ).guards
        self._create_network_policies()
        if queue is not None:
            subjects = [_rbac_subject(member) for member in plan.members]
            queue_args = TeamQueueArgs(plan=queue, subjects=subjects)
            guards += TeamQueue(self._logical("team-queue"), queue_args, self._child).guards
        judged = pulumi.ResourceOptions(parent=self, depends_on=policies_in_effect(guards))
        for claim in plan.claims:
            template = claim_template(
                claim.name,
                plan.namespace,
                of_team(claim),
                judged,
                logical_name=self._logical(claim.name),
            )
            guards.append(template)
        # Members gain access only after all quotas and policies that check their objects exist.
        self._create_access(guards)
        if plan.service_account is not None:
            guards.append(self._create_service_account(plan.service_account, args.annotations))
        for file in plan.files:
            guards.append(
                pod_file(file, plan.namespace, judged, logical_name=self._logical(f"file/{file.config_map}"))
            )
        if guide is not None:
            KubernetesObject(
                self._logical("guide"),
                "v1/ConfigMap",
                metadata=self._meta(GUIDE_CONFIG_MAP),
                data=config_map_data(guide, plan, queue),
                opts=judged,
            )
        guarded = pulumi.ResourceOptions(parent=self, depends_on=policies_in_effect(guards))
        declared: list[pulumi.Resource] = []
        for workload in plan.workloads:
            if workload.compute_domain is not None:
                domain = compute_domain(
                    workload.name,
                    plan.namespace,
                    workload.compute_domain,
                    judged,
                    logical_name=self._logical(f"domain/{workload.name}"),
                )
                declared.append(domain)
            self._create_workload(workload, guarded)
        if args.workloads is not None:
            labels = {names.TEAM_LABEL: plan.namespace}
            declared += create_workloads(TeamPods(plan, queue, labels), args.workloads, guarded)
        if plan.addon_object_quota:
            after = pulumi.ResourceOptions.merge(self._kept, pulumi.ResourceOptions(depends_on=declared))
            self._create_quota("addon-object-quota", plan.addon_object_quota, after)
        self.namespace = namespace.metadata["name"]
        self.register_outputs({"namespace": self.namespace})

    def _create_pod_security(self, opts: pulumi.ResourceOptions | None) -> Sequence[pulumi.Resource]:
        """Create the planned policies that enforce the Pod Security level instead of the namespace's label."""
        if self._plan.fabric is None:
            return ()
        return TeamPodSecurity(
            self._logical("pod-security"),
            TeamPodSecurityArgs(namespace=self._plan.namespace, fabric=self._plan.fabric),
            child_options(self, opts),
        ).guards

    def _logical(self, name: str) -> str:
        """Return the logical name of an object. It contains the team's name, because every team has objects such
        as `default-deny`.
        """
        return f"{self._plan.namespace}/{name}"

    def _meta(self, name: str) -> Manifest:
        return {"name": name, "namespace": self._plan.namespace}

    def _create_quotas(self) -> Sequence[pulumi.Resource]:
        metadata, hard = self._meta("gpu-quota"), self._plan.quota
        if self._queue is not None:
            granted = json.dumps(dict(self._plan.quota), sort_keys=True)
            metadata["annotations"], hard = {names.GRANTED_ANNOTATION: granted}, self._queue.ceiling
        total = KubernetesObject(
            self._logical("quota"),
            "v1/ResourceQuota",
            metadata=metadata,
            spec={"hard": hard},
            opts=self._kept,
        )
        others: list[Manifest] = [{"scopeName": "PriorityClass", "operator": "Exists"}]
        if self._plan.priorities:
            others.append(
                {"scopeName": "PriorityClass", "operator": "NotIn", "values": list(self._plan.priorities)}
            )
        above = KubernetesObject(
            self._logical("priority"),
            "v1/ResourceQuota",
            metadata=self._meta("priority-above-own"),
            spec={
                "hard": _FORBIDDEN_PODS,
                "scopeSelector": {
                    # This selector matches every priority class except the allowed priority classes.
                    # Pods without a priority class are allowed.
                    "matchExpressions": others
                },
            },
            opts=self._kept,
        )
        elsewhere = KubernetesObject(
            self._logical("affinity"),
            "v1/ResourceQuota",
            metadata=self._meta("affinity-to-other-namespaces"),
            spec={"hard": _FORBIDDEN_PODS, "scopes": ["CrossNamespacePodAffinity"]},
            opts=self._kept,
        )
        quotas = [total, above, elsewhere]
        if self._plan.object_quota:
            quotas.append(self._create_quota("object-quota", self._plan.object_quota, self._kept, "objects"))
        return quotas

    def _create_quota(
        self, name: str, hard: Mapping[str, str], opts: pulumi.ResourceOptions, logical_name: str | None = None
    ) -> KubernetesObject:
        return KubernetesObject(
            self._logical(logical_name or name),
            "v1/ResourceQuota",
            metadata=self._meta(name),
            spec={"hard": hard},
            opts=opts,
        )

    def _create_limits(self) -> pulumi.Resource:
        return KubernetesObject(
            self._logical("limits"),
            "v1/LimitRange",
            metadata=self._meta("defaults"),
            spec={
                "limits": [
                    {
                        "type": "Container",
                        "default": self._plan.default_limit,
                        "defaultRequest": self._plan.default_request,
                    }
                ]
            },
            opts=self._kept,
        )

    def _create_service_account(
        self, account: ServiceAccountPlan, annotations: Mapping[str, pulumi.Input[str]]
    ) -> pulumi.Resource:
        """Create the service account of the team's pods. Its token is valid for the cloud, but not for the API
        server.
        """
        return KubernetesObject(
            self._logical(account.name),
            "v1/ServiceAccount",
            metadata={
                "name": account.name,
                "namespace": self._plan.namespace,
                "annotations": {**account.annotations, **annotations} or None,
            },
            imagePullSecrets=[{"name": name} for name in account.image_pull_secrets] or None,
            automountServiceAccountToken=False,
            opts=self._child,
        )

    def _create_access(self, guards: Sequence[pulumi.Resource]) -> None:
        """Create the Roles with their bindings, and the ClusterRole that allows every member to read.

        A viewer or admin Role exists only if the team has viewers or admins. The bindings wait for `guards`.
        """
        args = self._plan
        writes, reads = ((COMPUTE_DOMAINS,), (COMPUTE_DOMAINS_READ,)) if args.compute_domains else ((), ())
        self._create_role("member", (*USER, *writes), args.members, guards)
        if args.admins:
            self._create_role("admin", (*ADMIN, *writes), args.admins, guards)
        if args.viewers:
            self._create_role("viewer", (*VIEWER, *reads), args.viewers, guards)
        name = cluster_role_name(args.namespace)
        role = KubernetesObject(
            self._logical("cluster-read"),
            "rbac.authorization.k8s.io/v1/ClusterRole",
            metadata={"name": name, "labels": {names.TEAM_LABEL: args.namespace}},
            rules=_rbac_rules(CLUSTER_READ),
            opts=self._child,
        )
        KubernetesObject(
            self._logical("cluster-readers"),
            "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
            metadata={"name": name, "labels": {names.TEAM_LABEL: args.namespace}},
            roleRef=role_ref("ClusterRole", name),
            subjects=[_rbac_subject(member) for member in (*args.admins, *args.members, *args.viewers)],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role]),
        )

    def _create_role(
        self,
        role: str,
        rules: Sequence[AccessRule],
        members: Sequence[TeamMember],
        guards: Sequence[pulumi.Resource],
    ) -> None:
        """Create the Role `team-<role>` and bind it to members."""
        created = KubernetesObject(
            self._logical(role),
            "rbac.authorization.k8s.io/v1/Role",
            metadata=self._meta(f"team-{role}"),
            rules=_rbac_rules(rules),
            opts=self._child,
        )
        KubernetesObject(
            self._logical(f"{role}s"),
            "rbac.authorization.k8s.io/v1/RoleBinding",
            metadata=self._meta(f"team-{role}s"),
            roleRef=role_ref("Role", f"team-{role}"),
            subjects=[_rbac_subject(member) for member in members],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[created, *policies_in_effect(guards)]),
        )

    def _create_network_policies(self) -> None:
        everything: Manifest = {}
        KubernetesObject(
            self._logical("default-deny"),
            "networking.k8s.io/v1/NetworkPolicy",
            metadata=self._meta("default-deny"),
            spec={"podSelector": everything, "policyTypes": _DENIED},
            opts=self._kept,
        )
        peers = [{"podSelector": everything}]
        KubernetesObject(
            self._logical("allow-own"),
            "networking.k8s.io/v1/NetworkPolicy",
            metadata=self._meta("allow-own-namespace"),
            spec={
                "podSelector": everything,
                "policyTypes": _DENIED,
                "ingress": [{"from": peers}],
                "egress": [{"to": peers}],
            },
            opts=self._kept,
        )
        by_cilium = self._plan.host_policy == "CiliumNetworkPolicy"
        dns_pods = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": _DNS_NAMESPACE}}}
        KubernetesObject(
            self._logical("allow-dns"),
            "networking.k8s.io/v1/NetworkPolicy",
            metadata=self._meta("allow-dns"),
            spec={
                "podSelector": everything,
                "policyTypes": ["Egress"],
                "egress": [
                    {
                        "to": [
                            # A rule with ports would bypass the rule that makes Cilium read DNS responses.
                            *(() if by_cilium else (dns_pods,)),
                            *({"ipBlock": {"cidr": cidr}} for cidr in _NODE_LOCAL_DNS),
                        ],
                        "ports": [{"port": port, "protocol": protocol} for port, protocol in _DNS_PORTS],
                    }
                ],
            },
            opts=self._kept,
        )

        for one in self._plan.egress:
            name = f"allow-{one.name}"
            KubernetesObject(
                self._logical(name),
                "networking.k8s.io/v1/NetworkPolicy",
                metadata=self._meta(name),
                spec={"podSelector": everything, "policyTypes": ["Egress"], "egress": [_egress_rule(one)]},
                opts=self._kept,
            )
        # Use one policy for all entries, even without rules, so that an update can remove a rule.
        # A separate policy per entry would stay in the cluster after the entry is removed.
        KubernetesObject(
            self._logical("allow-declared"),
            "networking.k8s.io/v1/NetworkPolicy",
            metadata=self._meta("allow-declared"),
            spec={
                "podSelector": everything,
                "policyTypes": _DENIED,
                "ingress": [_ingress_rule(one) for one in self._plan.ingress],
                "egress": [_egress_rule(one) for one in self._plan.declared_egress],
            },
            opts=self._kept,
        )
        if by_cilium:
            self._create_cilium_policy(self._plan.hosts)
        else:
            for one in self._plan.hosts:
                self._create_host_policy(one)

    def _create_host_policy(self, egress: HostEgress) -> None:
        """Allow all pods to reach hosts by name. There is one object per host, because GKE limits the number of
        addresses per object.
        """
        name = "allow-" + egress.host.replace("*.", "below-")
        KubernetesObject(
            self._logical(name),
            f"{_HOST_POLICY_API}/FQDNNetworkPolicy",
            metadata=self._meta(name),
            spec={
                "podSelector": {},
                "egress": [
                    {
                        "matches": [{"pattern" if "*" in egress.host else "name": egress.host}],
                        "ports": [{"protocol": "TCP", "port": port} for port in egress.ports],
                    }
                ],
            },
            opts=self._child,
        )

    def _create_cilium_policy(self, hosts: Sequence[HostEgress]) -> None:
        """Allow all pods to query the cluster's DNS through Cilium, and to reach the hosts in its responses."""
        asked = [{"port": str(port), "protocol": protocol} for port, protocol in _DNS_PORTS]
        dns = {
            "toEndpoints": [{"matchLabels": {_CILIUM_NAMESPACE_LABEL: _DNS_NAMESPACE}}],
            "toPorts": [{"ports": asked, "rules": {"dns": [{"matchPattern": "*"}]}}],
        }
        reached = [
            {
                "toFQDNs": [{"matchPattern" if "*" in one.host else "matchName": one.host}],
                "toPorts": [{"ports": [{"port": str(port), "protocol": "TCP"} for port in one.ports]}],
            }
            for one in hosts
        ]
        KubernetesObject(
            self._logical("allow-hosts"),
            f"{_CILIUM_POLICY_API}/CiliumNetworkPolicy",
            metadata=self._meta("allow-hosts"),
            spec={"endpointSelector": {}, "egress": [dns, *reached]},
            opts=self._child,
        )

    def _create_workload(self, workload: WorkloadPlan, opts: pulumi.ResourceOptions) -> None:
        labels = {names.NAME_LABEL: workload.name, names.TEAM_LABEL: self._plan.namespace}
        account = self._plan.service_account
        of_account = {} if account is None else account.pod_labels
        queued = {} if self._queue is None else {names.QUEUE_LABEL: self._queue.local_queue}
        container = {
            "name": workload.name,
            "image": workload.image,
            "command": list(workload.command) or None,
            "env": [{"name": key, "value": value} for key, value in workload.user_environment.items()] or None,
            "volumeMounts": None
            if workload.shared_memory is None
            else [{"name": _SHARED_MEMORY, "mountPath": "/dev/shm"}],  # noqa: S108
            # Requests equal limits, because extended resources require this.
            # The pod also gets the QoS class Guaranteed.
            "resources": {
                "requests": workload.requests,
                "limits": workload.requests,
                "claims": [{"name": claim} for claim in workload.claims] or None,
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": _DROPPED_CAPABILITIES},
                "seccompProfile": {"type": _SECCOMP},
            },
        }
        KubernetesObject(
            self._logical(workload.name),
            "apps/v1/Deployment",
            metadata={
                "name": workload.name,
                "namespace": self._plan.namespace,
                "labels": labels,
                "annotations": _NOT_AWAITED,
            },
            spec={
                "replicas": workload.replicas,
                "selector": {"matchLabels": {names.NAME_LABEL: workload.name}},
                # The default of 600 s may expire before a new node has pulled the image.
                "progressDeadlineSeconds": NODE_START_SECONDS,
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": _MAX_SURGE, "maxUnavailable": _MAX_UNAVAILABLE},
                },
                "template": {
                    "metadata": {
                        "labels": {**labels, **of_account, **queued},
                        "annotations": None
                        if workload.gpu_memory is None
                        else {names.GPU_MEMORY_ANNOTATION: workload.gpu_memory},
                    },
                    "spec": {
                        "priorityClassName": workload.priority_class,
                        "nodeSelector": workload.node_selector,
                        "tolerations": [
                            {"key": toleration.key, "operator": "Exists", "effect": toleration.effect}
                            for toleration in workload.tolerations
                        ],
                        "resourceClaims": [
                            {"name": claim, "resourceClaimTemplateName": claim} for claim in workload.claims
                        ]
                        or None,
                        "serviceAccountName": None if account is None else account.name,
                        "securityContext": self._pod_security(workload),
                        "automountServiceAccountToken": False,
                        "volumes": _volumes(workload),
                        "containers": [container],
                    },
                },
            },
            opts=opts,
        )

    def _pod_security(self, workload: WorkloadPlan) -> Manifest | None:
        """Return the security context of a pod. It also applies to injected and ephemeral containers."""
        restricted = self._plan.pod_security == "restricted"
        if not restricted and workload.run_as_user is None:
            return None
        return {
            "runAsNonRoot": True if restricted else None,
            "runAsUser": workload.run_as_user,
            "seccompProfile": {"type": _SECCOMP} if restricted else None,
        }


def _volumes(workload: WorkloadPlan) -> list[Manifest] | None:
    """Return the in-memory volume that the processes of a pod share, or None if the pod does not need it."""
    if workload.shared_memory is None:
        return None
    in_memory = {"medium": "Memory", "sizeLimit": workload.shared_memory}
    return [{"name": _SHARED_MEMORY, "emptyDir": in_memory}]


def _rbac_rules(rules: Sequence[AccessRule]) -> list[Manifest]:
    return [
        {"apiGroups": [rule.group], "resources": list(rule.resources), "verbs": list(rule.verbs)} for rule in rules
    ]


def _rbac_subject(member: TeamMember) -> Manifest:
    if member.kind == "ServiceAccount":
        return {"kind": member.kind, "name": member.name, "namespace": member.namespace}
    return {"kind": member.kind, "name": member.name, "apiGroup": "rbac.authorization.k8s.io"}


def _egress_rule(egress: PodEgress) -> Manifest:
    block = {"cidr": egress.cidr, "except": list(egress.but) or None}
    return {
        "to": [{"ipBlock": block}],
        "ports": [{"port": port, "protocol": protocol} for port, protocol in egress.ports],
    }


def _ingress_rule(ingress: PodIngress) -> Manifest:
    peer = (
        {"ipBlock": {"cidr": ingress.cidr}}
        if ingress.cidr is not None
        else {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": str(ingress.namespace)}}}
    )
    return {
        "from": [peer],
        "ports": [{"port": port, "protocol": "TCP"} for port in ingress.ports],
    }
