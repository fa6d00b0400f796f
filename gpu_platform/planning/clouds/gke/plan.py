"""Types for the plans of GKE pools and clusters, using names of the GKE and Compute Engine APIs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gpu_platform.base.errors import Problem
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.section import (
    DaemonSetPlan,
    Timeouts,
)
from gpu_platform.planning.clouds.windows import CapacityWindow
from gpu_platform.planning.nodes.section import KubeletLimits, NodeScript
from gpu_platform.planning.requirements.section import ClassPlace

# The provider's defaults. Source: terraform-provider-google, resource_container_cluster.go.
_CLUSTER_TIMEOUTS: Final = Timeouts(create=40 * 60, update=60 * 60, delete=40 * 60)
SYSTEM_SURGE: Final = 1
"""Number of nodes that GKE adds while it rolls the system nodes. One is enough, because controllers have few
replicas.
"""
NODE_POOL_TIMEOUTS: Final = Timeouts(create=60 * 60, update=24 * 60 * 60, delete=60 * 60)
"""Timeouts of a node pool with few nodes. The provider's default is 30 minutes."""
# GKE waits up to an hour for the pods of each node, and then creates the node again.
_ROUND_SECONDS: Final = 75 * 60

# MTU of the networks between GPUs: GKE docs, Maximize GPU network bandwidth; read 2026-11-21.
TCPX_MTU: Final = 8244  # a jumbo frame without the TCPX header
RDMA_MTU: Final = 8896


def node_pool_timeouts(nodes: int, at_a_time: int | None) -> Timeouts:
    """Return the timeouts of a node pool that GKE updates `at_a_time` nodes at a time, or all nodes together if
    `at_a_time` is None.
    """
    return NODE_POOL_TIMEOUTS.for_rounds(nodes, at_a_time or nodes, _ROUND_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """The `guest_accelerators` of a node pool."""

    type: str
    count: int
    driver_version: Literal["DEFAULT", "LATEST", "INSTALLATION_DISABLED"]
    sharing_strategy: Literal["TIME_SHARING"] | None
    max_shared_clients: int | None
    partition_size: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationAffinity:
    """The `reservation_affinity` of a node pool."""

    type: Literal["SPECIFIC_RESERVATION", "NO_RESERVATION"]
    key: str | None = None
    values: tuple[str, ...] = ()


# GKE docs, Set up multi-network support for Pods, general limitations; read 2026-11-29.
SAME_PROJECT: Final = (
    "for nodes with GPU networks, because GKE requires all network interfaces of a node to be in one project, "
    "and the program creates GPU networks in the cluster's project"
)


# GKE docs, Allocate network resources by using GKE managed DRANET, read 2026-11-29.
# GKE docs, Set up multi-network support for Pods, read 2026-11-29.
PROFILE_IN_SHARED_VPC: Final = (
    "with a network profile, GKE itself creates the networks for GPU NICs, and it requires all network "
    "interfaces of a node to be in one project; GKE's documentation does not say whether this works in a "
    "Shared VPC, so create one node first to test it, or write network: {rdma: false} in the pools"
)


RDMA_DEVICE_CLASS: Final = "mrdma.google.com"
"""Device class of GKE's managed DRANET.

Source: GKE docs, Allocate network resources by using GKE managed DRANET; read 2026-11-23.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactPlacement:
    """A resource policy for compact placement.

    The program creates the policy if `create` is true. Otherwise the policy already exists.

    `topology` is the accelerator topology of a workload policy, which places nodes in one NVLink domain. It is
    None for a group placement policy.
    """

    policy: str
    create: bool
    topology: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeSettings:
    """The `upgrade_settings` of a node pool."""

    strategy: Literal["SURGE", "BLUE_GREEN"]
    max_surge: int | None
    max_unavailable: int | None

    def surge(self, most: int) -> int:
        """Return how many nodes GKE adds while it rolls the pool. `most` is the pool's maximum node count. A
        blue-green upgrade doubles the node count.
        """
        return most if self.strategy == "BLUE_GREEN" else self.max_surge or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeKubelet:
    """The `kubelet_config` of a node pool."""

    cpu_manager_policy: str
    topology_policy: str
    topology_scope: str
    memory_policy: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeTaint:
    """A taint with its effect as named in the GKE API, such as NO_SCHEDULE."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GkePoolPlan:
    """The plan for a GKE node pool."""

    kind: Literal["gke"] = "gke"
    node_pool: str
    node_locations: tuple[str, ...]
    """Zones of the nodes.

    Placement and reservations need exactly one zone. An empty tuple means the cluster's zones.
    """
    machine_type: str
    accelerator: Accelerator | None
    """GPUs of a node, or None if the machine type has no GPUs."""
    image_type: str
    version: str | None
    """GKE version of the nodes. If None, new nodes have the version that the cluster has when they are created."""
    upgrades_excluded: bool
    """Whether GKE keeps the nodes at their version until support for this version ends."""
    spot: bool
    flex_start: bool
    queued_provisioning: bool
    max_run_duration_seconds: int | None
    reservation: ReservationAffinity
    placement: CompactPlacement | None
    upgrade: UpgradeSettings | None
    """Upgrade settings, or None for GKE's short-lived upgrades. Short-lived upgrades do not change existing nodes.
    """
    local_ssd_count: int
    disk_type: str
    disk_size_gb: int
    kms_key: str | None
    gvnic: bool
    secure_boot: bool
    kubelet: GkeKubelet | None
    sysctls: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kernel parameters. GKE allows only some kernel parameters to be set."""
    huge_pages: int = 0
    """Number of 2 MiB huge pages that nodes reserve."""
    kubelet_limits: KubeletLimits | None = None
    init_script: NodeScript | None = None
    image_streaming: bool = False
    image_cache: str | None = None
    """Disk image for a secondary boot disk that contains container images."""
    network: Literal["none", "networks", "profile"]
    """How the GPU NICs join their networks.

    `networks` means that the pool joins the cluster's GPU networks, and `profile` means
    accelerator_network_profile=auto.
    """
    gpu_networks: int = 0
    """With `networks`, the number of the cluster's GPU networks that the pool joins, starting with the first."""
    claimed_nics: int = 0
    """With `profile`, the number of a node's RDMA NICs, which pods claim from GKE's managed DRANET."""
    fabric: Literal["none", "tcpx", "tcpxo", "rdma"]
    labels: Mapping[str, str]
    taints: tuple[GkeTaint, ...]
    resource_labels: Mapping[str, str]
    autoscaled: bool
    nodes_per_location: int | None
    """Number of nodes in each location. If an autoscaler changes the number, this is only the initial number. The
    value is None for flex-start.
    """
    min_nodes: int
    """Minimum total number of nodes in all locations. `max_nodes` is the maximum total number."""
    max_nodes: int
    location_policy: Literal["ANY", "BALANCED"]
    auto_repair: bool
    auto_upgrade: bool
    delete_before_replace: bool
    protect: bool
    compute_class: ClassPlace | None = None
    windows: tuple[CapacityWindow, ...] = ()
    """The pool's reservation, with its start and end."""

    @property
    def surge(self) -> int:
        """Number of nodes that GKE adds while it rolls the pool."""
        return self.upgrade.surge(self.max_nodes) if self.upgrade is not None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNetwork:
    """One subnet for one GPU NIC, and the Kubernetes objects that let pods join the subnet.

    With GPUDirect-TCPX and -TCPXO each subnet needs its own VPC. RDMA subnets share a VPC that has a zone's
    network profile.
    """

    vpc: str
    subnet: str
    cidr: str
    mtu: int
    network_profile: str | None
    """Network profile of the VPC, `<zone>-vpc-roce`. A VPC with this profile does not support firewall rules."""
    kubernetes_network: str
    device_mode: Literal["NetDevice", "RDMA"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceExclusion:
    """A period in which GKE does not start the upgrades that `scope` names.

    If `end` is None, the period lasts until support for the version ends.
    """

    name: str
    start: str
    end: str | None
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeClassPlan:
    """A ComputeClass (cloud.google.com/v1).

    `pools` contains the pool names in order of preference. `spec` does not contain the priorities.
    """

    name: str
    pools: tuple[str, ...]
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpcPlan:
    """An existing VPC for a new cluster, with the ids of its network and subnetwork and the names of its secondary
    ranges.
    """

    network: str
    subnetwork: str
    pods_range: str
    services_range: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateGkePlan:
    """The settings of a new cluster. If `existing_vpc` is set, the fields for a new VPC have no effect."""

    existing_vpc: ExistingVpcPlan | None
    network: str
    mtu: int
    """MTU in bytes of the VPC that the program creates. An existing VPC keeps its MTU."""
    nodes_cidr: str
    pods_cidr: str
    services_cidr: str
    control_plane_cidr: str
    open_ports: tuple[int, ...]
    """Node ports that the program's firewall rule opens for the control plane. GKE itself opens the ports that it
    needs.
    """
    api_access: tuple[str, ...]
    dns_access: bool
    """Whether clients in any network can reach the API server at its DNS endpoint, where IAM controls access."""
    private_apis: bool
    """Whether the VPC that the program creates resolves Google API names to private.googleapis.com."""
    authenticator_groups: str | None
    """E-mail address of the security group for Google Groups for RBAC. RBAC recognises only the groups that are
    its members.
    """
    public_endpoint: bool
    """Whether the API server has a public address. It has one only if `api_access` contains a public network."""
    release_channel: str
    maintenance_start: str
    maintenance_end: str
    maintenance_recurrence: str
    exclusions: tuple[MaintenanceExclusion, ...]
    autoscaling_profile: Literal["BALANCED", "OPTIMIZE_UTILIZATION"]
    logs: tuple[str, ...]
    metrics: tuple[str, ...]
    """Monitored components by their GKE API names, such as SYSTEM_COMPONENTS and DCGM."""
    nfs_driver: bool
    """Whether GKE runs the Filestore driver."""
    lustre_driver: bool
    """Whether GKE runs the Managed Lustre driver."""
    system_machine_type: str
    system_vcpus: int
    system_disk_type: str
    """Boot disk type of the system nodes. It is the first boot disk type of their machine family."""
    system_cpu_quota: str | None
    """Compute Engine quota for the system nodes' vCPUs, or None if its name is not known to the program."""
    system_nodes: tuple[int, int]
    """Minimum and maximum number of system nodes over all zones."""
    system_nodes_in_zone: int | None
    """Fixed number of system nodes in each zone, or None if GKE's autoscaler changes it."""
    system_disk_gb: int
    system_kms_key: str | None = None
    """KMS key for the system nodes' disks, or None for the cloud's default key."""
    kms_key: str | None = None
    """KMS key for Secrets, or None for the cloud's default key."""

    @property
    def extended_support(self) -> bool:
        """Whether the cluster is in the Extended channel."""
        return self.release_channel == "EXTENDED"

    @property
    def system_leaves_zones(self) -> bool:
        """Whether a new system node may be in a different zone than the disks of the old node's pods.

        Always False, because each zone has at least one system node.
        """
        return False

    @property
    def upgrade_order(self) -> str | None:
        """The upgrade steps if a maintenance exclusion blocks minor upgrades until the end of support, or else
        None.

        An exclusion blocks only the upgrades that GKE starts. Sources: GKE docs, Maintenance windows and
        exclusions; Google provider, min_master_version; read 2026-11-29.
        """
        if all(one.end is not None for one in self.exclusions):
            return None
        return (
            "`up` upgrades the control plane, because a maintenance exclusion until the end of support blocks "
            "upgrades "
            "by the release channel; then you upgrade the node pools, which also keep their version until then"
        )

    @property
    def system_timeouts(self) -> Timeouts:
        """Timeouts of the pool of system nodes."""
        return node_pool_timeouts(self.system_nodes[1], SYSTEM_SURGE)

    @property
    def most_system_nodes(self) -> int:
        """The maximum number of system nodes, including the nodes that rolling updates add."""
        return self.system_nodes[1] + SYSTEM_SURGE


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeClusterPlan:
    """A new or existing GKE cluster, and the settings that all its GPU pools share.

    `create` is None if the cluster exists.
    """

    kind: Literal["gke"] = "gke"
    name: str
    project: str
    impersonate: str | None
    """E-mail address of the service account that the provider and the kubeconfig impersonate."""
    location: str
    region: str
    kubernetes: str | None
    create: CreateGkePlan | None
    multi_networking: bool
    """Whether pools of a new cluster may join additional networks.

    Once the setting is enabled, it stays enabled.
    """
    fqdn_policies: bool
    """Whether network policies support host names."""
    gpu_nics: bool
    """Whether any pool uses its GPU NICs."""
    networks: tuple[GpuNetwork, ...]
    keys: tuple[tuple[str, str], ...] = ()
    """Customer-managed keys, each with the domain of the Google service agent that uses it."""
    node_account: str
    """Id of the nodes' service account. The program creates the account if `node_email` is None."""
    node_email: str | None
    """E-mail address of an existing service account for the nodes."""
    node_roles: tuple[str, ...]
    """IAM roles of the nodes' service account."""
    disks_gb: Mapping[str, int] = field(default_factory=dict[str, int])
    """Total boot disk size in GB of all pools at their maximum size, by disk type."""
    vcpus: int = 0
    """Total vCPUs of all GPU pools at their maximum size."""
    logins: tuple[str, ...] = ()
    """Team members who are granted the login role, as IAM members."""
    groups: tuple[str, ...] = ()
    """E-mail addresses of the Google groups that are members of teams."""
    teams: tuple[str, ...] = ()
    """Names of the stack's teams."""
    identities: tuple[str, ...] = ()
    """Teams whose pods need the node's metadata server, either for their identity or for bucket volumes."""
    installers: tuple[DaemonSetPlan, ...]
    """The GPUDirect installers, and the driver installer for pools with the operator's device plugin."""
    minimum_version: str | None
    """The minimum GKE version, including the patch, that supports all pools."""
    node_versions: Mapping[str, str]
    """GKE version of the nodes, by pool. Only pools that declare a version are included."""
    broken_from: Mapping[str, str]
    """First GKE version whose nodes cannot use the pool's GPU NICs, by pool.

    Only pools without a declared version are included.
    """
    operator: str
    operator_kubernetes: tuple[str, str]
    """Minimum and maximum Kubernetes minor version that the GPU Operator's release supports."""
    resource_labels: Mapping[str, str]
    protect: bool
    retained: tuple[str, ...]
    """Resources that `destroy` does not delete, as text."""
    compute_classes: tuple[ComputeClassPlan, ...] = ()

    @property
    def releases(self) -> Mapping[str, Mapping[str, Any]]:
        """Helm values for controllers that the pools need. Always empty, because GKE runs the autoscaler."""
        return {}

    def kubernetes_problem(self, running: str) -> None:
        """Return why `up` cannot upgrade the control plane.

        The result is always None, because the declared version is only a minimum.
        """

    @property
    def parts(self) -> tuple[PartPlan, ...]:
        """Controllers that the program or the cluster's owner installs for the pools.

        Always empty, because GKE provides all controllers that the pools need.
        """
        return ()

    @property
    def first_up_problem(self) -> Problem | None:
        """Why the first `up` would fail, or None.

        No client can reach a private API server in a VPC that does not exist yet.
        """
        create = self.create
        if create is None or create.dns_access or create.public_endpoint or create.existing_vpc is not None:
            return None
        return Problem(
            "cluster.create.dns_access",
            f"false with {', '.join(create.api_access)}, but the VPC does not exist yet",
            "true, or api_access with the public network of the machine that runs the first `up`, because "
            "that `up` creates the VPC and then objects in the cluster",
            "remove dns_access, and add it again when `up` runs in a network that reaches the VPC; nothing "
            "was changed",
        )

    @property
    def known_zones(self) -> tuple[str, ...]:
        """Zones of pools that name no zone.

        Always empty, because such a pool uses the zones of the region that are known to offer its machine type.
        """
        return ()

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platforms that create the nodes of the cluster's pools."""
        return ("gke",)

    @property
    def timeouts(self) -> Timeouts:
        """How long the deployment engine waits for the cluster."""
        return _CLUSTER_TIMEOUTS

    @property
    def pool_timeouts(self) -> Mapping[str, Timeouts]:
        """How long the deployment engine waits for a pool, by platform."""
        return {"gke": NODE_POOL_TIMEOUTS}
