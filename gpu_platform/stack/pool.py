"""Stack file field `pools[]`: GPU and CPU pools. Most settings have defaults that depend on the machine type."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpu_platform.stack._instant import Instant
from gpu_platform.stack._types import (
    AwsTagKey,
    AwsTagValue,
    DnsLabel,
    Duration,
    LabelKey,
    LabelValue,
    NodeGate,
    NodeName,
    SpecModel,
    UsdPerHour,
    Zone,
    order_fix,
    wrong,
)
from gpu_platform.stack.azure_resources import EXAMPLE_GUID
from gpu_platform.stack.bootstrap import Bootstrap
from gpu_platform.stack.declared import (
    CLOUDS,
    ON_CLOUDS,
    WITH_REMOVABLE_TAINTS,
    Examples,
    On,
    OnlyWithGpus,
    SetsProperties,
)
from gpu_platform.stack.nodes import Disk, Image, Karpenter, Network, Tuning, Upgrade
from gpu_platform.stack.pool_schedule import PoolSchedule
from gpu_platform.stack.sharing import NoSharing, Sharing, SharingOrName

BLOCK_ID = r"^cr-[0-9a-f]+$"
GpuWorkload = Literal["training", "inference", "development"]
Workload = Literal[GpuWorkload, "general"]
MAX_NODES = 1000


class Count(SpecModel):
    """Number of nodes in a pool: minimum, desired and maximum."""

    min: int = Field(default=0, ge=0, le=MAX_NODES)
    desired: Annotated[int, SetsProperties(sandbox=("nodes",), eks=("desired_size",))] = Field(ge=0, le=MAX_NODES)
    """Desired number of nodes. An autoscaler may change it between `min` and `max`. In the sandbox, these nodes
    always exist.
    """
    max: int | None = Field(default=None, ge=0, le=MAX_NODES)
    """Maximum number of nodes. The default is `desired`. In the sandbox, Karpenter adds simulated nodes for
    pending pods up to this number.
    """

    @property
    def maximum(self) -> int:
        """Maximum number of nodes: `max`, or `desired` if `max` is unset."""
        return self.desired if self.max is None else self.max

    @property
    def is_range(self) -> bool:
        """Whether an autoscaler may change the number of nodes. If only `desired` is set, the number is fixed,
        although `min` is 0.
        """
        return bool({"min", "max"} & self.model_fields_set) and self.min < self.maximum

    @model_validator(mode="after")
    def _ordered(self) -> Count:
        if not self.min <= self.desired <= self.maximum:
            raise wrong("min <= desired <= max", order_fix(self.min, self.desired, self.max))
        return self


_BOUGHT = On(CLOUDS, "elsewhere the program buys no capacity", fix="remove capacity")
_CAPACITY_TYPE = SetsProperties(
    eks=("capacity_type", "node_group_name"),
    karpenter=("requirements",),
    gke=("provisioning",),
    aks=("scale_set_priority",),
)
_RESERVATION = SetsProperties(
    eks=("capacity_reservation",),
    karpenter=("node_class",),
    gke=("reservation_affinity",),
    aks=("capacity_reservation_group",),
)
_ZONE = SetsProperties(
    eks=("subnet_ids",), karpenter=("requirements",), gke=("node_locations",), aks=("availability_zones",)
)


_Alternatives = Annotated[
    Annotated[tuple[str, ...], Field(min_length=1, max_length=19)] | None,
    On(
        ("eks",),
        "a node pool of GKE or AKS has exactly one machine type",
        fix="write a pool for each machine type, and list them in order of preference in compute_classes",
    ),
    SetsProperties(eks=("instance_types",), karpenter=("requirements",)),
]


class OnDemand(SpecModel):
    """On-demand capacity, paid by the hour."""

    type: Annotated[Literal["on-demand"], _CAPACITY_TYPE] = "on-demand"
    alternatives: _Alternatives = None
    """Alternative machine types for nodes on EKS, in case EC2 has no capacity for `machine_type`. They must have
    the same GPU model, number of GPUs and architecture. A managed node group tries them in this order. Pods can
    request at most the resources of the smallest type.
    """


class Spot(SpecModel):
    """Spot capacity, which the cloud can reclaim."""

    type: Annotated[Literal["spot"], _BOUGHT, _CAPACITY_TYPE]
    alternatives: _Alternatives = None
    """Other machine types for nodes on EKS in addition to `machine_type`. They must have the same GPU model,
    number of GPUs and architecture. With more types, fewer nodes are reclaimed. Pods can request at most the
    resources of the smallest type.
    """


_COMPUTE_ENGINE = On(("gke",), "it is part of the name of a Compute Engine reservation")
_CALENDAR = On(("gke",), "elsewhere the program does not know the times of a reservation")
_RESERVATION_NAME = SetsProperties(gke=("reservation_affinity",))


class Reservation(SpecModel):
    """An existing capacity reservation in the cloud. Its zone and terms were set when it was created."""

    type: Annotated[Literal["reservation"], _BOUGHT, _CAPACITY_TYPE]
    reservation: Annotated[
        str,
        _RESERVATION,
        Examples(
            eks="cr-0a1b2c3d4e5f60718",
            gke="h100-pool",
            aks=f"/subscriptions/{EXAMPLE_GUID}/resourceGroups/capacity/providers/"
            "Microsoft.Compute/capacityReservationGroups/gpus",
        ),
    ]
    """ID of an On-Demand Capacity Reservation on EKS, name of a Compute Engine reservation on GKE, or resource ID
    of a capacity reservation group on AKS. The group must have a reservation of the machine type in `zone`.
    """
    zone: Annotated[Zone, _ZONE]
    placement_group: Annotated[
        str | None,
        On(
            ("eks",),
            "elsewhere a reservation has no placement group",
            fix="remove placement_group; on GKE, placement names the compact placement policy of a reservation: "
            "{type: compact, group: <the reservation's resource policy>}",
        ),
        SetsProperties(eks=("placement_group",), karpenter=("node_class",)),
    ] = None
    """Name of the reservation's cluster placement group on EKS, if it has one."""
    project: Annotated[str | None, _COMPUTE_ENGINE, _RESERVATION_NAME] = None
    """Project that shares the reservation on GKE. The default is the cluster's project."""
    block: Annotated[str | None, _COMPUTE_ENGINE, _RESERVATION_NAME] = None
    """Name of a block of the reservation on GKE."""
    sub_block: Annotated[str | None, _COMPUTE_ENGINE, _RESERVATION_NAME] = None
    """Name of a sub-block of the block on GKE."""
    starts: Annotated[Instant | None, _CALENDAR] = None
    """Start of a reservation for a fixed time on GKE. Before this time, `up` refuses a desired number of nodes
    above 0, and validation expects no nodes.
    """
    ends: Annotated[Instant | None, _CALENDAR] = None
    """End of a reservation for a fixed time on GKE, such as 2026-12-14T11:30:00Z. Its nodes are deleted at this
    time.
    """
    needed_until: Annotated[Instant | None, _CALENDAR] = None
    """Time until which the pool is needed, on GKE. `up` refuses a reservation that ends earlier."""


_BLOCKS = SetsProperties(eks=("capacity_blocks",), karpenter=("capacity_blocks",))


class Block(SpecModel):
    """One of several EC2 Capacity Blocks for ML that a pool uses one after the other."""

    reservation: str = Field(pattern=BLOCK_ID, examples=["cr-0a1b2c3d4e5f60718"])
    zone: Zone
    starts: Instant
    """Start of the block, such as 2026-12-01T11:30:00Z."""
    ends: Instant
    """End of the block. EKS drains its nodes 40 minutes earlier."""


class CapacityBlock(SpecModel):
    """EC2 Capacity Blocks for ML, which are reserved for a fixed time. Set `reservation` and `zone` for a single
    block, or `blocks` for several blocks.
    """

    type: Annotated[Literal["capacity-block"], On(("eks",), "capacity blocks are sold by EC2"), _CAPACITY_TYPE]
    reservation: Annotated[str | None, _RESERVATION] = Field(
        default=None, pattern=BLOCK_ID, examples=["cr-0a1b2c3d4e5f60718"]
    )
    zone: Annotated[Zone | None, _ZONE] = None
    starts: Instant | None = None
    """Start of the block, such as 2026-12-01T11:30:00Z. A managed node group has no nodes before this time, and
    `count.desired` nodes after it. If unset, the node group is created with `count.desired` nodes, so the block
    must have begun.
    """
    ends: Instant | None = None
    """End of the block, such as 2026-12-14T11:30:00Z. EKS drains its nodes 40 minutes earlier."""
    blocks: Annotated[Annotated[tuple[Block, ...], Field(min_length=1, max_length=20)] | None, _BLOCKS] = None
    """Several blocks, one after the other, instead of `reservation`, `zone`, `starts` and `ends`. Each block has a
    separate node group. The pool, its labels and its quotas stay the same.
    """
    needed_until: Instant | None = None
    """Time until which the pool is needed. A block that ends earlier is refused."""


class FlexStart(SpecModel):
    """GKE flex-start. GKE creates nodes when capacity is available. They run for at most seven days."""

    type: Annotated[Literal["flex-start"], On(("gke",), "flex-start is sold by Google Cloud"), _CAPACITY_TYPE]
    max_run_duration: Annotated[Duration | None, SetsProperties(gke=("max_run_duration",))] = None
    """How long a node may run, from 10 minutes to 7 days (`168h`). The default is 7 days."""
    queued: Annotated[bool, SetsProperties(gke=("queued_provisioning",))] = False
    """Queued provisioning: all nodes for a ProvisioningRequest are created at once. A stack with teams also needs
    `queueing`.
    """


Capacity = Annotated[OnDemand | Spot | Reservation | CapacityBlock | FlexStart, Field(discriminator="type")]


class Placement(SpecModel):
    """Physical placement of the pool's nodes relative to each other."""

    type: Annotated[
        Literal["none", "cluster", "compact", "proximity"],
        On(("eks",), "EC2 has cluster placement groups", values=("cluster",)),
        On(("gke",), "Compute Engine has compact placement policies", values=("compact",)),
        On(("aks",), "Azure has proximity placement groups", values=("proximity",)),
    ] = "none"
    """Type of placement. `cluster` is an EC2 placement group, `compact` is a GKE compact placement policy, and
    `proximity` is an Azure proximity placement group, which keeps nodes in one data center.
    """
    group: str | None = None
    """Name of an existing placement group or resource policy, or on AKS the resource ID of an existing proximity
    placement group. If unset, the program creates a new one. On GKE, a
    reservation that is not dense accepts only the placement policy that it was created with. For such a
    reservation, name that policy here.
    """


_KUBELET = On(("eks", "gke"), "elsewhere the program cannot set it, and nodes only report the policy")
_SCOPE = On(("eks", "gke", "sandbox"), "elsewhere the program cannot set it")


class Topology(SpecModel):
    """Topology Manager and Memory Manager policies of the kubelet."""

    policy: Literal["none", "best-effort", "restricted", "single-numa-node"]
    scope: Annotated[Literal["container", "pod"], _SCOPE] = "container"
    memory: Annotated[Literal["none", "static"], _KUBELET] = "none"
    """Memory Manager policy. `static` pins the memory of a Guaranteed pod to the NUMA node of its CPUs."""


class Taint(SpecModel):
    """Node taint of a pool in the stack file."""

    key: LabelKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class ExistingNodes(SpecModel):
    """Nodes of an existing cluster that form the pool, selected by name or by label."""

    names: Annotated[tuple[NodeName, ...], Field(min_length=1, max_length=5000)] | None = None
    """Names of the nodes. The program sets their labels. It does not change their taints, because a node has a
    single list of taints that all its owners share.
    """
    selector: Annotated[dict[LabelKey, LabelValue], Field(min_length=1)] | None = None
    """Labels that select the nodes. The program does not change these nodes, so their owner must set the other
    labels of the pool. Validation reports the labels that are missing.
    """

    @model_validator(mode="after")
    def _one_of(self) -> ExistingNodes:
        if (self.names is None) == (self.selector is None):
            raise wrong("exactly one of names and selector", "write names: [gpu-0, gpu-1]")
        return self


class NodeSharing(SpecModel):
    """Nodes of a pool that use named sharing settings instead of the pool's sharing settings."""

    nodes: Annotated[tuple[NodeName, ...], Field(min_length=1, max_length=5000)]
    sharing: DnsLabel
    """Name of the settings in the environment's `sharing`. The nodes are planned as a separate pool
    `<pool>-<sharing>`.
    """


_KARPENTER = On(("eks",), "GKE and AKS have a built-in autoscaler, and count sets its limits")


class Pool(SpecModel):
    """Node pool in the stack file: a GPU pool, or a CPU pool if its machine type has no GPUs."""

    name: DnsLabel
    machine_type: Annotated[
        str,
        SetsProperties(
            eks=("instance_type",),
            karpenter=("requirements",),
            gke=("guest_accelerator", "local_ssd", "machine_type"),
            aks=("vm_size",),
            sandbox=("machine_type",),
        ),
    ]
    """Machine type in the catalogue. The catalogue contains its GPU model and count, memory, NVLinks and list
    prices. A type without GPUs makes the pool a CPU pool, in which no GPU software runs and fields about GPUs
    are refused.
    """
    count: Annotated[Count, SetsProperties(gke=("node_count",), aks=("count",))]
    capacity: Capacity = OnDemand()
    headroom: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Number of GPUs that are kept free for the next pods, in a pool with an autoscaler. Pods of the lowest
    priority occupy these GPUs, and the teams' pods preempt them. The number is either at most the GPU count of one
    node, or a multiple of that count.
    """
    schedule: Annotated[
        PoolSchedule | None,
        On(
            ("eks",),
            "scheduled actions of EC2 Auto Scaling start and stop the nodes",
            "remove schedule; a pool with an autoscaler has no nodes while it has no pods (count.min: 0), and "
            "cleanup.idle_after deletes idle notebooks",
        ),
    ] = None
    """Times at which the pool has nodes, for development pools that are off at night and at weekends. If unset,
    the pool always has nodes.
    """
    placement: Annotated[
        Placement | None,
        ON_CLOUDS,
        SetsProperties(
            eks=("placement_group",),
            karpenter=("node_class",),
            gke=("placement_policy",),
            aks=("proximity_placement_group",),
        ),
    ] = None
    """Physical placement of the nodes. The default is `cluster` or `compact` for training pools with several
    nodes, RDMA interfaces and no reservation.
    """
    zones: Annotated[Annotated[tuple[Zone, ...], Field(min_length=1, max_length=50)] | None, ON_CLOUDS, _ZONE] = (
        None
    )
    """Zones of the nodes. The default is the zone of `capacity`, or else every zone of the cluster. An EKS managed
    node group keeps the zones that the cluster had when the pool was created. A regional GKE cluster uses every
    zone that is known to offer the machine type. GKE creates the same number of nodes in each zone, so a pool that
    starts with nodes must name its zones.
    """
    workload: Workload
    """Purpose of the pool. It sets the defaults for Topology Manager policy, GPU network, placement and
    disruption, and decides which policy rules apply. CPU pools (for monitoring, ingress, Ray heads or data
    loaders) have the purpose `general`. GPU pools cannot have this purpose.
    """
    declared_sharing: Annotated[SharingOrName, SetsProperties(gke=("gpu_sharing_config",))] = Field(
        default=NoSharing(), alias="sharing"
    )
    """How GPUs are shared. The value is either sharing settings, or the name of settings in the environment's
    `sharing`.
    """
    per_node: Annotated[
        tuple[NodeSharing, ...],
        Field(max_length=200),
        OnlyWithGpus("it gives some nodes another configuration for sharing GPUs"),
    ] = ()
    """Nodes whose sharing settings differ from the settings of the pool. Available in the sandbox, and for
    existing nodes that are listed by name.
    """
    topology: Annotated[
        Topology | None,
        OnlyWithGpus("its policies align GPUs and NICs with CPUs"),
        SetsProperties(
            eks=("user_data",), karpenter=("node_class",), gke=("kubelet_config",), aks=("kubelet_config",)
        ),
    ] = None
    tuning: Annotated[
        Tuning | None,
        ON_CLOUDS,
        SetsProperties(
            eks=("user_data",), karpenter=("node_class",), gke=("linux_node_config",), aks=("linux_os_config",)
        ),
    ] = None
    bootstrap: Annotated[
        Bootstrap | None,
        ON_CLOUDS,
        SetsProperties(
            eks=("user_data",),
            karpenter=("node_class",),
            gke=("kubelet_config", "linux_node_config"),
            aks=("kubelet_config",),
        ),
    ] = None
    """Settings that a company adds to the nodes before they join the cluster, such as commands, a script or
    kubelet limits. Changing them rolls the nodes.
    """
    labels: Annotated[dict[LabelKey, LabelValue], SetsProperties(karpenter=("template",))] = {}
    tags: Annotated[
        dict[AwsTagKey, AwsTagValue],
        Field(max_length=10),
        ON_CLOUDS,
        SetsProperties(eks=("tags",), karpenter=("node_class",)),
    ] = {}
    """Company tags on the pool's instances and their disks, on EKS, GKE and AKS, in addition to the cluster's
    `tags` (on GKE `labels`). On GKE they are resource labels, in lower case and with at most 63 characters.
    """
    taints: Annotated[tuple[Taint, ...], Field(max_length=50), SetsProperties(karpenter=("template",))] = ()
    """Taints in addition to `nvidia.com/gpu=present:NoSchedule`, which every GPU pool has. A CPU pool has only
    these taints.
    """
    gate_nodes: Annotated[
        NodeGate | None,
        WITH_REMOVABLE_TAINTS,
        OnlyWithGpus("the node agent, which validates nodes, runs on GPU nodes"),
        SetsProperties(eks=("user_data",), karpenter=("template",)),
    ] = None
    """When nodes have a taint that keeps teams' pods off. The default is `validation.gate_nodes`. On an existing
    cluster, the owner must register new nodes with the startup taint.
    """
    nodes: Annotated[ExistingNodes | None, On(("existing",), "elsewhere the program creates the nodes")] = None
    """Existing nodes that form the pool, only on an existing cluster."""
    provisioner: Annotated[
        Literal["managed", "karpenter"], ON_CLOUDS, replace(_KARPENTER, values=("karpenter",))
    ] = "managed"
    """What creates the nodes on EKS: a managed node group, or Karpenter, which creates nodes for pending pods."""
    karpenter: Annotated[Karpenter | None, _KARPENTER] = None
    """Settings of Karpenter, only with `provisioner: karpenter`."""
    device_plugin: Annotated[
        Literal["operator", "provider"] | None,
        ON_CLOUDS,
        On(("eks", "gke"), "on AKS the GPU Operator runs the device plugin", values=("provider",)),
        OnlyWithGpus("a device plugin advertises GPUs"),
        SetsProperties(gke=("gpu_driver_installation_config",)),
    ] = None
    """What runs the device plugin. With `operator`, the GPU Operator runs it. With `provider`, the node image
    (Bottlerocket) or GKE runs it and shares the GPUs. The default is `provider` on Bottlerocket, else `operator`.
    """
    image: Annotated[Image, ON_CLOUDS] = Image()
    network: Annotated[
        Network,
        ON_CLOUDS,
        OnlyWithGpus("its interfaces are for traffic between GPUs"),
        SetsProperties(eks=("network_interfaces",), karpenter=("node_class",), gke=("additional_networks",)),
    ] = Network()
    disk: Annotated[
        Disk,
        ON_CLOUDS,
        SetsProperties(eks=("block_device_mappings",), karpenter=("node_class",), gke=("disk",), aks=("os_disk",)),
    ] = Disk()
    local_nvme: Annotated[
        bool,
        On(("eks", "gke"), "elsewhere the program does not set up local disks"),
        SetsProperties(eks=("user_data",), karpenter=("node_class",)),
    ] = True
    """Use the machine's local NVMe disks, if it has any, for the ephemeral storage of pods. On AKS, they are left
    unused.
    """
    upgrade: Annotated[
        Upgrade,
        On(
            CLOUDS,
            "elsewhere the program does not replace nodes",
            fix="remove upgrade; changes.max_unavailable is the number of nodes whose driver is upgraded at a "
            "time",
        ),
    ] = Upgrade()
    repair: Annotated[bool | None, ON_CLOUDS] = None
    """Let the cloud replace unhealthy nodes. By default, it is enabled if the capacity type allows it. AKS always
    repairs nodes.
    """
    protect: bool = False
    """Refuse to remove, rename or replace the pool, and to destroy the stack. To remove the protection, first
    deploy `protect: false`.
    """
    usd_per_hour: UsdPerHour | None = None
    """Price of one node in USD/h. Set it if the list price does not apply, for example for on-premises nodes, spot
    capacity or committed use.
    """
    utilisation: Annotated[
        Annotated[float, Field(ge=0, le=1)] | None, OnlyWithGpus("it describes the utilisation of GPUs")
    ] = None
    """Expected fraction of time in which the pool's GPUs are in use, from 0 to 1. A measured utilisation takes
    precedence.
    """

    @property
    def capacity_alternatives(self) -> tuple[str, ...]:
        """Machine types that `capacity.alternatives` allows in addition to `machine_type`."""
        return (self.capacity.alternatives or ()) if isinstance(self.capacity, OnDemand | Spot) else ()

    @property
    def alternatives(self) -> tuple[str, ...]:
        """Machine types that nodes may have in addition to `machine_type`, in the order of the file."""
        return self.capacity_alternatives or (self.karpenter.alternatives if self.karpenter is not None else ())

    @property
    def sharing(self) -> Sharing:
        """Sharing settings of the GPUs. If the stack file refers to named settings, this property can be read only
        after planning has looked up the name.
        """
        assert not isinstance(self.declared_sharing, str)  # noqa: S101 - planning has resolved it
        return self.declared_sharing
