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
"""Levels of the Pod Security Standards that a team's namespace may enforce; `privileged` would open the nodes."""


class ObjectLimits(SpecModel):
    """Most objects of each kind in a team's namespace."""

    pods: int = Field(default=2000, ge=1, le=100_000)
    """Pods that have not ended."""
    jobs: int = Field(default=2000, ge=0, le=100_000)
    services: int = Field(default=200, ge=0, le=100_000)
    load_balancers: int = Field(default=0, ge=0, le=1000)
    """Services of type LoadBalancer. Each of their ports needs one of `node_ports` too, unless the Service has
    allocateLoadBalancerNodePorts: false."""
    node_ports: int = Field(default=0, ge=0, le=2768)
    """Node ports of Services: open on every node of the cluster, whose range has 2768 of them."""
    config_maps: int = Field(default=500, ge=0, le=100_000)
    secrets: int = Field(default=500, ge=0, le=100_000)
    claims: int = Field(default=500, ge=0, le=100_000)
    """PersistentVolumeClaims."""
    other_kinds: int = Field(default=200, ge=0, le=100_000)
    """Objects of each other kind that members may create, such as Deployments, service accounts or JobSets."""
    storage: Memory = "100Ti"
    """Storage that all PersistentVolumeClaims request together."""


Units = Annotated[int, Field(ge=0)]
UnitsByPool = Annotated[dict[DnsLabel, Units], Field(min_length=1, max_length=200)]
DeclaredUnits = Annotated[
    Annotated[Units, Tag("plain")] | Annotated[UnitsByPool, Tag("mapping")], Discriminator(plain_or_mapping)
]
"""Units of a resource on whichever pools offer it, or with `queueing` by pool: `{train: 32}`."""


class GpuUnits(SpecModel):
    """Numbers of GPUs, shares, instances or devices. A GPU resource without an entry has 0.

    With `queueing` each may be a mapping by pool, such as `gpus: {train: 32}`.
    """

    gpus: DeclaredUnits = 0
    """Whole GPUs: `nvidia.com/gpu`."""
    shared: DeclaredUnits = 0
    """Shares of time-sliced or MPS GPUs: `nvidia.com/gpu.shared`."""
    mig: dict[MigProfileName, DeclaredUnits] = {}
    """MIG instances by profile: `nvidia.com/mig-<profile>`."""
    mig_shared: dict[MigProfileName, DeclaredUnits] = {}
    """Shares of time-sliced MIG instances by profile: `nvidia.com/mig-<profile>.shared`."""
    devices: dict[DeviceClassName, DeclaredUnits] = {}
    """With DRA: devices by device class: gpu.nvidia.com, mig.nvidia.com, or one of `device_classes`."""


class Quota(GpuUnits):
    """Resource quota of a team. A GPU resource without an entry has a quota of 0."""

    cpu: Cpu | None = None
    """CPUs of all pods. With `queueing`: of pods on nodes without GPUs; a GPU comes with its share of its node."""
    memory: Memory | None = None
    """Memory of all pods; with `queueing` as for CPU."""
    objects: ObjectLimits = ObjectLimits()
    """Numbers of objects, and storage."""


class TeamQueue(SpecModel):
    """Queue of a team's workloads, with `queueing`. Its nominal quota is the team's `quota`."""

    cohort: DnsLabel = "teams"
    """Teams of the same cohort lend each other what they do not use."""
    borrow: GpuUnits | None = None
    """Most that the team may use of other teams' quotas, and of what no quota has; `{}`: nothing. Unset: all that
    its cohort lends of each resource in the team's quota."""
    lend: GpuUnits | None = None
    """Most that other teams may use of its quota; `{}`: nothing. Unset: all of it."""
    weight: float = Field(default=1.0, ge=0, le=1000)
    """Share of the team in what is borrowed, relative to the weights of other teams; 0: it borrows last."""


class Workload(SpecModel):
    """Deployment of a team in the stack file, with the node selector and tolerations of its pool."""

    name: DnsLabel
    pool: DnsLabel
    replicas: int = Field(default=1, ge=0, le=1000)
    gpus: int = Field(default=1, ge=0, le=16)
    """Whole GPUs per pod; on a shared or MIG pool a pod gets exactly one share or instance. 0 on a CPU pool, and
    only there."""
    profile: MigProfileName | None = None
    """MIG profile, if the pool offers several."""
    claim: DnsLabel | None = None
    """On a pool with DRA: name of the claim in `claims` that each pod gets; the claim has the number of
    devices."""
    compute_domain: bool = False
    """On a pool whose NVLink connects several nodes: a ComputeDomain for the workload, whose pods then share GPU
    memory over NVLink. They are in one NVLink domain, which a pool is."""
    gpu_memory: GpuMemory | None = None
    """GPU memory that a pod needs on each of its GPUs, shares or instances; checked against their memory."""
    cpu: Cpu = "1"
    memory: Memory = "4Gi"
    image: str | None = None
    """Container image, pinned; unset: the pause image, which allocates the GPU and computes nothing."""
    command: OptionalCommand = ()
    run_as_user: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """User id of the container's processes. Unset: the image's own user, which with `pod_security: restricted` has
    to be a number other than 0."""


class Team(SpecModel):
    """Team in the stack file: its namespace, quota, priority, members and workloads."""

    name: DnsLabel
    """Name of the team and of its namespace."""
    quota: Quota
    priority: DnsLabel
    """Highest priority class that the team may use, and the default of its workloads."""
    members: Annotated[tuple[Member, ...], Field(min_length=1, max_length=1000)]
    """Who runs workloads: role user."""
    admins: Annotated[tuple[Member, ...], Field(max_length=1000)] = ()
    """Role admin: a user who may also delete whole collections and evict pods. Nobody is in two lists."""
    viewers: Annotated[tuple[Member, ...], Field(max_length=1000)] = ()
    """Role viewer: reads objects and logs; no secrets, and no shell in a pod."""
    queue: TeamQueue | None = None
    """With `queueing`: what the team borrows and lends. Unset: the defaults."""
    identity: TeamIdentity | None = None
    """What pods of the team may use in the cloud, if they name the service account `team`. Unset: nothing. A team
    with a stack of its own has it in the environment's `team_identities` on EKS and GKE."""
    image_pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=20)] = ()
    """Names of Secrets of the team's namespace, of type kubernetes.io/dockerconfigjson, with which pods of the
    service account `team` pull images. The team creates them; their content is in no stack file and no state."""
    egress: Annotated[tuple[Egress, ...], Field(max_length=100)] = ()
    """What pods of the team may reach beside their namespace, DNS and, on EKS and GKE, their identity: `internet`,
    which is HTTPS (TCP 443) to all public addresses; `cloud-apis`, on GKE HTTPS to the APIs of Google alone;
    networks and, on GKE and with Cilium, hosts by name. Everything else is denied."""
    ingress: Annotated[tuple[Source, ...], Field(max_length=100)] = ()
    """Who may reach pods of the team, beside pods of its namespace. Everybody else is denied."""
    scaling: TeamScaling = TeamScaling()
    """What KEDA may ask for the team, beside the Prometheus of `addons`."""
    routes: TeamRoutes = TeamRoutes()
    """Hosts of the team's Ingresses and Gateway routes; unset: none."""
    inline_csi_drivers: Annotated[
        tuple[CsiDriver, ...], Field(max_length=20, examples=[["secrets-store.csi.k8s.io"]])
    ] = ()
    """CSI drivers whose volumes pods may write inline (`volumes[].csi`), beside that of Cloud Storage FUSE. A
    driver may mount servers of the pod's choice with rights of its own: name those alone that are meant for it."""
    allow_bare_pods: Annotated[bool, On(("eks",), "elsewhere such pods are admitted")] = False
    """Admit pods without a controller (Job, Deployment, StatefulSet and the like), which EKS promises no network
    policies for: on clusters whose owner runs another network plugin, and for tools that make such pods."""
    pod_security: PodSecurity = "restricted"
    """Pod Security level that the namespace enforces. restricted: pods run as another user than root, with a
    seccomp profile and without capabilities. baseline: pods may run as root; they use neither host paths nor
    namespaces of the node, and are not privileged. `workloads` get what the level requires, apart from a user:
    an image that runs as root needs `run_as_user`."""
    claims: Annotated[tuple[Claim, ...], Field(max_length=200)] = ()
    """With DRA: ResourceClaimTemplates in the team's namespace."""
    workloads: Annotated[tuple[Workload, ...], Field(max_length=200)] = ()
    training_jobs: Annotated[tuple[TrainingJob, ...], Field(max_length=200)] = ()
    """Jobs of several pods that train one model, each once: a changed job is deleted and started anew."""
    inference_services: Annotated[tuple[InferenceService, ...], Field(max_length=200)] = ()
    """Models that answer requests, behind a Service each."""
    ray_clusters: Annotated[tuple[RayCluster, ...], Field(max_length=50)] = ()
    """With `addons.kuberay`."""
    notebooks: Annotated[tuple[Notebook, ...], Field(max_length=200)] = ()
    """Notebooks that members start when they need one."""
    batch_jobs: Annotated[tuple[BatchJob, ...], Field(max_length=200)] = ()
    """Work in independent parts, at once or by a schedule."""

    @property
    def by_role(self) -> Mapping[str, tuple[str, ...]]:
        """Members by the field that names them, the strongest role first."""
        return {"admins": self.admins, "members": self.members, "viewers": self.viewers}

    @property
    def everybody(self) -> tuple[str, ...]:
        """Members of every role."""
        return (*self.admins, *self.members, *self.viewers)
