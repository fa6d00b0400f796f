"""`Tenant`: the namespace of a team, with quotas, access, network policies and workloads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from components._in_namespace import role_ref
from components._options import child_options, retained
from components._policies_in_effect import policies_in_effect
from components.device_claims import claim_template, compute_domain, of_team
from components.queues import TeamQueue, TeamQueueArgs
from components.team_workloads import create_workloads
from components.tenant_admission import (
    TenantAdmission,
    TenantAdmissionArgs,
    TenantPodSecurity,
    TenantPodSecurityArgs,
)
from components.tenant_pod_defaults import TenantPodDefaults, TenantPodDefaultsArgs
from gpu_platform import names
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
    HostEgress,
    PodIngress,
    ServiceAccountPlan,
    TeamMember,
    TenantPlan,
    WorkloadPlan,
)
from gpu_platform.planning.workloads import TeamWorkloadsPlan
from gpu_platform.workload_manifests import TeamPods

# NodeLocal DNSCache listens at this address on the network of the host, outside every namespace.
_NODE_LOCAL_DNS = "169.254.20.10/32"
_DNS_NAMESPACE = "kube-system"
# DNS over TCP carries answers that are too large for UDP.
_DNS_PORTS = ((53, "UDP"), (53, "TCP"))
# Both directions are denied by default: teams share nodes, and pods reach only their namespace and DNS.
_DENIED = ["Ingress", "Egress"]
# GKE's policies that name hosts; source: GKE docs, "FQDN network policies"; read 2026-11-25.
_HOST_POLICY_API = "networking.gke.io/v1alpha1"
# Cilium's; source: Cilium docs 1.19, "DNS based" and "Layer 7 Policies"; read 2026-11-25.
_CILIUM_POLICY_API = "cilium.io/v2"
_CILIUM_NAMESPACE_LABEL = "k8s:io.kubernetes.pod.namespace"
# No pods at all: of a priority class that the team may not use; such that keep those of others off nodes.
_FORBIDDEN_PODS = {"pods": "0"}
_SHARED_MEMORY = "shared-memory"  # name of the volume at /dev/shm
# An update deletes a pod before it creates the next: a surge would need GPUs beyond the quota.
_MAX_SURGE = 0
_MAX_UNAVAILABLE = 1
# Of every workload: what `restricted` asks of a container, which images that run as root bear as well.
_DROPPED_CAPABILITIES = ["ALL"]
_SECCOMP = "RuntimeDefault"
# A pod that cannot start is the team's: it must not stop the platform or other teams. `up` reports it.
_NOT_AWAITED = {"pulumi.com/skipAwait": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantArgs:
    """The plan of a team, and those of its queue, of its members' guide and of its workloads, if it has them."""

    plan: TenantPlan
    queue: TeamQueuePlan | None = None
    guide: GuidePlan | None = None
    workloads: TeamWorkloadsPlan | None = None


class Tenant(pulumi.ComponentResource):
    """One team: Namespace with Pod Security, quotas, limits, RBAC, network policy, and its workloads.

    Outputs: `namespace`.
    """

    namespace: pulumi.Output[str]

    def __init__(self, name: str, args: TenantArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Tenant", name, None, opts)
        plan, queue, guide = args.plan, args.queue, args.guide
        self._plan = plan
        self._queue = queue
        namespace = k8s.core.v1.Namespace(
            plan.namespace,
            metadata=k8s.meta.v1.ObjectMetaArgs(name=plan.namespace, labels=plan.labels),
            opts=retained(child_options(self, opts, *self._create_pod_security(opts))),
        )
        self._child = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        self._kept = retained(self._child)
        admission = TenantAdmission(
            self._logical("admission"),
            TenantAdmissionArgs(
                namespace=plan.namespace,
                rules=plan.rules,
                template_rules=plan.template_rules,
                claim_rules=plan.claim_rules,
                scaling_rules=plan.scaling_rules,
                route_rules=plan.route_rules,
                object_rules=plan.object_rules,
                accounts=plan.accounts,
            ),
            self._child,
        )
        guards = [*self._create_quotas(), self._create_limits(), *admission.guards]
        if plan.pod_defaults is not None:
            guards += TenantPodDefaults(
                self._logical("pod-defaults"),
                TenantPodDefaultsArgs(
                    namespace=plan.namespace,
                    defaults=plan.pod_defaults,
                    default_request=plan.default_request,
                    default_limit=plan.default_limit,
                ),
                self._child,
            ).guards
        self._create_network_policies()
        for claim in plan.claims:
            template = claim_template(
                claim.name,
                plan.namespace,
                of_team(claim),
                self._child,
                logical_name=self._logical(claim.name),
            )
            guards.append(template)
        if queue is not None:
            subjects = [_rbac_subject(member) for member in plan.members]
            queue_args = TeamQueueArgs(plan=queue, subjects=subjects)
            guards += TeamQueue(self._logical("team-queue"), queue_args, self._child).guards
        # Members come when everything that judges what they create is there.
        self._create_access(guards)
        if plan.service_account is not None:
            guards.append(self._create_service_account(plan.service_account))
        if guide is not None:
            k8s.core.v1.ConfigMap(
                self._logical("guide"),
                metadata=self._meta(GUIDE_CONFIG_MAP),
                data=config_map_data(guide, plan, queue),
                opts=self._child,
            )
        guarded = pulumi.ResourceOptions(parent=self, depends_on=guards)
        for workload in plan.workloads:
            if workload.compute_domain is not None:
                compute_domain(
                    workload.name,
                    plan.namespace,
                    workload.compute_domain,
                    self._child,
                    logical_name=self._logical(f"domain/{workload.name}"),
                )
            self._create_workload(workload, guarded)
        if args.workloads is not None:
            labels = {names.TEAM_LABEL: plan.namespace}
            create_workloads(TeamPods(plan, queue, labels), args.workloads, guarded)
        self.namespace = namespace.metadata.name
        self.register_outputs({"namespace": self.namespace})

    def _create_pod_security(self, opts: pulumi.ResourceOptions | None) -> Sequence[pulumi.Resource]:
        """Create the planned policies that enforce the Pod Security level in place of the namespace's label."""
        if self._plan.fabric is None:
            return ()
        return TenantPodSecurity(
            self._logical("pod-security"),
            TenantPodSecurityArgs(namespace=self._plan.namespace, fabric=self._plan.fabric),
            child_options(self, opts),
        ).guards

    def _logical(self, name: str) -> str:
        """Return the logical name of an object of this tenant: teams share names such as `default-deny`."""
        return f"{self._plan.namespace}/{name}"

    def _meta(self, name: str) -> k8s.meta.v1.ObjectMetaArgs:
        return k8s.meta.v1.ObjectMetaArgs(name=name, namespace=self._plan.namespace)

    def _create_quotas(self) -> Sequence[pulumi.Resource]:
        metadata, hard = self._meta("gpu-quota"), self._plan.quota
        if self._queue is not None:
            granted = json.dumps(dict(self._plan.quota), sort_keys=True)
            metadata.annotations, hard = {names.GRANTED_ANNOTATION: granted}, self._queue.ceiling
        total = k8s.core.v1.ResourceQuota(
            self._logical("quota"),
            metadata=metadata,
            spec=k8s.core.v1.ResourceQuotaSpecArgs(hard=hard),
            opts=self._kept,
        )
        others = [k8s.core.v1.ScopedResourceSelectorRequirementArgs(scope_name="PriorityClass", operator="Exists")]
        if self._plan.priorities:
            others.append(
                k8s.core.v1.ScopedResourceSelectorRequirementArgs(
                    scope_name="PriorityClass", operator="NotIn", values=list(self._plan.priorities)
                )
            )
        above = k8s.core.v1.ResourceQuota(
            self._logical("priority"),
            metadata=self._meta("priority-above-own"),
            spec=k8s.core.v1.ResourceQuotaSpecArgs(
                hard=_FORBIDDEN_PODS,
                scope_selector=k8s.core.v1.ScopeSelectorArgs(
                    # Every priority class but the allowed ones; pods without a class are allowed.
                    match_expressions=others
                ),
            ),
            opts=self._kept,
        )
        elsewhere = k8s.core.v1.ResourceQuota(
            self._logical("affinity"),
            metadata=self._meta("affinity-to-other-namespaces"),
            spec=k8s.core.v1.ResourceQuotaSpecArgs(hard=_FORBIDDEN_PODS, scopes=["CrossNamespacePodAffinity"]),
            opts=self._kept,
        )
        quotas = [total, above, elsewhere]
        if self._plan.object_quota:
            quotas.append(
                k8s.core.v1.ResourceQuota(
                    self._logical("objects"),
                    metadata=self._meta("object-quota"),
                    spec=k8s.core.v1.ResourceQuotaSpecArgs(hard=self._plan.object_quota),
                    opts=self._kept,
                )
            )
        return quotas

    def _create_limits(self) -> pulumi.Resource:
        return k8s.core.v1.LimitRange(
            self._logical("limits"),
            metadata=self._meta("defaults"),
            spec=k8s.core.v1.LimitRangeSpecArgs(
                limits=[
                    k8s.core.v1.LimitRangeItemArgs(
                        type="Container",
                        default=self._plan.default_limit,
                        default_request=self._plan.default_request,
                    )
                ]
            ),
            opts=self._kept,
        )

    def _create_service_account(self, account: ServiceAccountPlan) -> pulumi.Resource:
        """Create the service account of the team's pods: its token is for the cloud, not for the API server."""
        return k8s.core.v1.ServiceAccount(
            self._logical(account.name),
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=account.name, namespace=self._plan.namespace, annotations=account.annotations or None
            ),
            image_pull_secrets=[
                k8s.core.v1.LocalObjectReferenceArgs(name=name) for name in account.image_pull_secrets
            ]
            or None,
            automount_service_account_token=False,
            opts=self._child,
        )

    def _create_access(self, guards: Sequence[pulumi.Resource]) -> None:
        """Create the Roles, each bound to its members, and the ClusterRole that every member reads by.

        Viewer and admin have Roles only where the team names somebody. `guards`: what the bindings wait for.
        """
        args = self._plan
        writes, reads = ((COMPUTE_DOMAINS,), (COMPUTE_DOMAINS_READ,)) if args.compute_domains else ((), ())
        self._create_role("member", (*USER, *writes), args.members, guards)
        if args.admins:
            self._create_role("admin", (*ADMIN, *writes), args.admins, guards)
        if args.viewers:
            self._create_role("viewer", (*VIEWER, *reads), args.viewers, guards)
        name = cluster_role_name(args.namespace)
        role = k8s.rbac.v1.ClusterRole(
            self._logical("cluster-read"),
            metadata=k8s.meta.v1.ObjectMetaArgs(name=name, labels={names.TEAM_LABEL: args.namespace}),
            rules=_rbac_rules(CLUSTER_READ),
            opts=self._child,
        )
        k8s.rbac.v1.ClusterRoleBinding(
            self._logical("cluster-readers"),
            metadata=k8s.meta.v1.ObjectMetaArgs(name=name, labels={names.TEAM_LABEL: args.namespace}),
            role_ref=role_ref("ClusterRole", name),
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
        created = k8s.rbac.v1.Role(
            self._logical(role),
            metadata=self._meta(f"team-{role}"),
            rules=_rbac_rules(rules),
            opts=self._child,
        )
        k8s.rbac.v1.RoleBinding(
            self._logical(f"{role}s"),
            metadata=self._meta(f"team-{role}s"),
            role_ref=role_ref("Role", f"team-{role}"),
            subjects=[_rbac_subject(member) for member in members],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[created, *policies_in_effect(guards)]),
        )

    def _create_network_policies(self) -> None:
        everything = k8s.meta.v1.LabelSelectorArgs()
        k8s.networking.v1.NetworkPolicy(
            self._logical("default-deny"),
            metadata=self._meta("default-deny"),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(pod_selector=everything, policy_types=_DENIED),
            opts=self._kept,
        )
        peers = [k8s.networking.v1.NetworkPolicyPeerArgs(pod_selector=everything)]
        k8s.networking.v1.NetworkPolicy(
            self._logical("allow-own"),
            metadata=self._meta("allow-own-namespace"),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=everything,
                policy_types=_DENIED,
                ingress=[k8s.networking.v1.NetworkPolicyIngressRuleArgs(from_=peers)],
                egress=[k8s.networking.v1.NetworkPolicyEgressRuleArgs(to=peers)],
            ),
            opts=self._kept,
        )
        by_cilium = self._plan.host_policy == "CiliumNetworkPolicy"
        dns_pods = k8s.networking.v1.NetworkPolicyPeerArgs(
            namespace_selector=k8s.meta.v1.LabelSelectorArgs(
                match_labels={"kubernetes.io/metadata.name": _DNS_NAMESPACE}
            )
        )
        k8s.networking.v1.NetworkPolicy(
            self._logical("allow-dns"),
            metadata=self._meta("allow-dns"),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=everything,
                policy_types=["Egress"],
                egress=[
                    k8s.networking.v1.NetworkPolicyEgressRuleArgs(
                        to=[
                            # Beside a rule of ports, Cilium ignores the one by which it reads the answers of DNS.
                            *(() if by_cilium else (dns_pods,)),
                            k8s.networking.v1.NetworkPolicyPeerArgs(
                                ip_block=k8s.networking.v1.IPBlockArgs(cidr=_NODE_LOCAL_DNS)
                            ),
                        ],
                        ports=[
                            k8s.networking.v1.NetworkPolicyPortArgs(port=port, protocol=protocol)
                            for port, protocol in _DNS_PORTS
                        ],
                    )
                ],
            ),
            opts=self._kept,
        )

        for one in self._plan.egress:
            name = f"allow-{one.name}"
            k8s.networking.v1.NetworkPolicy(
                self._logical(name),
                metadata=self._meta(name),
                spec=k8s.networking.v1.NetworkPolicySpecArgs(
                    pod_selector=everything, policy_types=["Egress"], egress=[_egress_rule(one)]
                ),
                opts=self._kept,
            )
        # One policy, with all that the stack file names or nothing: an entry that leaves the file changes it. A
        # policy of its own would stay, as all of them do when a team leaves.
        k8s.networking.v1.NetworkPolicy(
            self._logical("allow-declared"),
            metadata=self._meta("allow-declared"),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=everything,
                policy_types=_DENIED,
                ingress=[_ingress_rule(one) for one in self._plan.ingress],
                egress=[_egress_rule(one) for one in self._plan.declared_egress],
            ),
            opts=self._kept,
        )
        if by_cilium:
            self._create_cilium_policy(self._plan.hosts)
        else:
            for one in self._plan.hosts:
                self._create_host_policy(one)

    def _create_host_policy(self, egress: HostEgress) -> None:
        """Let all pods reach hosts by name. One object for each: GKE counts the addresses of an object."""
        name = "allow-" + egress.host.replace("*.", "below-")
        k8s.apiextensions.CustomResource(
            self._logical(name),
            api_version=_HOST_POLICY_API,
            kind="FQDNNetworkPolicy",
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
        """Let all pods ask the cluster's DNS, whose answers Cilium reads, and reach hosts by the answers."""
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
        k8s.apiextensions.CustomResource(
            self._logical("allow-hosts"),
            api_version=_CILIUM_POLICY_API,
            kind="CiliumNetworkPolicy",
            metadata=self._meta("allow-hosts"),
            spec={"endpointSelector": {}, "egress": [dns, *reached]},
            opts=self._child,
        )

    def _create_workload(self, workload: WorkloadPlan, opts: pulumi.ResourceOptions) -> None:
        labels = {names.NAME_LABEL: workload.name, names.TEAM_LABEL: self._plan.namespace}
        account = self._plan.service_account
        queued = {} if self._queue is None else {names.QUEUE_LABEL: self._queue.local_queue}
        container = k8s.core.v1.ContainerArgs(
            name=workload.name,
            image=workload.image,
            command=list(workload.command) or None,
            # Requests equal limits: extended resources require it, and the pod has the QoS class Guaranteed.
            volume_mounts=None
            if workload.shared_memory is None
            else [k8s.core.v1.VolumeMountArgs(name=_SHARED_MEMORY, mount_path="/dev/shm")],  # noqa: S108
            resources=k8s.core.v1.ResourceRequirementsArgs(
                requests=workload.requests,
                limits=workload.requests,
                claims=[k8s.core.v1.ResourceClaimArgs(name=claim) for claim in workload.claims] or None,
            ),
            security_context=k8s.core.v1.SecurityContextArgs(
                allow_privilege_escalation=False,
                capabilities=k8s.core.v1.CapabilitiesArgs(drop=_DROPPED_CAPABILITIES),
                seccomp_profile=k8s.core.v1.SeccompProfileArgs(type=_SECCOMP),
            ),
        )
        k8s.apps.v1.Deployment(
            self._logical(workload.name),
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=workload.name, namespace=self._plan.namespace, labels=labels, annotations=_NOT_AWAITED
            ),
            spec=k8s.apps.v1.DeploymentSpecArgs(
                replicas=workload.replicas,
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels={names.NAME_LABEL: workload.name}),
                strategy=k8s.apps.v1.DeploymentStrategyArgs(
                    type="RollingUpdate",
                    rolling_update=k8s.apps.v1.RollingUpdateDeploymentArgs(
                        max_surge=_MAX_SURGE, max_unavailable=_MAX_UNAVAILABLE
                    ),
                ),
                template=k8s.core.v1.PodTemplateSpecArgs(
                    metadata=k8s.meta.v1.ObjectMetaArgs(
                        labels={**labels, **queued},
                        annotations=None
                        if workload.gpu_memory is None
                        else {names.GPU_MEMORY_ANNOTATION: workload.gpu_memory},
                    ),
                    spec=k8s.core.v1.PodSpecArgs(
                        priority_class_name=workload.priority_class,
                        node_selector=workload.node_selector,
                        tolerations=[
                            k8s.core.v1.TolerationArgs(
                                key=toleration.key, operator="Exists", effect=toleration.effect
                            )
                            for toleration in workload.tolerations
                        ],
                        resource_claims=[
                            k8s.core.v1.PodResourceClaimArgs(name=claim, resource_claim_template_name=claim)
                            for claim in workload.claims
                        ]
                        or None,
                        service_account_name=None if account is None else account.name,
                        security_context=self._pod_security(workload),
                        automount_service_account_token=False,
                        volumes=_volumes(workload),
                        containers=[container],
                    ),
                ),
            ),
            opts=opts,
        )

    def _pod_security(self, workload: WorkloadPlan) -> k8s.core.v1.PodSecurityContextArgs | None:
        """Return the security context of a pod, which also applies to injected and ephemeral containers."""
        restricted = self._plan.pod_security == "restricted"
        if not restricted and workload.run_as_user is None:
            return None
        return k8s.core.v1.PodSecurityContextArgs(
            run_as_non_root=True if restricted else None,
            run_as_user=workload.run_as_user,
            seccomp_profile=k8s.core.v1.SeccompProfileArgs(type=_SECCOMP) if restricted else None,
        )


def _volumes(workload: WorkloadPlan) -> list[k8s.core.v1.VolumeArgs] | None:
    """Return the volume in memory for the processes of a pod, if it needs one."""
    if workload.shared_memory is None:
        return None
    in_memory = k8s.core.v1.EmptyDirVolumeSourceArgs(medium="Memory", size_limit=workload.shared_memory)
    return [k8s.core.v1.VolumeArgs(name=_SHARED_MEMORY, empty_dir=in_memory)]


def _rbac_rules(rules: Sequence[AccessRule]) -> list[k8s.rbac.v1.PolicyRuleArgs]:
    return [
        k8s.rbac.v1.PolicyRuleArgs(api_groups=[rule.group], resources=list(rule.resources), verbs=list(rule.verbs))
        for rule in rules
    ]


def _rbac_subject(member: TeamMember) -> k8s.rbac.v1.SubjectArgs:
    if member.kind == "ServiceAccount":
        return k8s.rbac.v1.SubjectArgs(kind=member.kind, name=member.name, namespace=member.namespace)
    return k8s.rbac.v1.SubjectArgs(kind=member.kind, name=member.name, api_group="rbac.authorization.k8s.io")


def _egress_rule(egress: PodEgress) -> k8s.networking.v1.NetworkPolicyEgressRuleArgs:
    block = k8s.networking.v1.IPBlockArgs(cidr=egress.cidr, except_=list(egress.but) or None)
    return k8s.networking.v1.NetworkPolicyEgressRuleArgs(
        to=[k8s.networking.v1.NetworkPolicyPeerArgs(ip_block=block)],
        ports=[
            k8s.networking.v1.NetworkPolicyPortArgs(port=port, protocol=protocol)
            for port, protocol in egress.ports
        ],
    )


def _ingress_rule(ingress: PodIngress) -> k8s.networking.v1.NetworkPolicyIngressRuleArgs:
    peer = (
        k8s.networking.v1.NetworkPolicyPeerArgs(ip_block=k8s.networking.v1.IPBlockArgs(cidr=ingress.cidr))
        if ingress.cidr is not None
        else k8s.networking.v1.NetworkPolicyPeerArgs(
            namespace_selector=k8s.meta.v1.LabelSelectorArgs(
                match_labels={"kubernetes.io/metadata.name": str(ingress.namespace)}
            )
        )
    )
    return k8s.networking.v1.NetworkPolicyIngressRuleArgs(
        from_=[peer],
        ports=[k8s.networking.v1.NetworkPolicyPortArgs(port=port, protocol="TCP") for port in ingress.ports],
    )
