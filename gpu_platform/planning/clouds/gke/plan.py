"""Types of the plans of GKE pools and clusters, using names of the GKE and Compute APIs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gpu_platform.base.errors import Problem
from gpu_platform.planning.clouds.gke.cluster_settings import cluster_settings
from gpu_platform.planning.clouds.gke.prerequisites import gke_prerequisites
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.section import (
    CloudPrerequisites,
    ClusterSetting,
    Timeouts,
)
from gpu_platform.planning.clouds.windows import CapacityWindow
from gpu_platform.planning.nodes.section import KubeletLimits, NodeScript
from gpu_platform.planning.requirements.section import ClassPlace

# The defaults of the provider: terraform-provider-google, resource_container_cluster.go.
_CLUSTER_TIMEOUTS: Final = Timeouts(create=40 * 60, update=60 * 60, delete=40 * 60)
# GKE replaces nodes one by one and waits up to an hour for the pods of each; the default is 30 minutes.
SYSTEM_SURGE: Final = 1
"""Nodes that GKE adds for a roll of the system nodes, one at a time: controllers have few replicas."""
NODE_POOL_TIMEOUTS: Final = Timeouts(create=60 * 60, update=24 * 60 * 60, delete=60 * 60)

# Of the networks between GPUs: GKE docs, Maximize GPU network bandwidth; read 2026-11-21.
TCPX_MTU: Final = 8244  # a jumbo frame without the TCPX header
RDMA_MTU: Final = 8896


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """`guest_accelerators` of a node pool."""

    type: str
    count: int
    driver_version: Literal["DEFAULT", "LATEST", "INSTALLATION_DISABLED"]
    sharing_strategy: Literal["TIME_SHARING"] | None
    max_shared_clients: int | None
    partition_size: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationAffinity:
    """`reservation_affinity` of a node pool."""

    type: Literal["SPECIFIC_RESERVATION", "NO_RESERVATION"]
    key: str | None = None
    values: tuple[str, ...] = ()


# GKE docs, Set up multi-network support for Pods, general limitations; read 2026-11-29.
SAME_PROJECT: Final = (
    "for nodes with GPU networks: GKE wants all network interfaces of a node in one project, and the program "
    "creates GPU networks in the project of the cluster"
)


# GKE docs, Allocate network resources by using GKE managed DRANET, and Set up multi-network support for Pods; read
# 2026-11-29.
PROFILE_IN_SHARED_VPC: Final = (
    "with a network profile GKE creates the networks of GPU NICs itself, and it wants all network interfaces of a "
    "node in one project; GKE's documentation does not say whether that works in a Shared VPC: create one node "
    "first, or give the pools network: {rdma: false}"
)


RDMA_DEVICE_CLASS: Final = "mrdma.google.com"
"""Of GKE's managed DRANET. GKE docs, Allocate network resources by using GKE managed DRANET, read 2026-11-23."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactPlacement:
    """A resource policy of compact placement: created by the program (`create`), or an existing one.

    `topology`: accelerator topology of a workload policy, which places nodes in one NVLink domain; None: a group
    placement policy.
    """

    policy: str
    create: bool
    topology: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeSettings:
    """`upgrade_settings` of a node pool."""

    strategy: Literal["SURGE", "BLUE_GREEN"]
    max_surge: int | None
    max_unavailable: int | None

    def surge(self, most: int) -> int:
        """Return how many nodes GKE adds for a roll: all `most` nodes again with blue-green."""
        return most if self.strategy == "BLUE_GREEN" else self.max_surge or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeKubelet:
    """`kubelet_config` of a node pool."""

    cpu_manager_policy: str
    topology_policy: str
    topology_scope: str
    memory_policy: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeTaint:
    """A taint using GKE API names: NO_SCHEDULE."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSetPlan:
    """A pinned DaemonSet of the platform: name, namespace and pod spec in Kubernetes form."""

    name: str
    namespace: str
    pod_spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GkePoolPlan:
    """A GKE node pool."""

    kind: Literal["gke"] = "gke"
    node_pool: str
    node_locations: tuple[str, ...]
    """Exactly one where placement or a reservation needs it; empty: the cluster's."""
    machine_type: str
    accelerator: Accelerator | None
    """None: the machine type has no GPUs."""
    image_type: str
    version: str | None
    """GKE version of the nodes; None: the cluster's when they are created."""
    upgrades_excluded: bool
    """Whether GKE keeps the version of the nodes until it is out of support."""
    spot: bool
    flex_start: bool
    queued_provisioning: bool
    max_run_duration_seconds: int | None
    reservation: ReservationAffinity
    placement: CompactPlacement | None
    upgrade: UpgradeSettings | None
    """None: GKE's short-lived upgrades, which have no settings and leave nodes as they are until they end."""
    local_ssd_count: int
    disk_type: str
    disk_size_gb: int
    kms_key: str | None
    gvnic: bool
    secure_boot: bool
    kubelet: GkeKubelet | None
    sysctls: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kernel parameters, of those that GKE lets others set."""
    huge_pages: int = 0
    """Huge pages of 2 MiB that nodes set aside."""
    kubelet_limits: KubeletLimits | None = None
    init_script: NodeScript | None = None
    image_streaming: bool = False
    image_cache: str | None = None
    """Disk image of a secondary boot disk with container images."""
    network: Literal["none", "networks", "profile"]
    """`networks`: joins the cluster's GPU networks; `profile`: accelerator_network_profile=auto."""
    gpu_networks: int = 0
    """With `networks`: number of the cluster's GPU networks that it joins, from the first on."""
    claimed_nics: int = 0
    """With `profile`: RDMA NICs of a node, which pods claim from GKE's managed DRANET."""
    fabric: Literal["none", "tcpx", "tcpxo", "rdma"]
    labels: Mapping[str, str]
    taints: tuple[GkeTaint, ...]
    resource_labels: Mapping[str, str]
    autoscaled: bool
    nodes_per_location: int | None
    """Nodes of each location, at first or, without an autoscaler, always; None: no count (flex-start)."""
    min_nodes: int
    """Over all locations, as `max_nodes`."""
    max_nodes: int
    location_policy: Literal["ANY", "BALANCED"]
    auto_repair: bool
    auto_upgrade: bool
    delete_before_replace: bool
    protect: bool
    compute_class: ClassPlace | None = None
    windows: tuple[CapacityWindow, ...] = ()
    """When its reservation exists."""

    @property
    def surge(self) -> int:
        """Nodes that GKE adds for a roll."""
        return self.upgrade.surge(self.max_nodes) if self.upgrade is not None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNetwork:
    """One subnet for one GPU NIC, and the Kubernetes objects that let pods join it.

    GPUDirect-TCPX and -TCPXO need a VPC for each; RDMA subnets share one with the network profile of a zone.
    """

    vpc: str
    subnet: str
    cidr: str
    mtu: int
    network_profile: str | None
    """Of the VPC: `<zone>-vpc-roce`; such a VPC supports no firewall rules."""
    kubernetes_network: str
    device_mode: Literal["NetDevice", "RDMA"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceExclusion:
    """A time without upgrades of that scope. `end` None: until the version's end of support."""

    name: str
    start: str
    end: str | None
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeClassPlan:
    """A ComputeClass (cloud.google.com/v1). `pools`: their names in order; `spec`: without its priorities."""

    name: str
    pools: tuple[str, ...]
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpcPlan:
    """An existing VPC of a new cluster: ids of network and subnetwork, names of the secondary ranges."""

    network: str
    subnetwork: str
    pods_range: str
    services_range: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateGkePlan:
    """The settings of a new cluster. With `existing_vpc` the fields of the VPC have no effect."""

    existing_vpc: ExistingVpcPlan | None
    network: str
    mtu: int
    """Of the VPC, bytes; one that exists keeps its own."""
    nodes_cidr: str
    pods_cidr: str
    services_cidr: str
    control_plane_cidr: str
    open_ports: tuple[int, ...]
    """Ports of nodes that a rule of the created VPC opens for the control plane, beside GKE's own."""
    api_access: tuple[str, ...]
    dns_access: bool
    """Whether clients of any network reach the API server by its DNS endpoint, with IAM."""
    private_apis: bool
    """Whether the created VPC resolves names of Google's APIs to private.googleapis.com."""
    authenticator_groups: str | None
    """E-mail address of the security group whose member groups RBAC can name."""
    public_endpoint: bool
    """Whether the API server has a public address: only if `api_access` has a public network."""
    release_channel: str
    maintenance_start: str
    maintenance_end: str
    maintenance_recurrence: str
    exclusions: tuple[MaintenanceExclusion, ...]
    autoscaling_profile: Literal["BALANCED", "OPTIMIZE_UTILIZATION"]
    logs: tuple[str, ...]
    metrics: tuple[str, ...]
    """Components by GKE API names: SYSTEM_COMPONENTS, DCGM."""
    nfs_driver: bool
    """Whether GKE runs the driver of Filestore."""
    lustre_driver: bool
    """Whether GKE runs the driver of Managed Lustre."""
    system_machine_type: str
    system_vcpus: int
    system_disk_type: str
    """Type of their boot disk: the first that the machine family boots from."""
    system_cpu_quota: str | None
    """Quota of Compute Engine that their vCPUs count against; None: its name is not known here."""
    system_nodes: tuple[int, int]
    """Lowest and highest number of nodes over all zones."""
    system_nodes_in_zone: int | None
    """Fixed number of nodes in each zone; None: GKE's autoscaler changes it."""
    system_disk_gb: int
    system_kms_key: str | None = None
    """Key of the disks of system nodes; None: the cloud's default."""
    kms_key: str | None = None
    """Key of the Secrets; None: the cloud's default."""

    @property
    def extended_support(self) -> bool:
        """Whether the cluster is in the Extended channel."""
        return self.release_channel == "EXTENDED"

    @property
    def system_leaves_zones(self) -> bool:
        """False: each zone has one at least."""
        return False

    @property
    def upgrade_order(self) -> str | None:
        """Return the order where an exclusion until the end of support keeps the channel from minor upgrades.

        An exclusion blocks upgrades by GKE alone. Sources: GKE docs, Maintenance windows and exclusions; Google
        provider, min_master_version; read 2026-11-29.
        """
        if all(one.end is not None for one in self.exclusions):
            return None
        return (
            "`up` upgrades the control plane, since a maintenance exclusion until the end of support keeps the "
            "release channel from it; then you upgrade the node pools, which keep their version as long"
        )

    @property
    def most_system_nodes(self) -> int:
        """The most system nodes, rolls included."""
        return self.system_nodes[1] + SYSTEM_SURGE


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeClusterPlan:
    """A new (`create`) or existing GKE cluster, and the settings that all its GPU pools share."""

    kind: Literal["gke"] = "gke"
    name: str
    project: str
    impersonate: str | None
    """E-mail of the service account that the provider and the kubeconfig impersonate."""
    location: str
    region: str
    kubernetes: str | None
    create: CreateGkePlan | None
    multi_networking: bool
    """Of a created cluster: whether a pool may join further networks. The cluster keeps it without such pools."""
    fqdn_policies: bool
    """Whether network policies may name hosts."""
    gpu_nics: bool
    """Whether a pool uses its GPU NICs."""
    networks: tuple[GpuNetwork, ...]
    keys: tuple[tuple[str, str], ...] = ()
    """Customer-managed keys, each with the domain of the service agent that uses it."""
    node_account: str
    """Id of the nodes' service account, which the program creates without `node_email`."""
    node_email: str | None
    """E-mail of an existing service account of the nodes."""
    node_roles: tuple[str, ...]
    """Its IAM roles."""
    disks_gb: Mapping[str, int] = field(default_factory=dict[str, int])
    """Boot disks of all pools at their most nodes, GB by type of disk."""
    vcpus: int = 0
    """Of all GPU pools at their most nodes."""
    logins: tuple[str, ...] = ()
    """Members of teams, as IAM names them, who get the role for logins."""
    groups: tuple[str, ...] = ()
    """Google groups that are members of teams, by e-mail address."""
    teams: tuple[str, ...] = ()
    """Teams of the stack."""
    identities: tuple[str, ...] = ()
    """Teams whose pods reach the metadata server of their node: by their identity, or for volumes of buckets."""
    installers: tuple[DaemonSetPlan, ...]
    """GPUDirect installers, and the driver installer where the operator runs the device plugin."""
    minimum_version: str | None
    """The lowest GKE version that supports all pools, with the patch."""
    node_versions: Mapping[str, str]
    """GKE version of nodes by pool, of pools that declare it."""
    broken_from: Mapping[str, str]
    """First GKE version whose nodes cannot use the pool's GPU NICs, by pool; of pools that declare no version."""
    operator: str
    operator_kubernetes: tuple[str, str]
    """Lowest and highest minor version that the GPU Operator's release supports."""
    resource_labels: Mapping[str, str]
    protect: bool
    retained: tuple[str, ...]
    """Resources that `destroy` does not delete, as text."""
    compute_classes: tuple[ComputeClassPlan, ...] = ()

    @property
    def releases(self) -> Mapping[str, Mapping[str, Any]]:
        """None: GKE runs its autoscaler itself."""
        return {}

    def kubernetes_problem(self, running: str) -> None:
        """Return None: the declared version is a minimum."""

    @property
    def parts(self) -> tuple[PartPlan, ...]:
        """Controllers that the pools need."""
        return ()

    @property
    def first_up_problem(self) -> Problem | None:
        """Why an `up` that creates the cluster would fail: no client reaches a private API server in a new VPC."""
        create = self.create
        if create is None or create.dns_access or create.public_endpoint or create.existing_vpc is not None:
            return None
        return Problem(
            "cluster.create.dns_access",
            f"false with {', '.join(create.api_access)}, and the VPC does not exist yet",
            "true, or in api_access the public network of the machine of the first `up`: it creates the VPC "
            "and then objects in the cluster",
            "remove dns_access, and write it when a network that reaches the VPC runs `up`; nothing was changed",
        )

    @property
    def settings(self) -> tuple[ClusterSetting, ...]:
        """Settings of the cluster itself that a preview compares with the last deployment."""
        return cluster_settings(self)

    @property
    def known_zones(self) -> tuple[str, ...]:
        """None: the zones of a region are those that are known to offer the machine type of a pool."""
        return ()

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platforms that create the nodes of its pools."""
        return ("gke",)

    @property
    def timeouts(self) -> Timeouts:
        """How long an engine waits for the cluster itself."""
        return _CLUSTER_TIMEOUTS

    @property
    def pool_timeouts(self) -> Mapping[str, Timeouts]:
        """How long an engine waits for a pool, by platform."""
        return {"gke": NODE_POOL_TIMEOUTS}

    def prerequisites(self, resource_types: Iterable[str]) -> CloudPrerequisites:
        """Return what an `up` needs from the cloud; `resource_types`: Pulumi's types of what it creates."""
        return gke_prerequisites(self, resource_types)
