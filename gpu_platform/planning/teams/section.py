"""Types for team plans: namespaces, quotas, members, priorities and workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from gpu_platform.catalog.admission_rules import AdmissionPolicy
from gpu_platform.planning.clouds.section import HostPolicy, PodEgress, PodFile
from gpu_platform.planning.dra.section import ClaimPlan
from gpu_platform.planning.nodes.section import Labels, Taint
from gpu_platform.planning.teams.admission_defaults import PodDefaults
from gpu_platform.planning.teams.fabric import FabricAccess
from gpu_platform.stack.team import PodSecurity

# Requests for containers that set no requests.
# A quota on cpu and memory rejects pods without requests.
DEFAULT_REQUEST: Mapping[str, str] = {"cpu": "500m", "memory": "1Gi"}


DEFAULT_LIMIT: Mapping[str, str] = {"cpu": "4", "memory": "16Gi"}

NODE_START_SECONDS: Final = 1800
"""Time in seconds that is allowed for a new node to boot and to pull the image of a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClassPlan:
    """A PriorityClass. It is never the cluster's default."""

    name: str
    value: int
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPlan:
    """A Deployment of a team, with the node selector and tolerations of its pool.

    If `units` is 0, its pods use no GPU, and `resource` is empty.
    """

    name: str
    pool: str
    replicas: int
    image: str
    command: tuple[str, ...]
    resource: str
    units: int
    cpu: str
    memory: str
    priority_class: str
    node_selector: Labels
    tolerations: tuple[Taint, ...]
    network: Mapping[str, str] = field(default_factory=dict[str, str])
    """Requests of a pod for the network between nodes, such as EFA interfaces and huge pages."""
    claim: str | None = None
    """ResourceClaimTemplate of the pods.

    If it is set, `resource` is a device class of the driver, and `units` is the size of the claim.
    """

    compute_domain: str | None = None
    """ResourceClaimTemplate that the DRA driver creates for the workload's ComputeDomain, or None if it has no
    ComputeDomain.
    """
    shared_memory: str | None = None
    """Size of the in-memory volume at /dev/shm, which counts towards `memory`.

    None means the runtime's default, 64 MiB.
    """
    gpu_memory: str | None = None
    """GPU memory that a pod needs on each of its GPUs, shares or instances."""
    run_as_user: int | None = None
    """User ID of the container's processes, or None for the user ID of the image."""
    nic_claim: str | None = None
    """ResourceClaimTemplate for all NICs of a node, or None if pods use no NICs or request them in another way."""

    @property
    def claims(self) -> tuple[str, ...]:
        """Names of the ResourceClaimTemplates that each pod uses."""
        return tuple(claim for claim in (self.claim, self.compute_domain, self.nic_claim) if claim is not None)

    @property
    def requests(self) -> Mapping[str, str]:
        """Requests and limits of the pod's container."""
        held = {} if self.claim is not None or not self.units else {self.resource: str(self.units)}
        return {"cpu": self.cpu, "memory": self.memory, **held, **self.network}

    @property
    def user_environment(self) -> Mapping[str, str]:
        """Environment variables for a user ID that may be missing from the image.

        Programs need a user name and a writable home directory. Without a user name, Python's getpass fails, so
        vLLM and torch fail too. For an unknown user, the container runtime sets the home directory to `/`
        (vllm-project/vllm#44548, kserve/kserve#5666, read 2026-11-28).
        """
        return {} if self.run_as_user is None else {"USER": "member", "HOME": "/tmp"}  # noqa: S108


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamMember:
    """A team member, named as in RBAC."""

    kind: Literal["User", "Group", "ServiceAccount"]
    name: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountPlan:
    """The service account with a team's cloud identity and image pull secrets.

    `rights` describes the cloud resources that pods may use, such as `read s3://acme-datasets/`.
    """

    name: str
    annotations: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """Annotations. A value is None if it is known only after the deployment of the identity."""
    pod_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels that pods need in addition to the service account, so that they have the identity."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of Secrets in the namespace. The team creates these Secrets."""
    rights: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEgress:
    """Hosts outside the cluster that a team's pods may reach over TCP. The value is one host name, or `*.`
    followed by a domain.
    """

    host: str
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIngress:
    """Sources that may connect to a team's pods over TCP. These are all pods of a namespace, or addresses."""

    namespace: str | None
    cidr: str | None
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPlan:
    """The namespace of one team and everything in it.

    `quota` contains every GPU resource of the environment. If the team has no share of a resource, the quota for
    it is 0, because otherwise its use would be unlimited. `priorities` are the priority classes that the team may
    use. Pods may also have no priority class.
    """

    namespace: str
    quota: Mapping[str, str]
    members: tuple[TeamMember, ...]
    admins: tuple[TeamMember, ...] = ()
    viewers: tuple[TeamMember, ...] = ()
    object_quota: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maximum number of objects by kind and maximum requested storage, by ResourceQuota key.

    If the mapping is empty, objects and storage are unlimited.
    """
    addon_object_quota: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maximum number of objects of the kinds whose CRDs the program may install.

    This quota is created after the declared workloads.
    """
    egress: tuple[PodEgress, ...] = ()
    """Addresses that the team's pods may reach because the cloud requires it for identity and DNS."""
    declared_egress: tuple[PodEgress, ...] = ()
    """Addresses that the team's pods may reach because the stack file allows it."""
    hosts: tuple[HostEgress, ...] = ()
    """Hosts that the team's pods may reach by name."""
    host_policy: HostPolicy | None = None
    """The kind of network policies that name `hosts`, or None if `hosts` is empty."""
    ingress: tuple[PodIngress, ...] = ()
    """Sources that may reach the team's pods, in addition to pods of the same namespace."""
    labels: Labels = field(default_factory=dict[str, str])
    priorities: tuple[str, ...] = ()
    default_request: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_REQUEST))
    default_limit: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_LIMIT))
    claims: tuple[ClaimPlan, ...] = ()
    workloads: tuple[WorkloadPlan, ...] = ()
    files: tuple[PodFile, ...] = ()
    """ConfigMaps that pods with all GPUs of a node mount to use its NICs."""
    policies: tuple[AdmissionPolicy, ...] = ()
    """Admission policies for the namespace."""
    accounts: tuple[str, ...] = ()
    """User names of members that are service accounts in other namespaces."""
    pod_defaults: PodDefaults | None = None
    """Defaults that admission adds to the team's pods that request GPUs, or None if pods get no defaults."""
    service_account: ServiceAccountPlan | None = None
    """Service account for pods that name it, or None if the team has neither an identity nor image pull secrets.
    """
    pod_security: PodSecurity = "restricted"
    """Pod Security level of the namespace. The namespace's label or the admission rules in `fabric` enforce it.
    The workloads satisfy this level.
    """
    fabric: FabricAccess | None = None
    """Admission rules that enforce `pod_security` in place of the Pod Security label. They are needed if the pods
    that use a fabric need more privileges than the level allows.
    """
    permissions: tuple[str, ...] = ()
    """Exceptions to the rules for members' objects that the stack file allows, such as `routes of ml.example.com`.
    """
    compute_domains: bool = False
    """Whether members may create ComputeDomains, which is the case if NVLink connects the nodes of a pool."""

    @property
    def all_egress(self) -> tuple[PodEgress | HostEgress, ...]:
        """Destinations that the team's pods may connect to, in addition to their namespace and the cluster's
        DNS.
        """
        return (*self.egress, *self.declared_egress, *self.hosts)
