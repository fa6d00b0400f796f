"""Stack file field `teams[]`: namespace, quota, priority, members and workloads of each team."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from gpu_platform.stack._types import (
    Cpu,
    DnsLabel,
    GpuMemory,
    Member,
    Memory,
    MigProfileName,
    OptionalCommand,
    SecretName,
    SpecModel,
    plain_or_mapping,
)
from gpu_platform.stack.claims import Claim, DeviceClassName
from gpu_platform.stack.declared import On
from gpu_platform.stack.patterns import worded
from gpu_platform.stack.team_identity import TeamIdentity
from gpu_platform.stack.team_network import Egress, Source
from gpu_platform.stack.team_routes import TeamRoutes
from gpu_platform.stack.team_scaling import TeamScaling
from gpu_platform.stack.team_workloads import BatchJob, InferenceService, Notebook, RayCluster, TrainingJob

CsiDriver = Annotated[
    str,
    Field(
        pattern=worded(r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", "the name of a CSI driver, in lower case"),
        max_length=63,
        examples=["secrets-store.csi.k8s.io"],
    ),
]
PodSecurity = Literal["restricted", "baseline"]
"""Levels of the Pod Security Standards that a team's namespace may enforce. `privileged` would give pods access to
the nodes.
"""


class ObjectLimits(SpecModel):
    """Maximum number of objects of each kind in a team's namespace."""

    pods: int = Field(default=2000, ge=1, le=100_000)
    """Maximum number of pods that have not terminated."""
    jobs: int = Field(default=2000, ge=0, le=100_000)
    services: int = Field(default=200, ge=0, le=100_000)
    load_balancers: int = Field(default=0, ge=0, le=1000)
    """Maximum number of Services of type LoadBalancer. Each port of such a Service also counts towards
    `node_ports`, unless the Service sets allocateLoadBalancerNodePorts to false.
    """
    node_ports: int = Field(default=0, ge=0, le=2768)
    """Maximum number of node ports of Services. A node port is open on every node of the cluster. The cluster's
    range has 2768 node ports.
    """
    config_maps: int = Field(default=500, ge=0, le=100_000)
    secrets: int = Field(default=500, ge=0, le=100_000)
    claims: int = Field(default=500, ge=0, le=100_000)
    """Maximum number of PersistentVolumeClaims."""
    other_kinds: int = Field(default=200, ge=0, le=100_000)
    """Maximum number of objects of each kind for which the team has no separate limit. Such kinds are Deployments,
    service accounts and JobSets, for example.
    """
    storage: Memory = "100Ti"
    """Maximum total storage that all PersistentVolumeClaims may request."""


Units = Annotated[int, Field(ge=0)]
UnitsByPool = Annotated[dict[DnsLabel, Units], Field(min_length=1, max_length=200)]
DeclaredUnits = Annotated[
    Annotated[Units, Tag("plain")] | Annotated[UnitsByPool, Tag("mapping")], Discriminator(plain_or_mapping)
]
"""Amount of a GPU resource, on any of the pools that offer it. With `queueing`, the value may be a mapping by
pool: `{train: 32}`.
"""


class GpuUnits(SpecModel):
    """Amounts of GPUs, shares, instances or devices. The amount is 0 for a GPU resource without an entry.

    With `queueing`, each amount may be a mapping by pool, such as `gpus: {train: 32}`.
    """

    gpus: DeclaredUnits = 0
    """Number of whole GPUs (`nvidia.com/gpu`)."""
    shared: DeclaredUnits = 0
    """Number of shares of time-sliced or MPS GPUs (`nvidia.com/gpu.shared`)."""
    mig: dict[MigProfileName, DeclaredUnits] = {}
    """Number of MIG instances by profile (`nvidia.com/mig-<profile>`)."""
    mig_shared: dict[MigProfileName, DeclaredUnits] = {}
    """Number of shares of time-sliced MIG instances by profile (`nvidia.com/mig-<profile>.shared`)."""
    devices: dict[DeviceClassName, DeclaredUnits] = {}
    """With DRA, the number of devices by device class: gpu.nvidia.com, mig.nvidia.com, or a class in
    `device_classes`.
    """


class Quota(GpuUnits):
    """Resource quota of a team. A GPU resource without an entry has a quota of 0."""

    cpu: Cpu | None = None
    """Maximum CPUs of all pods together. With `queueing`, only pods on nodes without GPUs count, because each GPU
    comes with its share of the node's CPUs.
    """
    memory: Memory | None = None
    """Maximum memory of all pods together. With `queueing`, only pods on nodes without GPUs count, because each
    GPU comes with its share of the node's memory.
    """
    objects: ObjectLimits = ObjectLimits()
    """Maximum numbers of objects, and maximum storage."""


class TeamQueue(SpecModel):
    """Queue for a team's workloads, with `queueing`. Its nominal quota is the team's `quota`."""

    cohort: DnsLabel = "teams"
    """Cohort of the team. Teams in the same cohort lend each other their unused quota."""
    borrow: GpuUnits | None = None
    """Borrowing limit: how much the team may use of other teams' quotas and of capacity outside all quotas. With
    `{}`, the team cannot borrow. If unset, it can borrow everything that its cohort lends, for each resource in
    the team's quota.
    """
    lend: GpuUnits | None = None
    """Lending limit: how much other teams may use of the team's quota. With `{}`, the team lends nothing. If
    unset, it lends the whole quota.
    """
    weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of the team when teams share borrowed quota, relative to the weights of other teams. A team with
    weight 0 borrows last.
    """


class Workload(SpecModel):
    """Deployment of a team in the stack file. Its pods have the node selector and tolerations for its pool."""

    name: DnsLabel
    pool: DnsLabel
    replicas: int = Field(default=1, ge=0, le=1000)
    gpus: int = Field(default=1, ge=0, le=16)
    """Number of whole GPUs per pod. On a shared or MIG pool, a pod has exactly one share or instance. The number
    must be 0 on a CPU pool, and cannot be 0 on other pools.
    """
    profile: MigProfileName | None = None
    """MIG profile, required if the pool offers several."""
    claim: DnsLabel | None = None
    """On a pool with DRA, the name of the claim in `claims` for each pod. The claim defines the number of devices.
    """
    compute_domain: bool = False
    """Create a ComputeDomain for the workload, on a pool whose nodes are connected by NVLink. The workload's pods
    then share GPU memory over NVLink. All nodes of a pool are in a single NVLink domain, so all pods are in the
    same domain.
    """
    gpu_memory: GpuMemory | None = None
    """GPU memory that a pod needs on each of its GPUs, shares or instances. It is compared with the memory of the
    GPU, share or instance.
    """
    cpu: Cpu = "1"
    memory: Memory = "4Gi"
    image: str | None = None
    """Container image, pinned by tag or digest. The default is the pause image: the pods then occupy the GPU but
    compute nothing.
    """
    command: OptionalCommand = ()
    run_as_user: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """User ID of the container's processes. The default is the image's user, which must be a number other than 0
    with `pod_security: restricted`.
    """


class Team(SpecModel):
    """Team in the stack file: its namespace, quota, priority, members and workloads."""

    name: DnsLabel
    """Name of the team and of its namespace."""
    quota: Quota
    priority: DnsLabel
    """Highest priority class that the team may use. It is also the default of the team's workloads."""
    members: Annotated[tuple[Member, ...], Field(min_length=1, max_length=1000)]
    """Members with the role `user`, who run workloads."""
    admins: Annotated[tuple[Member, ...], Field(max_length=1000)] = ()
    """Members with the role `admin`. In addition to the rights of a user, they may delete whole collections and
    evict pods. Nobody may be in more than one of the lists `members`, `admins` and `viewers`.
    """
    viewers: Annotated[tuple[Member, ...], Field(max_length=1000)] = ()
    """Members with the role `viewer`. They read objects and logs, but have no access to Secrets and no shell in
    pods.
    """
    queue: TeamQueue | None = None
    """How much quota the team borrows and lends, with `queueing`. If unset, the defaults apply."""
    identity: TeamIdentity | None = None
    """Cloud identity of the team's pods that use the service account `team`. If unset, pods have no access to the
    cloud. On EKS and GKE, the identity of a team with a separate stack is in the environment's `team_identities`.
    """
    image_pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=20)] = ()
    """Names of Secrets of type kubernetes.io/dockerconfigjson in the team's namespace. Pods with the service
    account `team` use them to pull images. The team creates the Secrets. Their content is never in a stack file
    or in the state.
    """
    egress: Annotated[tuple[Egress, ...], Field(max_length=100)] = ()
    """Destinations that pods of the team may reach in addition to their namespace, DNS and, on EKS and GKE, the
    endpoints of their cloud identity. `internet` is HTTPS (TCP 443) to all public addresses. `cloud-apis` on GKE
    is HTTPS to Google's APIs only. Other entries are networks or, on GKE and with Cilium, host names. Everything
    else is denied.
    """
    ingress: Annotated[tuple[Source, ...], Field(max_length=100)] = ()
    """Sources that may reach pods of the team, in addition to pods in its namespace. Everything else is denied."""
    scaling: TeamScaling = TeamScaling()
    """Servers and types of triggers that KEDA may use for the team, in addition to the Prometheus of `addons`."""
    routes: TeamRoutes = TeamRoutes()
    """Hosts that the team's Ingresses and Gateway routes may use. By default, no hosts are allowed."""
    inline_csi_drivers: Annotated[
        tuple[CsiDriver, ...], Field(max_length=20, examples=[["secrets-store.csi.k8s.io"]])
    ] = ()
    """CSI drivers that pods may use for inline volumes (`volumes[].csi`), in addition to the driver of Cloud
    Storage FUSE. A driver may mount servers that the pod chooses, with the rights of the driver. List only
    drivers that are meant for inline use.
    """
    allow_bare_pods: Annotated[bool, On(("eks",), "elsewhere such pods are allowed")] = False
    """Admit pods without a controller (Job, Deployment, StatefulSet and the like). EKS does not guarantee network
    policies for such pods. Set this field for clusters with a different network plugin, or for tools that create
    such pods.
    """
    pod_security: PodSecurity = "restricted"
    """Pod Security level that the namespace enforces. With `restricted`, pods run as a user other than root, with
    a seccomp profile and without capabilities. With `baseline`, pods may run as root, but may not be privileged or
    use host paths or namespaces of the node. `workloads` have the settings that the level requires, except the
    user. An image that runs as root needs `run_as_user`.
    """
    claims: Annotated[tuple[Claim, ...], Field(max_length=200)] = ()
    """With DRA, ResourceClaimTemplates in the team's namespace."""
    workloads: Annotated[tuple[Workload, ...], Field(max_length=200)] = ()
    training_jobs: Annotated[tuple[TrainingJob, ...], Field(max_length=200)] = ()
    """Jobs in which several pods train one model. Each job runs once. A changed job is deleted and started again.
    """
    inference_services: Annotated[tuple[InferenceService, ...], Field(max_length=200)] = ()
    """Models that answer requests, each behind a Service."""
    ray_clusters: Annotated[tuple[RayCluster, ...], Field(max_length=50)] = ()
    """Ray clusters, with `addons.kuberay`."""
    notebooks: Annotated[tuple[Notebook, ...], Field(max_length=200)] = ()
    """Notebooks that members can start when they need them."""
    batch_jobs: Annotated[tuple[BatchJob, ...], Field(max_length=200)] = ()
    """Jobs of independent parts that run once or on a schedule."""

    @property
    def by_role(self) -> Mapping[str, tuple[str, ...]]:
        """Members by the name of the field that lists them, with the most powerful role first."""
        return {"admins": self.admins, "members": self.members, "viewers": self.viewers}

    @property
    def everybody(self) -> tuple[str, ...]:
        """All members, whatever their role."""
        return (*self.admins, *self.members, *self.viewers)
