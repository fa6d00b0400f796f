"""Types of the plans of EKS pools, using names of the EC2, EKS and Karpenter APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gpu_platform.base import names
from gpu_platform.base.quantity import duration_text, parse_duration
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.eks.blocks import BlockPlan, ScheduledSize, block_endings
from gpu_platform.planning.clouds.eks.cluster_autoscaler import SCALED_TAG
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.efa_requests import (
    DRANET_DRIVER,
    EFA_DEVICE_CLASS,
    efa_requests,
    efa_resources,
)
from gpu_platform.planning.clouds.eks.images import rolled_image
from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice, NetworkInterface, UserData
from gpu_platform.planning.clouds.eks.limits import (
    NODE_GROUP_TIMEOUTS,
    TERMINATION_SECONDS,
    surge_of,
)
from gpu_platform.planning.clouds.eks.properties import karpenter_properties, node_group_properties
from gpu_platform.planning.clouds.endings import PodEnding, reclaimed
from gpu_platform.planning.clouds.section import (
    AccountNeed,
    CloudCluster,
    FabricNics,
    NicDevices,
    RollLimits,
    Timeouts,
)
from gpu_platform.planning.clouds.vendors import EFA_HUGE_PAGES_MIB
from gpu_platform.planning.clouds.windows import CapacityWindow, SizedGroup
from gpu_platform.planning.nodes.section import HUGE_PAGE_MIB
from gpu_platform.planning.requirements.section import ClassPlace

# EKS user guide, "Create a managed node group with Capacity Blocks for ML", considerations; read 2026-11-23.
_EMPTY_BLOCK: Final = (
    "a node group of a capacity block must have desired size 0 while EKS updates it: the block has no instance "
    "for a replacement"
)
# Karpenter docs, troubleshooting, "Missing Service Linked Role"; AWS Batch user guide (the error where it exists);
# read 2026-11-23.
_SPOT_ROLE: Final = AccountNeed(
    name="role AWSServiceRoleForEC2Spot",
    why="spot nodes of Karpenter: an account that never used spot has no service-linked role of EC2 Spot",
    fix="run aws iam get-role --role-name AWSServiceRoleForEC2Spot, and where there is none: "
    "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
)


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
    def disk_gib(self) -> int:
        """Size of its volume for images and the own volumes of pods."""
        return self.block_devices[-1].size_gib

    @property
    def node_tags(self) -> Mapping[str, str]:
        """Tags of its instances besides the tags of the cluster."""
        return self.tags

    @property
    def node_fabric(self) -> None:
        """None: EFA interfaces are a resource, and its pods need nothing of the node."""
        return None

    @property
    def sized_groups(self) -> tuple[SizedGroup, ...]:
        """Its node groups."""
        return tuple(SizedGroup(name=group.name, scheduled=group.scheduled_window) for group in self.node_groups)

    @property
    def windows(self) -> tuple[CapacityWindow, ...]:
        """When its capacity blocks exist."""
        return tuple(block.window for block in self.blocks)

    @property
    def leaves_zones(self) -> bool:
        """Whether its Auto Scaling group starts nodes in any of several zones, or the next block is in another.

        The Cluster Autoscaler takes the first zone of a group for that of its next node, and EC2 chooses another.
        With fewer nodes than zones the successor of a node may be in another one, too.
        Sources: Cluster Autoscaler, cloudprovider/aws/README.md, common notes and gotchas; kubernetes/autoscaler
        #1431; read 2026-11-29.
        """
        fewer_than_zones = self.desired_size < max(len(self.zones), 2)
        return len(self.zones) != 1 and not self.one_zone and (self.keeps_size or fewer_than_zones)

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
        return NODE_GROUP_TIMEOUTS

    @property
    def roll_limits(self) -> RollLimits:
        """How EKS rolls the nodes."""
        return RollLimits(
            at_a_time=self.max_unavailable,
            needs_empty=_EMPTY_BLOCK if self.capacity_type == "CAPACITY_BLOCK" else "",
            image=rolled_image("image.release", self.release_version) if self.ami is None else "",
        )

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Types that the node group has in place of its launch template; empty without alternatives."""
        return (self.instance_type, *self.alternatives) if self.alternatives else ()

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
    def keeps_version(self) -> bool:
        """Whether an upgrade of the cluster leaves the nodes as they are: an own image has its version."""
        return self.ami is not None

    @property
    def relabels_in_place(self) -> bool:
        """Whether live nodes get changed labels: nodes of an own image are created with theirs."""
        return self.ami is None

    @property
    def huge_pages_mib(self) -> int:
        """What the EFA installer of the node image reserves, or the stack file, MiB."""
        return EFA_HUGE_PAGES_MIB if self.efa_interfaces else self.huge_pages * HUGE_PAGE_MIB

    @property
    def efa_interfaces(self) -> int:
        """EFA interfaces of a node."""
        return sum(one.interface_type != "interface" for one in self.interfaces)

    @property
    def nodes_by_request(self) -> bool:
        """False: waiting pods are enough."""
        return False

    @property
    def replacement(self) -> str:
        """The node group creates another instance for one that is terminated."""
        return (
            f"EKS node group {self.node_group}: drain the node and terminate its instance (the end of "
            "spec.providerID, aws ec2 terminate-instances --instance-ids ID); the group creates another"
        )

    @property
    def replaced_by_claim(self) -> bool:
        """False: EKS' node repair acts on conditions of EKS' own monitoring agent."""
        return False

    @property
    def fabric_nics(self) -> FabricNics | None:
        """Its EFA devices."""
        return FabricNics(kind="efa", count=self.efa_interfaces) if self.efa_interfaces else None

    @property
    def nic_resources(self) -> Mapping[str, int]:
        """What the EFA device plugin advertises on a node."""
        return {} if self.dranet else efa_resources(self.efa_interfaces)

    @property
    def nic_devices(self) -> NicDevices | None:
        """What the EFA DRA driver publishes for a node."""
        if not self.dranet:
            return None
        return NicDevices(device_class=EFA_DEVICE_CLASS, per_node=self.efa_interfaces, driver=DRANET_DRIVER)

    def pod_endings(self, catalog: Catalog) -> tuple[PodEnding, ...]:
        """Return the notice of spot nodes, the ends of its capacity blocks, and the drain between zones."""
        if self.capacity_type == "SPOT":
            return (reclaimed("eks", catalog),)
        drain = catalog.drain_limits["eks", "rebalance"].seconds
        moved = PodEnding(why="EC2 Auto Scaling moves nodes between the zones of the pool", notice=drain)
        return (*block_endings(self.windows), *((moved,) if self.rebalanced else ()))

    @property
    def node_class_reservations(self) -> tuple[()]:
        """None: EKS refuses a node group with a reservation that does not exist."""
        return ()

    @property
    def autoscaled(self) -> bool:
        """Whether the Cluster Autoscaler finds the node group by its tags."""
        return SCALED_TAG in self.group_tags

    def pod_requests(self, gpus: int, gpus_per_node: int) -> Mapping[str, str]:
        """Return what a pod of `gpus` GPUs requests beside them: with all of a node, all its EFA interfaces."""
        wanted = efa_requests(self.efa_interfaces, gpus, gpus_per_node, huge_pages=True)
        return {name: count for name, count in wanted.items() if not self.dranet or name != names.EFA_RESOURCE}

    def properties(self, machine_type: str, capacity_type: str, cluster: CloudCluster) -> Mapping[str, str]:
        """Return the properties whose change replaces the pool or its nodes."""
        assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - its pools are of the same cloud
        return node_group_properties(self, cluster)


def _allowed(budget: str, nodes: int) -> int:
    """Return how many of a number of nodes a budget of Karpenter allows at a time."""
    return -(-nodes * int(budget[:-1]) // 100) if budget.endswith("%") else int(budget)


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
    def leaves_zones(self) -> bool:
        """Whether the next block is in another zone; Karpenter creates nodes in the zone of a pod's disk."""
        return self.several_blocks and len(self.zones) > 1

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
        return Timeouts(delete=self._grace_seconds + TERMINATION_SECONDS)

    @property
    def alternatives(self) -> tuple[str, ...]:
        """Instance types that Karpenter may take beside the pool's own."""
        return tuple(self._requirements["node.kubernetes.io/instance-type"][1:])

    def surge_nodes(self, cluster: CloudCluster) -> int:
        """Return how many nodes Karpenter adds for a roll, beyond the NodePool's limits; none of a reservation.

        The limits do not count a node that is replaced, from before its successor is created until its instance
        ends. The budget is of all nodes, successors and replaced ones, rounded up.
        Sources: sigs.k8s.io/karpenter v1.14.1, pkg/controllers/disruption (helpers.go, queue.go: StartCommand),
        state/cluster.go: updateNodePoolResources, pkg/apis/v1/nodepool.go: GetAllowedDisruptions; read 2026-11-29.
        """
        del cluster
        if self.reservations or not self._drift_budgets:
            return 0
        most, surge = int(self.node_pool["limits"]["nodes"]), 0
        while (allowed := min(most, *(_allowed(budget, most + surge) for budget in self._drift_budgets))) > surge:
            surge = allowed
        return surge

    @property
    def _drift_budgets(self) -> tuple[str, ...]:
        """The budgets of nodes that have drifted: numbers or percentages of the nodes."""
        budgets = self.node_pool["disruption"]["budgets"]
        return tuple(one["nodes"] for one in budgets if "Drifted" in one.get("reasons", ("Drifted",)))

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
        held = "0" in self._drift_budgets
        if held:
            allowed = "its disruption budget allows none now: a node goes when it is empty"
        else:
            budgets = (f"{nodes} of the nodes at a time" for nodes in self._drift_budgets)
            allowed = ", ".join(budgets) or "as its disruption budgets allow"
        unlimited = (
            f"Karpenter replaces the nodes after the deployment ({allowed}), and drains each for at most "
            f"{duration_text(grace)} (terminationGracePeriod)"
        )
        # A node with pods is replaced only once its successor is possible: sigs.k8s.io/karpenter v1.14.1,
        # disruption/drift.go: ComputeCommands; karpenter-provider-aws v1.14.1,
        # offering/reserved_capacity_resolver.go; read 2026-11-29.
        spare = "while the reservation has a free instance" if self.reservations and not held else ""
        if spare:
            unlimited += (
                "; without a free instance of the reservation it replaces none whose pods have room nowhere else, "
                "until the node is empty, or you delete its NodeClaim"
            )
        return RollLimits(unlimited=unlimited, only_while=spare)

    @property
    def created_on_demand(self) -> str:
        """Why the pool may have no nodes."""
        return "created by Karpenter for pending pods"

    @property
    def keeps_version(self) -> bool:
        """Whether an upgrade of the cluster leaves the nodes as they are: an own image has its version.

        Karpenter resolves an alias by the version of the control plane, also one of a fixed release, and replaces
        the nodes (Karpenter docs, "Managing AMIs"; read 2026-11-29).
        """
        return not any("alias" in term for term in self.node_class.get("amiSelectorTerms", ()))

    @property
    def relabels_in_place(self) -> bool:
        """Whether live nodes get changed labels."""
        return True

    @property
    def huge_pages_mib(self) -> int:
        """What the EFA installer of the node image reserves, MiB."""
        return EFA_HUGE_PAGES_MIB if self.efa_interfaces else 0

    @property
    def efa_interfaces(self) -> int:
        """EFA interfaces of a node."""
        return sum(one["interfaceType"] != "interface" for one in self.node_class.get("networkInterfaces", ()))

    @property
    def nodes_by_request(self) -> bool:
        """False: waiting pods are enough."""
        return False

    @property
    def replacement(self) -> str:
        """Karpenter drains and terminates a node that is deleted."""
        return (
            f"Karpenter NodePool {self.name}: delete the NodeClaim of the node (kubectl get nodeclaims -o wide); "
            "it is drained, and Karpenter creates another for pods that wait"
        )

    @property
    def replaced_by_claim(self) -> bool:
        """True: Karpenter drains the node and ends its instance."""
        return True

    @property
    def fabric_nics(self) -> FabricNics | None:
        """Its EFA devices."""
        return FabricNics(kind="efa", count=self.efa_interfaces) if self.efa_interfaces else None

    @property
    def nic_resources(self) -> Mapping[str, int]:
        """What the EFA device plugin advertises on a node."""
        return efa_resources(self.efa_interfaces)

    @property
    def nic_devices(self) -> None:
        """None: Karpenter creates no nodes for claims of EFA interfaces."""
        return None

    @property
    def local_nvme(self) -> bool:
        """Whether images and the own volumes of pods are on local disks of the node."""
        return self.node_class.get("instanceStorePolicy") == "RAID0"

    @property
    def disk_gib(self) -> int:
        """Size of its volume for images and the own volumes of pods."""
        return int(self.node_class["blockDeviceMappings"][-1]["ebs"]["volumeSize"].removesuffix("Gi"))

    @property
    def node_tags(self) -> Mapping[str, str]:
        """Tags of its instances besides the tags of the cluster."""
        return self.node_class["tags"]

    @property
    def node_fabric(self) -> None:
        """None: EFA interfaces are a resource, and its pods need nothing of the node."""
        return None

    @property
    def sized_groups(self) -> tuple[()]:
        """None: Karpenter sets the number of nodes."""
        return ()

    @property
    def windows(self) -> tuple[CapacityWindow, ...]:
        """When its reserved capacity exists."""
        return self.reservations

    def pod_endings(self, catalog: Catalog) -> tuple[PodEnding, ...]:
        """Return the notice of spot nodes, the ends of capacity blocks, and the longest drain.

        Pods with karpenter.sh/do-not-disrupt hold a drain until then, too (Karpenter docs, Disruption; read
        2026-11-28).
        """
        grace, age = self._grace_seconds, self.node_pool["template"]["spec"]["expireAfter"]
        why = f"Karpenter drains nodes for at most {duration_text(grace)}"
        drain = (
            PodEnding(why=why, notice=grace)
            if age == "Never"
            else PodEnding(why=f"{why}, at an age of {age}", after=parse_duration(age) + grace, notice=grace)
        )
        spot = "spot" in self._requirements["karpenter.sh/capacity-type"]
        return (*block_endings(self.windows), *((reclaimed("eks", catalog),) if spot else ()), drain)

    @property
    def blocks(self) -> tuple[CapacityWindow, ...]:
        """Those of its reserved capacity that are capacity blocks: only their nodes are drained before an end."""
        return tuple(window for window in self.reservations if window.drain)

    @property
    def node_class_reservations(self) -> tuple[CapacityWindow, ...]:
        """The capacity reservations that the EC2NodeClass selects."""
        return self.reservations

    @property
    def autoscaled(self) -> bool:
        """True: Karpenter creates nodes for pending pods."""
        return True

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
