"""Types of the plan of teams: namespaces, quotas, members, priorities and workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpu_platform.catalog.admission_rules import AdmissionPolicy
from gpu_platform.planning.clouds.section import HostPolicy, PodEgress
from gpu_platform.planning.dra.section import ClaimPlan
from gpu_platform.planning.nodes.section import Labels, Taint
from gpu_platform.planning.teams.admission_defaults import PodDefaults
from gpu_platform.planning.teams.fabric import FabricAccess
from gpu_platform.stack.team import PodSecurity

# Requests of containers without any; a quota on cpu and memory refuses pods without requests.
DEFAULT_REQUEST: Mapping[str, str] = {"cpu": "500m", "memory": "1Gi"}


DEFAULT_LIMIT: Mapping[str, str] = {"cpu": "4", "memory": "16Gi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClassPlan:
    """A PriorityClass; never the cluster's default."""

    name: str
    value: int
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPlan:
    """A Deployment of a team, with the node selector and tolerations of its pool.

    `units` 0: its pods have no GPU, and `resource` is empty.
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
    """Requests of a pod for the network between nodes: EFA interfaces, huge pages."""
    claim: str | None = None
    """The ResourceClaimTemplate of its pods; `resource` is then a class of the driver, `units` its size."""

    compute_domain: str | None = None
    """The ResourceClaimTemplate of its ComputeDomain, which the DRA driver creates; None: no ComputeDomain."""
    shared_memory: str | None = None
    """Size of the volume in memory at /dev/shm, part of `memory`; None: 64 MiB, the runtime's default."""
    gpu_memory: str | None = None
    """GPU memory that a pod needs on each of its GPUs, shares or instances."""
    run_as_user: int | None = None
    """User id of its processes; None: that of the image."""
    nic_claim: str | None = None
    """The ResourceClaimTemplate of all NICs of a node; None: none, or pods request NICs in another way."""

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims of each pod, by their templates."""
        return tuple(claim for claim in (self.claim, self.compute_domain, self.nic_claim) if claim is not None)

    @property
    def requests(self) -> Mapping[str, str]:
        """Requests and limits of its container."""
        held = {} if self.claim is not None or not self.units else {self.resource: str(self.units)}
        return {"cpu": self.cpu, "memory": self.memory, **held, **self.network}

    @property
    def user_environment(self) -> Mapping[str, str]:
        """Variables of a user whom the image need not know: programs ask for the name, and write into the home.

        Python's getpass, with it vLLM and torch, fails without a name, and the runtime's home is `/` then
        (vllm-project/vllm#44548, kserve/kserve#5666, read 2026-11-28).
        """
        return {} if self.run_as_user is None else {"USER": "member", "HOME": "/tmp"}  # noqa: S108


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamMember:
    """A member of a team as RBAC names it."""

    kind: Literal["User", "Group", "ServiceAccount"]
    name: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountPlan:
    """The service account that gives a team's pods their identity in the cloud, and with which they pull images.

    `rights`: what they may use in the cloud, as text: `read s3://acme-datasets/`.
    """

    name: str
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    image_pull_secrets: tuple[str, ...] = ()
    """Names of Secrets of the namespace, which the team creates."""
    rights: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEgress:
    """Hosts outside the cluster that pods of a team may reach by TCP: one name, or `*.` and a domain."""

    host: str
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIngress:
    """Sources that may connect to pods of a team by TCP: all pods of a namespace, or addresses."""

    namespace: str | None
    cidr: str | None
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPlan:
    """One team's namespace and everything in it.

    `quota` holds every GPU resource of the environment, 0 without a share, so that no MIG profile is
    unlimited. `priorities`: the classes that it may use, beside no class.
    """

    namespace: str
    quota: Mapping[str, str]
    members: tuple[TeamMember, ...]
    admins: tuple[TeamMember, ...] = ()
    viewers: tuple[TeamMember, ...] = ()
    object_quota: Mapping[str, str] = field(default_factory=dict[str, str])
    """Most objects by kind and all storage requested, by key of a ResourceQuota; none: unlimited."""
    addon_object_quota: Mapping[str, str] = field(default_factory=dict[str, str])
    """The same of kinds whose definitions the program may install; its quota follows the declared workloads."""
    egress: tuple[PodEgress, ...] = ()
    """What its pods may reach by the cloud: identity and DNS."""
    declared_egress: tuple[PodEgress, ...] = ()
    """What its pods may reach by the stack file."""
    hosts: tuple[HostEgress, ...] = ()
    """What its pods may reach by name."""
    host_policy: HostPolicy | None = None
    """The kind of network policies that name `hosts`; None: there are no hosts."""
    ingress: tuple[PodIngress, ...] = ()
    """Who may reach its pods, beside those of its namespace."""
    labels: Labels = field(default_factory=dict[str, str])
    priorities: tuple[str, ...] = ()
    default_request: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_REQUEST))
    default_limit: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_LIMIT))
    claims: tuple[ClaimPlan, ...] = ()
    workloads: tuple[WorkloadPlan, ...] = ()
    policies: tuple[AdmissionPolicy, ...] = ()
    """What the API server refuses in the namespace."""
    accounts: tuple[str, ...] = ()
    """User names of service accounts of other namespaces that are members."""
    pod_defaults: PodDefaults | None = None
    """What its pods that request GPUs get at admission; None: what they name themselves."""
    service_account: ServiceAccountPlan | None = None
    """Of its pods that name it; None: the team has neither an identity nor image pull secrets."""
    pod_security: PodSecurity = "restricted"
    """Level that the namespace enforces, by its label or by `fabric`, and that the workloads satisfy."""
    fabric: FabricAccess | None = None
    """With a fabric whose pods need more than `pod_security`: the rules that enforce it in place of the label."""
    permissions: tuple[str, ...] = ()
    """What the stack file admits of its members' objects beside the defaults: `routes of ml.example.com`."""
    compute_domains: bool = False
    """Whether members may create ComputeDomains: NVLink connects the nodes of a pool."""

    @property
    def all_egress(self) -> tuple[PodEgress | HostEgress, ...]:
        """Destinations that its pods may connect to beside their namespace and the cluster's DNS."""
        return (*self.egress, *self.declared_egress, *self.hosts)
