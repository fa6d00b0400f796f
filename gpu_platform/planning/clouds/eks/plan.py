"""Types of the plans of EKS pools, using names of the EC2, EKS and Karpenter APIs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_platform.planning.clouds.eks.blocks import BlockPlan, ScheduledSize
from gpu_platform.planning.clouds.eks.cluster_autoscaler import SCALED_TAG
from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice, NetworkInterface, UserData
from gpu_platform.planning.clouds.windows import CapacityWindow
from gpu_platform.planning.requirements.section import ClassPlace


# EKS user guide, "Create a managed node group with Capacity Blocks for ML", considerations; read 2026-11-23.
# Karpenter docs, troubleshooting, "Missing Service Linked Role"; AWS Batch user guide (the error where it exists);
# read 2026-11-23.
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
class NodeGroupPlan:
    """One managed node group of a pool.

    `zones` empty: all of the cluster's; `block`: the capacity block of its nodes.
    """

    name: str
    reservation: str | None
    zones: tuple[str, ...]
    block: BlockPlan | None = None

    @property
    def scheduled_window(self) -> CapacityWindow | None:
        """The block at whose start a schedule gives it its nodes; None: it starts with them."""
        return self.block.window if self.block is not None and self.block.start is not None else None

    @property
    def former_name(self) -> str | None:
        """The name under which it may have been created, too."""
        return self.block.former_name if self.block is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EksPoolPlan:
    """A managed node group with its launch template; with several capacity blocks one of each for each block."""

    kind: Literal["eks"] = "eks"
    node_group: str
    instance_type: str
    """In the launch template, or with alternatives the first of the node group's own list."""
    ami_type: str
    """CUSTOM with an own `ami`: without it the provider keeps the old type, and EKS refuses the image."""
    ami: str | None
    release_version: str | None
    """Release of the image; None: the newest at the creation, and again at an upgrade of Kubernetes."""
    capacity_type: Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]
    market_type: Literal["capacity-block"] | None
    capacity_reservation: str | None
    """With several blocks: of the earliest."""
    avoids_reservations: bool = False
    """Whether the nodes run in no open reservation, because it is another pool's."""
    blocks: tuple[BlockPlan, ...]
    """Capacity blocks, in the order of their times; each has a node group."""
    several_blocks: bool
    """Whether the stack file has a list of blocks, each of which gets a node group of its own name."""
    interfaces: tuple[NetworkInterface, ...]
    efa: bool
    dranet: bool = False
    """Whether pods claim EFA interfaces from the EFA DRA driver, instead of the device plugin."""
    placement_group: PlacementGroup | None
    zones: tuple[str, ...]
    """Exactly one where a placement group, a reservation or EFA needs it; empty: all of the cluster's."""
    block_devices: tuple[BlockDevice, ...]
    user_data: UserData | None
    """Beside the user data that EKS adds; None: none."""
    huge_pages: int = 0
    """Huge pages of 2 MiB that the stack file sets aside."""
    metadata_hop_limit: int
    labels: Mapping[str, str]
    taints: tuple[EksTaint, ...]
    min_size: int
    desired_size: int
    max_size: int
    keeps_size: bool
    """Whether something else sets the number of nodes after the creation, so that only an edit of `count` does: an
    autoscaler between `min` and `max`, EKS at the end of a capacity block, or the schedule."""
    max_unavailable: int
    update_strategy: Literal["DEFAULT", "MINIMAL"]
    """MINIMAL: a node is deleted before its successor is created, where capacity does not suffice for both."""
    node_repair: bool
    tags: Mapping[str, str]
    delete_before_replace: bool
    """Reserved capacity does not suffice for a second pool beside the first."""
    protect: bool
    company_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those of `tags` that the stack file declares for the pool."""
    group_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tags of the Auto Scaling group, which those of the node group do not reach; none without an autoscaler."""
    alternatives: tuple[str, ...] = ()
    """Instance types that nodes may have beside `instance_type`, in order of preference."""
    compute_class: ClassPlace | None = None
    local_nvme: bool = False
    """Whether images and the own volumes of pods are on local disks of the node."""
    rebalanced: bool = False
    """Whether EC2 Auto Scaling may end nodes with pods, to have as many in each zone."""
    one_zone: bool = False
    """Whether it names no zones, in a cluster whose nodes are in one."""
    schedule: tuple[ScheduledSize, ...] = ()
    """What starts and stops the nodes of the pool every week."""

    @property
    def node_groups(self) -> tuple[NodeGroupPlan, ...]:
        """The node groups of the pool: one, or one for each capacity block."""
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
        """Tags of its instances besides the tags of the cluster."""
        return self.tags

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Types that the node group has in place of its launch template; empty without alternatives."""
        return (self.instance_type, *self.alternatives) if self.alternatives else ()

    @property
    def efa_interfaces(self) -> int:
        """EFA interfaces of a node."""
        return sum(one.interface_type != "interface" for one in self.interfaces)

    @property
    def autoscaled(self) -> bool:
        """Whether the Cluster Autoscaler finds the node group by its tags."""
        return SCALED_TAG in self.group_tags


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
    reservations: tuple[CapacityWindow, ...]
    """Reservation or capacity blocks, in the order of their times."""
    several_blocks: bool
    """Whether the stack file has a list of blocks."""
    node_class: Mapping[str, Any]
    node_pool: Mapping[str, Any]
    protect: bool

    @property
    def drift_budgets(self) -> tuple[str, ...]:
        """The budgets of nodes that have drifted: numbers or percentages of the nodes."""
        budgets = self.node_pool["disruption"]["budgets"]
        return tuple(one["nodes"] for one in budgets if "Drifted" in one.get("reasons", ("Drifted",)))

    @property
    def keeps_version(self) -> bool:
        """Whether an upgrade of the cluster leaves the nodes as they are: an own image has its version.

        Karpenter resolves an alias by the version of the control plane, also one of a fixed release, and replaces
        the nodes (Karpenter docs, "Managing AMIs"; read 2026-11-29).
        """
        return not any("alias" in term for term in self.node_class.get("amiSelectorTerms", ()))

    @property
    def efa_interfaces(self) -> int:
        """EFA interfaces of a node."""
        return sum(one["interfaceType"] != "interface" for one in self.node_class.get("networkInterfaces", ()))

    @property
    def node_tags(self) -> Mapping[str, str]:
        """Tags of its instances besides the tags of the cluster."""
        return self.node_class["tags"]

    @property
    def blocks(self) -> tuple[CapacityWindow, ...]:
        """Those of its reserved capacity that are capacity blocks: only their nodes are drained before an end."""
        return tuple(window for window in self.reservations if window.drain)
