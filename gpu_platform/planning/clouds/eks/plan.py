"""Types for the plans of EKS pools, using names of the EC2, EKS and Karpenter APIs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_platform.planning.clouds.eks.blocks import BlockPlan, ScheduledSize
from gpu_platform.planning.clouds.eks.cluster_autoscaler import SCALED_TAG
from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice, NetworkInterface, UserData
from gpu_platform.planning.clouds.windows import CapacityWindow
from gpu_platform.planning.requirements.section import ClassPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementGroup:
    """A `cluster` placement group. If `create` is false, the group already exists."""

    name: str
    create: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EksTaint:
    """A taint with its effect as named in the EKS API: NO_SCHEDULE, NO_EXECUTE or PREFER_NO_SCHEDULE."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupPlan:
    """One managed node group of a pool.

    If `zones` is empty, the node group uses all zones of the cluster. `block` is the capacity block of its nodes.
    """

    name: str
    reservation: str | None
    zones: tuple[str, ...]
    block: BlockPlan | None = None

    @property
    def scheduled_window(self) -> CapacityWindow | None:
        """Capacity block for which a scheduled action starts the nodes. None if the group is created with its
        nodes.
        """
        return self.block.window if self.block is not None and self.block.start is not None else None

    @property
    def former_name(self) -> str | None:
        """Another name that the node group may have. It has this name if it was created before the stack file
        switched between a single capacity block and a list.
        """
        return self.block.former_name if self.block is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EksPoolPlan:
    """A managed node group with its launch template. If a pool has several capacity blocks, each has its own node
    group and launch template.
    """

    kind: Literal["eks"] = "eks"
    node_group: str
    instance_type: str
    """Machine type in the launch template. If the pool has alternatives, this is the first type in the node
    group's list.
    """
    ami_type: str
    """CUSTOM if `ami` is set. Without this value, the provider would keep the old AMI type, and EKS would reject
    the image.
    """
    ami: str | None
    release_version: str | None
    """Release of the image. If None, EKS uses the newest release when it creates the nodes and when Kubernetes is
    upgraded.
    """
    capacity_type: Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]
    market_type: Literal["capacity-block"] | None
    capacity_reservation: str | None
    """Capacity reservation that the nodes use. If the pool has several blocks, this is the reservation of the
    earliest block.
    """
    avoids_reservations: bool = False
    """Whether the nodes avoid open reservations, because another pool uses such a reservation."""
    blocks: tuple[BlockPlan, ...]
    """Capacity blocks, sorted by time. Each block has a node group."""
    several_blocks: bool
    """Whether the stack file has a list of blocks. Each block then gets a node group with a separate name."""
    interfaces: tuple[NetworkInterface, ...]
    efa: bool
    dranet: bool = False
    """Whether pods claim EFA interfaces from the EFA DRA driver, instead of the device plugin."""
    placement_group: PlacementGroup | None
    zones: tuple[str, ...]
    """Zones of the nodes. There is exactly one zone if a placement group, a reservation or EFA requires it. Empty
    if the pool uses all zones of the cluster.
    """
    block_devices: tuple[BlockDevice, ...]
    user_data: UserData | None
    """User data in addition to the user data that EKS adds, or None."""
    huge_pages: int = 0
    """Number of huge pages of 2 MiB that the stack file reserves."""
    metadata_hop_limit: int
    labels: Mapping[str, str]
    taints: tuple[EksTaint, ...]
    min_size: int
    desired_size: int
    max_size: int
    keeps_size: bool
    """Whether an autoscaler, EKS, a schedule or a person may change the number of nodes after creation. `up` then
    changes the number only if `count` was edited.

    An autoscaler changes the number between `min` and `max`, and EKS changes it at the end of a capacity block.
    """
    max_unavailable: int
    update_strategy: Literal["DEFAULT", "MINIMAL"]
    """With MINIMAL, EKS deletes a node before it creates the replacement, because capacity does not suffice for
    both.
    """
    node_repair: bool
    tags: Mapping[str, str]
    delete_before_replace: bool
    """Whether the pool is deleted before its replacement is created. This is necessary if reserved capacity does
    not suffice for both.
    """
    protect: bool
    company_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """The tags in `tags` that the stack file declares for the pool."""
    group_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tags of the Auto Scaling group. EKS does not copy the node group's tags to this group. Empty if there is no
    autoscaler.
    """
    alternatives: tuple[str, ...] = ()
    """Instance types that nodes may have besides `instance_type`, in order of preference."""
    compute_class: ClassPlace | None = None
    local_nvme: bool = False
    """Whether images and pods' ephemeral volumes are on local disks of the node."""
    rebalanced: bool = False
    """Whether EC2 Auto Scaling may terminate nodes with running pods, to balance the zones."""
    one_zone: bool = False
    """Whether the pool names no zone and all nodes of the cluster are in the same zone."""
    schedule: tuple[ScheduledSize, ...] = ()
    """Scheduled actions that start and stop the nodes of the pool."""

    @property
    def node_groups(self) -> tuple[NodeGroupPlan, ...]:
        """The node groups of the pool, one for each capacity block. Other pools have exactly one node group."""
        if not self.blocks:
            return (NodeGroupPlan(name=self.node_group, reservation=self.capacity_reservation, zones=self.zones),)
        return tuple(
            NodeGroupPlan(
                name=block.node_group,
                reservation=block.window.reservation,
                zones=(block.window.zone,),
                block=block,
            )
            for block in self.blocks
        )

    @property
    def node_tags(self) -> Mapping[str, str]:
        """Tags of the pool's instances, in addition to the tags of the cluster."""
        return self.tags

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Machine types in the node group's list, which EKS uses instead of the type in the launch template. Empty
        if the pool has no alternatives.
        """
        return (self.instance_type, *self.alternatives) if self.alternatives else ()

    @property
    def efa_interfaces(self) -> int:
        """Number of EFA interfaces of a node."""
        return sum(one.interface_type != "interface" for one in self.interfaces)

    @property
    def autoscaled(self) -> bool:
        """Whether the Cluster Autoscaler discovers the node group by its tags."""
        return SCALED_TAG in self.group_tags


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterPoolPlan:
    """The v1 specs of a Karpenter NodePool and its EC2NodeClass.

    The component adds subnets, security groups and the node role, which are outputs of the cluster.
    """

    kind: Literal["karpenter"] = "karpenter"
    name: str
    efa: bool
    placement_group: PlacementGroup | None
    zones: tuple[str, ...]
    reservations: tuple[CapacityWindow, ...]
    """Reservation or capacity blocks, sorted by time."""
    several_blocks: bool
    """Whether the stack file has a list of blocks."""
    node_class: Mapping[str, Any]
    node_pool: Mapping[str, Any]
    protect: bool

    @property
    def drift_budgets(self) -> tuple[str, ...]:
        """Disruption budgets for drifted nodes, each a number or a percentage of the nodes."""
        budgets = self.node_pool["disruption"]["budgets"]
        return tuple(one["nodes"] for one in budgets if "Drifted" in one.get("reasons", ("Drifted",)))

    @property
    def keeps_version(self) -> bool:
        """Whether the nodes have a custom AMI with a fixed version. Such nodes stay unchanged when the cluster is
        upgraded.

        Even if an alias names a release, Karpenter resolves it for the version of the control plane, and replaces
        the nodes after an upgrade (Karpenter docs, "Managing AMIs"; read 2026-11-29).
        """
        return not any("alias" in term for term in self.node_class.get("amiSelectorTerms", ()))

    @property
    def efa_interfaces(self) -> int:
        """Number of EFA interfaces of a node."""
        return sum(one["interfaceType"] != "interface" for one in self.node_class.get("networkInterfaces", ()))

    @property
    def node_tags(self) -> Mapping[str, str]:
        """Tags of the pool's instances, in addition to the tags of the cluster."""
        return self.node_class["tags"]

    @property
    def blocks(self) -> tuple[CapacityWindow, ...]:
        """The capacity blocks among the reservations. Only nodes of capacity blocks are drained before the
        capacity ends.
        """
        return tuple(window for window in self.reservations if window.drain)
