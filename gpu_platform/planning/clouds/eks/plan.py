"""Types of the plans of EKS pools and clusters, using names of the EC2, EKS and Karpenter APIs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from gpu_platform.errors import Problem
from gpu_platform.planning.clouds.eks.access import AccessPlan
from gpu_platform.planning.clouds.eks.cluster_settings import cluster_settings
from gpu_platform.planning.clouds.eks.efa_requests import efa_requests, efa_resources
from gpu_platform.planning.clouds.eks.kubernetes import version_problem
from gpu_platform.planning.clouds.eks.prerequisites import eks_prerequisites
from gpu_platform.planning.clouds.eks.properties import karpenter_properties, node_group_properties
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.section import (
    AccountNeed,
    CloudCluster,
    CloudPrerequisites,
    ClusterSetting,
    RollLimits,
    Timeouts,
)
from gpu_platform.quantity import duration_text, parse_duration

_CLUSTER_TIMEOUTS: Final = Timeouts(create=60 * 60, update=120 * 60, delete=60 * 60)
# EKS drains node by node, 15 minutes each; the default of the provider is one hour for a whole pool.
_NODE_GROUP_TIMEOUTS: Final = Timeouts(create=60 * 60, update=6 * 60 * 60, delete=2 * 60 * 60)
# EKS user guide, "Create a managed node group with Capacity Blocks for ML", considerations; read 2026-11-23.
_EMPTY_BLOCK: Final = (
    "a node group of a capacity block must have desired size 0 while EKS updates it: the block has no instance "
    "for a replacement"
)
_LEAST_ZONES: Final = 2  # that EKS requires of a cluster
# Deletion waits until the nodes are drained, all of them together for at most their grace period, and terminated.
_TERMINATION_SECONDS: Final = 30 * 60
KARPENTER_LONGEST_GRACE: Final = 12 * 60 * 60
"""Seconds; longest `terminationGracePeriod` that the program gives a pool."""
# Karpenter docs, troubleshooting, "Missing Service Linked Role"; AWS Batch user guide (the error where it exists);
# read 2026-11-23.
_SPOT_ROLE: Final = AccountNeed(
    name="role AWSServiceRoleForEC2Spot",
    why="spot nodes of Karpenter: an account that never used spot has no service-linked role of EC2 Spot",
    fix="run aws iam get-role --role-name AWSServiceRoleForEC2Spot, and where there is none: "
    "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
)


def surge_of(zones: int, max_unavailable: int) -> int:
    """Return how many nodes EKS may add to a node group that it rolls: up to two in each zone.

    Source: EKS user guide, "Understand each phase of node updates", read 2026-11-23.
    """
    return max(2 * zones, max_unavailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkInterface:
    """One network interface of a launch template."""

    network_card_index: int
    device_index: int
    interface_type: Literal["interface", "efa", "efa-only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDevice:
    """One encrypted EBS volume of a launch template. Size in GiB."""

    device_name: str
    size_gib: int
    volume_type: str
    iops: int | None
    throughput_mibps: int | None
    kms_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementGroup:
    """A `cluster` placement group: created by the program (`create`), or an existing one."""

    name: str
    create: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EksTaint:
    """A taint using EKS API names: NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserData:
    """Settings of a node at its first boot; `user_data.write_user_data` writes them as text.

    `needs_cluster_access`: EKS adds no access data to nodes of an own image, so a ClusterAccess is written in.
    """

    format: Literal["nodeadm", "bottlerocket"]
    settings: Mapping[str, Any]
    needs_cluster_access: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Outputs of the cluster that a node needs to join it."""

    name: str
    endpoint: str
    certificate_authority: str
    """Base64 of the PEM, as EKS gives it."""
    service_cidr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EksPoolPlan:
    """A managed node group with its launch template."""

    kind: Literal["eks"] = "eks"
    node_group: str
    instance_type: str
    ami_type: str
    """CUSTOM with an own `ami`: without it the provider keeps the old type, and EKS refuses the image."""
    ami: str | None
    release_version: str | None
    """Release of the image; None: the newest at the creation, and again at an upgrade of Kubernetes."""
    capacity_type: Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]
    market_type: Literal["capacity-block"] | None
    capacity_reservation: str | None
    interfaces: tuple[NetworkInterface, ...]
    efa: bool
    placement_group: PlacementGroup | None
    zones: tuple[str, ...]
    """Exactly one where a placement group, a reservation or EFA needs it; empty: all of the cluster's."""
    block_devices: tuple[BlockDevice, ...]
    user_data: UserData | None
    """Beside the user data that EKS adds; None: none."""
    metadata_hop_limit: int
    labels: Mapping[str, str]
    taints: tuple[EksTaint, ...]
    min_size: int
    desired_size: int
    max_size: int
    keeps_size: bool
    """Whether something else sets the number of nodes after the creation, so that only an edit of `count` does: an
    autoscaler between `min` and `max`, or EKS at the end of a capacity block."""
    max_unavailable: int
    update_strategy: Literal["DEFAULT", "MINIMAL"]
    """MINIMAL: a node is deleted before its successor is created, where capacity does not suffice for both."""
    node_repair: bool
    tags: Mapping[str, str]
    delete_before_replace: bool
    """Reserved capacity does not suffice for a second pool beside the first."""
    protect: bool

    @property
    def placement_type(self) -> str:
        """How the nodes are placed."""
        return "cluster" if self.placement_group is not None else "none"

    @property
    def replaced_delete_first(self) -> bool:
        """Whether a replaced node group is deleted before its successor is created."""
        return self.delete_before_replace

    @property
    def rolled_delete_first(self) -> bool:
        """Whether a rolled node is deleted before its successor is created."""
        return self.update_strategy == "MINIMAL"

    @property
    def timeouts(self) -> Timeouts:
        """How long an engine waits for the pool."""
        return _NODE_GROUP_TIMEOUTS

    @property
    def roll_limits(self) -> RollLimits:
        """How EKS rolls the nodes."""
        return RollLimits(
            at_a_time=self.max_unavailable,
            needs_empty=_EMPTY_BLOCK if self.capacity_type == "CAPACITY_BLOCK" else "",
        )

    @property
    def alternatives(self) -> tuple[()]:
        """None: its nodes are of one instance type."""
        return ()

    def surge_nodes(self, cluster: CloudCluster) -> int:
        """Return how many nodes EKS adds for a roll; none where it deletes a node before it creates the next."""
        if self.update_strategy == "MINIMAL":
            return 0
        assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - its pools are of the same cloud
        return surge_of(len(self.zones) or cluster.zone_count, self.max_unavailable)

    @property
    def account_needs(self) -> tuple[()]:
        """Nothing: EC2 Auto Scaling may create the role of EC2 Spot (AutoScalingServiceRolePolicy)."""
        return ()

    @property
    def created_on_demand(self) -> None:
        """None: the node group starts with `desired` nodes."""
        return None

    @property
    def relabels_in_place(self) -> bool:
        """Whether live nodes get changed labels: nodes of an own image are created with theirs."""
        return self.ami is None

    @property
    def efa_interfaces(self) -> int:
        """EFA interfaces of a node."""
        return sum(one.interface_type != "interface" for one in self.interfaces)

    @property
    def nic_resources(self) -> Mapping[str, int]:
        """What the EFA device plugin advertises on a node."""
        return efa_resources(self.efa_interfaces)

    @property
    def node_class_reservation(self) -> None:
        """None: EKS refuses a node group with a reservation that does not exist."""
        return None

    def pod_requests(self, gpus: int, gpus_per_node: int) -> Mapping[str, str]:
        """Return what a pod of `gpus` GPUs requests beside them: with all of a node, all its EFA interfaces."""
        return efa_requests(self.efa_interfaces, gpus, gpus_per_node, huge_pages=True)

    def properties(self, machine_type: str, capacity_type: str, cluster: CloudCluster) -> Mapping[str, str]:
        """Return the properties whose change replaces the pool or its nodes."""
        assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - its pools are of the same cloud
        return node_group_properties(self, cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterPoolPlan:
    """A Karpenter NodePool and its EC2NodeClass, as specs of their v1 APIs.

    The component adds subnets, security groups and the node role, which are outputs of the cluster.
    """

    kind: Literal["karpenter"] = "karpenter"
    name: str
    efa: bool
    placement_group: PlacementGroup | None
    zones: tuple[str, ...]
    node_class: Mapping[str, Any]
    node_pool: Mapping[str, Any]
    protect: bool

    @property
    def placement_type(self) -> str:
        """How the nodes are placed."""
        return "cluster" if self.placement_group is not None else "none"

    @property
    def replaced_delete_first(self) -> bool:
        """False: a new NodePool is created first."""
        return False

    @property
    def rolled_delete_first(self) -> bool:
        """False: Karpenter starts a node's successor before it drains the node."""
        return False

    @property
    def timeouts(self) -> Timeouts:
        """How long an engine waits for the pool: its nodes may drain for the whole grace period."""
        return Timeouts(delete=self._grace_seconds + _TERMINATION_SECONDS)

    @property
    def alternatives(self) -> tuple[str, ...]:
        """Instance types that Karpenter may take beside the pool's own."""
        return tuple(self._requirements["node.kubernetes.io/instance-type"][1:])

    def surge_nodes(self, cluster: CloudCluster) -> int:
        """Return 0: the limits of the NodePool count successors, too."""
        del cluster
        return 0

    @property
    def _requirements(self) -> Mapping[str, Sequence[str]]:
        return {one["key"]: one["values"] for one in self.node_pool["template"]["spec"]["requirements"]}

    @property
    def account_needs(self) -> tuple[AccountNeed, ...]:
        """The role of EC2 Spot, where the pool buys spot nodes: Karpenter's own role may not create it."""
        return (_SPOT_ROLE,) if "spot" in self._requirements["karpenter.sh/capacity-type"] else ()

    @property
    def _grace_seconds(self) -> int:
        return int(parse_duration(self.node_pool["template"]["spec"]["terminationGracePeriod"]))

    @property
    def roll_limits(self) -> RollLimits:
        """How Karpenter replaces nodes that have drifted, which it does after the deployment."""
        grace = self._grace_seconds
        budgets = [
            f"{budget['nodes']} of the nodes at a time"
            for budget in self.node_pool["disruption"]["budgets"]
            if "Drifted" in budget.get("reasons", ("Drifted",))
        ]
        if "0 of the nodes at a time" in budgets:
            allowed = "its disruption budget allows none now: a node goes when it is empty"
        else:
            allowed = ", ".join(budgets) or "as its disruption budgets allow"
        unlimited = (
            f"Karpenter replaces the nodes after the deployment ({allowed}), and drains each for at most "
            f"{duration_text(grace)} (terminationGracePeriod)"
        )
        return RollLimits(unlimited=unlimited)

    @property
    def created_on_demand(self) -> str:
        """Why the pool may have no nodes."""
        return "created by Karpenter for pending pods"

    @property
    def relabels_in_place(self) -> bool:
        """Whether live nodes get changed labels."""
        return True

    @property
    def efa_interfaces(self) -> int:
        """EFA interfaces of a node."""
        return sum(one["interfaceType"] != "interface" for one in self.node_class.get("networkInterfaces", ()))

    @property
    def nic_resources(self) -> Mapping[str, int]:
        """What the EFA device plugin advertises on a node."""
        return efa_resources(self.efa_interfaces)

    @property
    def node_class_reservation(self) -> str | None:
        """The capacity reservation that the EC2NodeClass selects."""
        return next((term["id"] for term in self.node_class.get("capacityReservationSelectorTerms", ())), None)

    def pod_requests(self, gpus: int, gpus_per_node: int) -> Mapping[str, str]:
        """Return what a pod of `gpus` GPUs requests beside them: with all of a node, all its EFA interfaces.

        No huge pages: Karpenter does not support them, and creates no node for a pod that requests them; libfabric
        works without.
        """
        return efa_requests(self.efa_interfaces, gpus, gpus_per_node, huge_pages=False)

    def properties(self, machine_type: str, capacity_type: str, cluster: CloudCluster) -> Mapping[str, str]:
        """Return the properties whose change replaces the pool or its nodes."""
        assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - its pools are of the same cloud
        return karpenter_properties(self, machine_type, capacity_type, cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSubnets:
    """The two subnets that a new VPC has in a zone."""

    zone: str
    private_cidr: str
    public_cidr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VpcPlan:
    """A new VPC: private nodes, gateway endpoint for S3, all other traffic to the internet by NAT."""

    cidr: str
    zones: tuple[ZoneSubnets, ...]
    nat: Literal["one", "per-zone"]

    @property
    def shown(self) -> str:
        """What tells it from another VPC."""
        return self.cidr

    @property
    def zone_names(self) -> tuple[str, ...]:
        """Zones with a private subnet."""
        return tuple(zone.zone for zone in self.zones)

    @property
    def nat_zones(self) -> tuple[str, ...]:
        """Zones with a NAT gateway; with one, all zones share it."""
        zones = tuple(zone.zone for zone in self.zones)
        return zones if self.nat == "per-zone" else zones[:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpcPlan:
    """An existing VPC of a new cluster: subnet of the nodes by zone, and the subnets of the control plane."""

    vpc: str
    subnets: Mapping[str, str]
    control_plane_subnets: tuple[str, ...]

    @property
    def shown(self) -> str:
        """What tells it from another VPC."""
        return self.vpc

    @property
    def zone_names(self) -> tuple[str, ...]:
        """Zones with a private subnet."""
        return tuple(sorted(self.subnets))

    @property
    def nat_zones(self) -> tuple[str, ...]:
        """Zones with a NAT gateway of the program: none."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IamPlan:
    """How roles are created. `boundary`: ARN of the permissions boundary; `node_role`: ARN of an existing one."""

    path: str
    boundary: str | None
    node_role: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Addon:
    """An EKS add-on, with the service account that gets an IAM role by EKS Pod Identity, where it needs one."""

    name: str
    version: str
    configuration: Mapping[str, Any]
    before_nodes: bool
    """Whether nodes need it to become ready; other add-ons are Deployments, which need nodes."""
    service_account: str | None = None
    managed_policies: tuple[str, ...] = ()
    """ARNs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPool:
    """Nodes without GPUs, for pods that must run before any GPU node exists."""

    instance_types: tuple[str, ...]
    """In order of preference: EC2 takes the first with capacity."""
    ami_type: str
    release_version: str | None
    """Release of the image; None: the newest at the creation, and again at an upgrade of Kubernetes."""
    disk: BlockDevice
    metadata_hop_limit: int
    min_size: int
    desired_size: int
    max_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterControllerPlan:
    """Karpenter itself: charts, version, namespace, and its AWS resources."""

    cluster: str
    region: str
    iam: IamPlan
    chart: str
    crd_chart: str
    """The CRDs' own chart, of the same repository and version."""
    repository: str
    version: str
    namespace: str
    service_account: str
    values: Mapping[str, Any]
    queue: str
    """Name of the SQS queue for interruption notices of EC2."""
    disk_keys: tuple[str, ...]
    """ARNs of the keys, or of their aliases, that encrypt volumes of the stack."""
    events: Mapping[str, Mapping[str, Any]]
    """EventBridge patterns by name: the events of the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmChartPlan:
    """A pinned Helm release."""

    name: str
    chart: str
    repository: str
    version: str
    namespace: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEksPlan:
    """The settings of a new cluster."""

    vpc: VpcPlan | ExistingVpcPlan
    kms_key: str | None
    """ARN of an existing key for the Secrets."""
    cluster_policies: tuple[str, ...]
    """ARNs of the managed policies of the cluster's own IAM role."""
    api_access: tuple[str, ...]
    admins: tuple[str, ...]
    admin_policy: str
    """ARN of the access policy of admins."""
    support_type: Literal["STANDARD", "EXTENDED"]
    logs: tuple[str, ...]
    log_group: str
    logs_retention_days: int
    retain_data: bool
    """`destroy` keeps the logs and the key of the Secrets."""
    addons: tuple[Addon, ...]
    system_pool: SystemPool


@dataclass(frozen=True, slots=True, kw_only=True)
class EksClusterPlan:
    """A new (`create`) or existing EKS cluster, and the settings that all its GPU pools share."""

    kind: Literal["eks"] = "eks"
    name: str
    region: str
    account: str | None
    kubernetes: str | None
    """Minor version; of an existing cluster the one that the stack file declares."""
    operator: str
    operator_kubernetes: tuple[str, str]
    """Lowest and highest minor version that the GPU Operator's release supports."""
    role_prefix: str
    """Prefix of the names of IAM roles: IAM allows 64 characters, EKS 100."""
    assume_role: str | None
    """ARN of the role that the provider and the kubeconfig assume."""
    iam: IamPlan
    create: CreateEksPlan | None
    subnets: Mapping[str, str]
    """Existing cluster: subnet by zone, as the stack file declares; other zones are looked up."""
    security_groups: tuple[str, ...]
    """Existing cluster: ids of the security groups of nodes beside the cluster's own."""
    zones: tuple[str, ...]
    """All zones that pools name, sorted."""
    anywhere: bool
    """Whether a pool names no zone, and so uses the subnets of all."""
    efa: bool
    """Whether a pool has EFA, which needs the EFA security group and the EFA device plugin."""
    node_policies: tuple[str, ...]
    """ARNs of the managed policies of the nodes' IAM roles."""
    parts: tuple[PartPlan, ...]
    """Controllers that the pools need, which the program installs or the owner of the cluster has installed."""
    karpenter_pools: bool
    karpenter_node_role: str | None
    """Name of an existing IAM role of Karpenter's nodes; None: the program creates one."""
    karpenter: KarpenterControllerPlan | None
    """Karpenter where the program installs it."""
    efa_plugin: HelmChartPlan | None
    """EFA device plugin where the program installs it."""
    access: AccessPlan
    minimum_vpc_cni: str | None
    """Existing cluster: the VPC CNI version that the pools need, where known."""
    tags: Mapping[str, str]
    protect: bool
    retained: tuple[str, ...]
    """Resources that `destroy` does not delete, as text."""

    def kubernetes_problem(self, running: str) -> Problem | None:
        """Return why `up` cannot change the control plane from minor version `running` to the planned one."""
        if self.create is None or self.kubernetes is None:
            return None
        return version_problem(running, self.kubernetes)

    @property
    def first_up_problem(self) -> Problem | None:
        """Why an `up` that creates the cluster could not end: nobody outside reaches a VPC that does not exist."""
        if self.create is None or self.create.api_access or isinstance(self.create.vpc, ExistingVpcPlan):
            return None
        return Problem(
            "cluster.create.api_access",
            "nothing, and the VPC does not exist yet",
            "the public network of the machine that runs the first `up`: it creates the VPC and then objects in "
            "the cluster",
            "name it, and remove it when a network that reaches the VPC runs `up`; nothing was changed",
        )

    @property
    def system_surge(self) -> int:
        """Nodes that EKS adds to the system nodes for a roll, which takes one node at a time."""
        return surge_of(self.zone_count, 1) if self.create is not None else 0

    @property
    def zone_count(self) -> int:
        """Zones of a node group that names none; of an existing cluster those that the stack file names."""
        if self.create is not None:
            return len(self.create.vpc.zone_names)
        return max(_LEAST_ZONES, len({*self.zones, *self.subnets}))

    @property
    def settings(self) -> tuple[ClusterSetting, ...]:
        """Settings of the cluster itself that a preview compares with the last deployment."""
        return cluster_settings(self)

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platforms that create the nodes of its pools."""
        return ("eks", "karpenter")

    @property
    def timeouts(self) -> Timeouts:
        """How long an engine waits for the cluster itself."""
        return _CLUSTER_TIMEOUTS

    @property
    def pool_timeouts(self) -> Mapping[str, Timeouts]:
        """How long an engine waits for a pool, by platform."""
        of_karpenter = Timeouts(delete=KARPENTER_LONGEST_GRACE + _TERMINATION_SECONDS)
        return {"eks": _NODE_GROUP_TIMEOUTS, "karpenter": of_karpenter}

    def prerequisites(self, resource_types: Iterable[str]) -> CloudPrerequisites:
        """Return what an `up` needs from the cloud; `resource_types`: Pulumi's types of what it creates."""
        return eks_prerequisites(self, resource_types)
