"""Types for the plans of AKS pools and clusters, using names of the AKS API and of its Pulumi provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gpu_platform.base.errors import Problem
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.section import DaemonSetPlan, HelmChartPlan, Timeouts
from gpu_platform.planning.clouds.vendors import DEFAULT_MAX_PODS
from gpu_platform.planning.kubernetes_versions import minor
from gpu_platform.planning.nodes.section import KubeletLimits

# The provider's defaults. Source: terraform-provider-azurerm, kubernetes_cluster_resource.go, read 2026-11-30.
_CLUSTER_TIMEOUTS: Final = Timeouts(create=90 * 60, update=90 * 60, delete=90 * 60)
AGENT_POOL_TIMEOUTS: Final = Timeouts(create=60 * 60, update=24 * 60 * 60, delete=60 * 60)
"""Timeouts of an agent pool with few nodes. The provider's default for an update is one hour."""
# AKS waits up to an hour for the pods of each node, and then creates the node again.
_ROUND_SECONDS: Final = 75 * 60
MAX_PODS: Final = DEFAULT_MAX_PODS
"""`maxPods` of all agent pools of the program.

AKS' default with overlay networking, 250, reserves 5050 MiB on each node.
"""
SYSTEM_POOL: Final = "system"
ROTATION_POOL: Final = "systemtmp"
"""Agent pool to which the provider moves the system nodes while it changes them."""
SYSTEM_SURGE: Final = 1
"""Number of nodes that AKS adds while it rolls the system nodes."""
NO_NETWORK: Final = "0.0.0.0/32"
"""Authorised range that admits nobody except the nodes. Without any range, AKS admits the whole internet (AKS
docs, "Secure access to the API server using authorized IP address ranges", read 2026-11-30).
"""


def agent_pool_timeouts(nodes: int, at_a_time: int) -> Timeouts:
    """Return the timeouts of an agent pool in which AKS updates `at_a_time` nodes together."""
    return AGENT_POOL_TIMEOUTS.for_rounds(nodes, at_a_time, _ROUND_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AksUpgrade:
    """The `upgrade_settings` of an agent pool, in numbers of nodes. `drain_minutes` is how long AKS waits for the
    pods of a node.
    """

    max_surge: int
    max_unavailable: int
    drain_minutes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProximityGroup:
    """The proximity placement group of a pool: the ID of an existing group, or the name of a new group."""

    id: str | None
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AksKubelet:
    """The kubelet policies of an agent pool that align the GPUs, CPUs and NICs of a pod."""

    cpu_manager_policy: str
    topology_manager_policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AksPoolPlan:
    """The plan for an AKS agent pool."""

    kind: Literal["aks"] = "aks"
    agent_pool: str
    """Name of the agent pool, with at most 12 characters."""
    vm_size: str
    orchestrator_version: str | None
    """Kubernetes version of the nodes, or None to create nodes with the version of an existing cluster."""
    gpu_driver: Literal["None", "Install"] | None
    """Whether AKS installs the driver and the container toolkit, or None for machines without GPUs."""
    os_sku: str
    os_disk_type: Literal["Ephemeral", "Managed"]
    os_disk_size_gb: int
    zones: tuple[str, ...]
    """Availability zones. Without zones, Azure places the nodes anywhere in the region."""
    capacity_reservation_group: str | None
    """Resource ID of the capacity reservation group whose capacity the nodes use, or None."""
    priority: Literal["Regular", "Spot"]
    autoscaled: bool
    nodes: int
    """Number of nodes. If an autoscaler changes the number, this is only the initial number."""
    min_nodes: int
    max_nodes: int
    proximity_group: ProximityGroup | None
    upgrade: AksUpgrade | None
    """Upgrade settings, or None for spot nodes, which have none."""
    kubelet: AksKubelet | None
    kubelet_limits: KubeletLimits | None
    sysctls: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str]
    taints: tuple[str, ...]
    """Taints in the form key=value:Effect."""
    tags: Mapping[str, str]
    protect: bool

    @property
    def counts_against_quota(self) -> bool:
        """Whether new nodes count against the vCPU quota of the region."""
        return self.priority == "Regular" and self.capacity_reservation_group is None

    @property
    def surge(self) -> int:
        """Number of nodes that AKS adds while it rolls the pool."""
        return self.upgrade.max_surge if self.upgrade is not None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultKey:
    """A key in Key Vault: its resource ID, and the URL of one of its versions."""

    id: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAksPlan:
    """The settings of a new cluster. If `subnet` is set, `nodes_cidr` has no effect."""

    creates_resource_group: bool
    subnet: str | None
    """Resource ID of the existing subnet of the nodes, or None if the program creates a virtual network."""
    outbound_type: Literal["loadBalancer", "userAssignedNATGateway", "userDefinedRouting"]
    nodes_cidr: str
    pods_cidr: str
    services_cidr: str
    dns_service_ip: str
    private: bool
    api_access: tuple[str, ...]
    admins: tuple[str, ...]
    """Object IDs of Entra ID groups with cluster-admin rights."""
    sku_tier: Literal["Standard", "Free"]
    node_resource_group: str
    """Name of the resource group that AKS creates for nodes, disks and load balancers."""
    system_machine_type: str
    system_vcpus: int
    system_cpu_quota: str | None
    """Name of the quota that the system nodes count against, or None if it is not known."""
    system_nodes: tuple[int, int]
    """Minimum and maximum number of system nodes."""
    system_zones: tuple[str, ...]
    system_disk_gb: int
    system_disk_type: Literal["Ephemeral", "Managed"]
    nfs_driver: bool
    """Whether AKS runs the driver of Azure Files."""
    disk_encryption_set: str | None
    """Resource ID of the disk encryption set of all nodes, or None for Azure's own keys."""
    secrets_key: VaultKey | None
    """Key that encrypts the Secrets, or None."""

    @property
    def extended_support(self) -> bool:
        """Whether the cluster keeps its Kubernetes version after the end of standard support. The program creates
        no clusters with long-term support.
        """
        return False

    @property
    def system_leaves_zones(self) -> bool:
        """Whether a new system node may be in a different zone than the disks of the old node's pods. It may if
        there are fewer nodes than zones.
        """
        return self.system_nodes[0] < len(self.system_zones)

    @property
    def upgrade_order(self) -> str | None:
        """The order of an upgrade, or None for the program's default order."""
        return None

    @property
    def most_system_nodes(self) -> int:
        """The maximum number of system nodes, including the nodes that rolling updates add."""
        return self.system_nodes[1] + SYSTEM_SURGE


@dataclass(frozen=True, slots=True, kw_only=True)
class InfinibandPlan:
    """The Network Operator's release, the spec of its NicClusterPolicy, and the DaemonSet that raises the limit of
    locked memory.
    """

    release: HelmChartPlan
    nic_cluster_policy: Mapping[str, Any]
    locked_memory: DaemonSetPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class AksClusterPlan:
    """A new or existing AKS cluster. `create` is None if the cluster exists."""

    kind: Literal["aks"] = "aks"
    name: str
    subscription: str
    resource_group: str
    region: str
    kubernetes: str | None
    create: CreateAksPlan | None
    logins: tuple[str, ...] = ()
    """Object IDs of team members who are granted the right to fetch a kubeconfig."""
    teams: tuple[str, ...] = ()
    """Names of the stack's teams."""
    identities: tuple[str, ...] = ()
    """Names of the teams with an identity."""
    encryption_sets: tuple[str, ...] = ()
    """Resource IDs of the disk encryption sets of nodes and volumes. The control plane must be able to read them.
    """
    reservation_groups: tuple[str, ...] = ()
    """Resource IDs of the capacity reservation groups of all pools."""
    vcpus: int = 0
    """Total vCPUs of all pools at their maximum size, except spot and reserved pools."""
    operator: str
    operator_kubernetes: tuple[str, str]
    """Minimum and maximum Kubernetes minor version that the GPU Operator's release supports."""
    tags: Mapping[str, str]
    protect: bool
    retained: tuple[str, ...]
    """Resources that `destroy` does not delete, as text."""
    parts: tuple[PartPlan, ...] = ()
    """Controllers that the program or the cluster's owner installs for the pools. AKS runs all others."""
    infiniband: InfinibandPlan | None = None
    """The components that the program installs for pools with InfiniBand, or None."""

    @property
    def known_zones(self) -> tuple[str, ...]:
        """Zones of pools that name no zone. Always empty, because Azure chooses them for each node."""
        return ()

    @property
    def releases(self) -> Mapping[str, Mapping[str, Any]]:
        """Helm values for controllers that the pools need. AKS runs the autoscaler."""
        if self.infiniband is None:
            return {}
        return {self.infiniband.release.chart: self.infiniband.release.values}

    def kubernetes_problem(self, running: str) -> Problem | None:
        """Return why `up` cannot upgrade the control plane from minor version `running`, or None if it can.

        AKS neither skips a minor version nor goes back to an older one. Source: AKS docs, "Upgrade an Azure
        Kubernetes Service (AKS) cluster", read 2026-11-30.
        """
        if self.create is None or self.kubernetes is None:
            return None
        step = minor(self.kubernetes) - minor(running)
        if step in (0, 1):
            return None
        if step < 0:
            return Problem(
                "cluster.kubernetes",
                f"{self.kubernetes!r}, and the cluster has {running}",
                f"{running} or newer, because AKS does not downgrade a control plane",
                f'write kubernetes: "{running}"; nothing was changed',
            )
        following = f"1.{minor(running) + 1}"
        return Problem(
            "cluster.kubernetes",
            f"{self.kubernetes!r}, and the cluster has {running}",
            "the next minor version, because AKS upgrades a control plane by one minor version at a time",
            f'write kubernetes: "{following}", run `up`, then continue; nothing was changed',
        )

    @property
    def first_up_problem(self) -> Problem | None:
        """Why the first `up` would fail, or None. No client can reach a private API server in a network that does
        not exist yet, or one that admits no network.
        """
        if self.create is None:
            return None
        if not self.create.private and not self.create.api_access:
            return Problem(
                "cluster.create.api_access",
                "nothing",
                "the public network of the machine that runs `up`, which creates objects in the cluster",
                "set api_access, or write private: true with an existing network; nothing was changed",
            )
        if not self.create.private or self.create.subnet is not None:
            return None
        return Problem(
            "cluster.create.private",
            "true, but the virtual network does not exist yet",
            "true with an existing network, which the machine that runs `up` can reach, because `up` creates "
            "objects in the cluster",
            "write network: {subnet: <its resource ID>}, or api_access instead of private; nothing was changed",
        )

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platforms that create the nodes of the cluster's pools."""
        return ("aks",)

    @property
    def timeouts(self) -> Timeouts:
        """How long the deployment engine waits for the cluster. An update of its version also replaces the system
        nodes.
        """
        if self.create is None:
            return _CLUSTER_TIMEOUTS
        return _CLUSTER_TIMEOUTS.for_rounds(self.create.system_nodes[1], SYSTEM_SURGE, _ROUND_SECONDS)

    @property
    def pool_timeouts(self) -> Mapping[str, Timeouts]:
        """How long the deployment engine waits for a pool, by platform."""
        return {"aks": AGENT_POOL_TIMEOUTS}
