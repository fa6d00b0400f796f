"""Stack file field `pools[]`: GPU and CPU pools; most settings have defaults that depend on the machine type."""

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
from gpu_platform.stack.bootstrap import Bootstrap
from gpu_platform.stack.declared import ON_CLOUDS, On, SetsProperties
from gpu_platform.stack.nodes import Disk, Image, Karpenter, Network, Tuning, Upgrade
from gpu_platform.stack.pool_schedule import PoolSchedule
from gpu_platform.stack.sharing import NoSharing, Sharing, SharingOrName

BLOCK_ID = r"^cr-[0-9a-f]+$"
GpuWorkload = Literal["training", "inference", "development"]
Workload = Literal[GpuWorkload, "general"]
MAX_NODES = 1000


class Count(SpecModel):
    """Number of nodes of a pool: minimum, desired, maximum."""

    min: int = Field(default=0, ge=0, le=MAX_NODES)
    desired: Annotated[int, SetsProperties(sandbox=("nodes",), eks=("desired_size",))] = Field(ge=0, le=MAX_NODES)
    """In the sandbox: the nodes that always exist."""
    max: int | None = Field(default=None, ge=0, le=MAX_NODES)
    """Unset: `desired`. In the sandbox Karpenter adds simulated nodes up to it for pods that wait."""

    @property
    def maximum(self) -> int:
        """Maximum number of nodes: `max`, or `desired` if it is not set."""
        return self.desired if self.max is None else self.max

    @property
    def is_range(self) -> bool:
        """Whether an autoscaler may change the number: `desired` alone is a fixed number, although `min` is 0."""
        return bool({"min", "max"} & self.model_fields_set) and self.min < self.maximum

    @model_validator(mode="after")
    def _ordered(self) -> Count:
        if not self.min <= self.desired <= self.maximum:
            raise wrong("min <= desired <= max", order_fix(self.min, self.desired, self.max))
        return self


_BOUGHT = On(("eks", "gke"), "elsewhere the program buys no capacity", fix="remove capacity")


_CAPACITY_TYPE = SetsProperties(
    eks=("capacity_type", "node_group_name"), karpenter=("requirements",), gke=("provisioning",)
)
_RESERVATION = SetsProperties(
    eks=("capacity_reservation",), karpenter=("node_class",), gke=("reservation_affinity",)
)
_ZONES = SetsProperties(eks=("subnet_ids",), karpenter=("requirements",), gke=("node_locations",))


_Alternatives = Annotated[
    Annotated[tuple[str, ...], Field(min_length=1, max_length=19)] | None,
    On(
        ("eks",),
        "a GKE node pool has one machine type",
        fix="write a pool for each machine type, and name their order in compute_classes",
    ),
    SetsProperties(eks=("instance_types",), karpenter=("requirements",)),
]


class OnDemand(SpecModel):
    """On-demand capacity, paid by the hour."""

    type: Annotated[Literal["on-demand"], _CAPACITY_TYPE] = "on-demand"
    alternatives: _Alternatives = None
    """EKS: machine types that nodes may have where `machine_type` has no capacity, with the same GPU model, number
    of GPUs and architecture; a managed node group tries them in this order. Pods can request what the smallest
    has."""


class Spot(SpecModel):
    """Spot capacity, which the cloud can reclaim."""

    type: Annotated[Literal["spot"], _BOUGHT, _CAPACITY_TYPE]
    alternatives: _Alternatives = None
    """EKS: machine types that nodes may have beside `machine_type`, with the same GPU model, number of GPUs and
    architecture; the more there are, the fewer nodes are reclaimed. Pods can request what the smallest has."""


_COMPUTE_ENGINE = On(("gke",), "it is part of the name of a Compute Engine reservation")
_CALENDAR = On(("gke",), "an On-Demand Capacity Reservation of EC2 is compared with no time")
_RESERVATION_NAME = SetsProperties(gke=("reservation_affinity",))


class Reservation(SpecModel):
    """An existing capacity reservation of the cloud; its zone and terms were set when it was created."""

    type: Annotated[Literal["reservation"], _BOUGHT, _CAPACITY_TYPE]
    reservation: Annotated[str, _RESERVATION] = Field(examples=["cr-0a1b2c3d4e5f60718", "h100-pool"])
    """EKS: the id of an On-Demand Capacity Reservation; GKE: the name of a Compute Engine reservation."""
    zone: Annotated[Zone, _ZONES]
    placement_group: Annotated[
        str | None,
        On(
            ("eks",),
            "EC2 has placement groups; GKE nodes enter a reservation with a compact policy by placement",
            fix="write placement: {type: compact, group: <the reservation's resource policy>}",
        ),
        SetsProperties(eks=("placement_group",), karpenter=("node_class",)),
    ] = None
    """EKS: name of the cluster placement group of the reservation, if it has one."""
    project: Annotated[str | None, _COMPUTE_ENGINE, _RESERVATION_NAME] = None
    """GKE: the project that shares the reservation; unset: the cluster's."""
    block: Annotated[str | None, _COMPUTE_ENGINE, _RESERVATION_NAME] = None
    """GKE: name of one block of the reservation."""
    sub_block: Annotated[str | None, _COMPUTE_ENGINE, _RESERVATION_NAME] = None
    """GKE: name of one sub-block of the block."""
    starts: Annotated[Instant | None, _CALENDAR] = None
    """GKE: start of a reservation for a fixed time; `up` refuses desired nodes before it, and validation expects
    none."""
    ends: Annotated[Instant | None, _CALENDAR] = None
    """GKE: end of a reservation for a fixed time, such as 2026-12-14T11:30:00Z; its nodes are deleted then."""
    needed_until: Annotated[Instant | None, _CALENDAR] = None
    """GKE: time until which the pool is needed; a reservation that ends earlier is refused."""


_BLOCKS = SetsProperties(eks=("capacity_blocks",), karpenter=("capacity_blocks",))


class Block(SpecModel):
    """One of several EC2 Capacity Blocks for ML that a pool uses one after the other."""

    reservation: str = Field(pattern=BLOCK_ID, examples=["cr-0a1b2c3d4e5f60718"])
    zone: Zone
    starts: Instant
    """Start of the block, such as 2026-12-01T11:30:00Z."""
    ends: Instant
    """End of the block; EKS drains its nodes 40 minutes earlier."""


class CapacityBlock(SpecModel):
    """EC2 Capacity Blocks for ML, reserved for a fixed time: one by `reservation` and `zone`, or several."""

    type: Annotated[Literal["capacity-block"], On(("eks",), "capacity blocks are sold by EC2"), _CAPACITY_TYPE]
    reservation: Annotated[str | None, _RESERVATION] = Field(
        default=None, pattern=BLOCK_ID, examples=["cr-0a1b2c3d4e5f60718"]
    )
    zone: Annotated[Zone | None, _ZONES] = None
    starts: Instant | None = None
    """Start of the block, such as 2026-12-01T11:30:00Z: a managed node group has no nodes before it, and
    `count.desired` then. Unset: it starts with `count.desired` nodes, so the block must have begun."""
    ends: Instant | None = None
    """End of the block, such as 2026-12-14T11:30:00Z; EKS drains its nodes 40 minutes earlier."""
    blocks: Annotated[Annotated[tuple[Block, ...], Field(min_length=1, max_length=20)] | None, _BLOCKS] = None
    """Several blocks one after the other, instead of `reservation`, `zone`, `starts` and `ends`. Each has a node
    group of its own; the pool, its labels and what quotas may use stay the same."""
    needed_until: Instant | None = None
    """Time until which the pool is needed; a block that ends earlier is refused."""


class FlexStart(SpecModel):
    """GKE flex-start: GKE creates nodes when capacity is available, for at most seven days."""

    type: Annotated[Literal["flex-start"], On(("gke",), "flex-start is sold by Google Cloud"), _CAPACITY_TYPE]
    max_run_duration: Annotated[Duration | None, SetsProperties(gke=("max_run_duration",))] = None
    """How long a node may run, 10 minutes to 7 days (`168h`); unset: 7 days."""
    queued: Annotated[bool, SetsProperties(gke=("queued_provisioning",))] = False
    """Queued provisioning: a ProvisioningRequest gets all its nodes at once. With teams it needs `queueing`."""


Capacity = Annotated[OnDemand | Spot | Reservation | CapacityBlock | FlexStart, Field(discriminator="type")]


class Placement(SpecModel):
    """Physical placement of the pool's nodes relative to each other."""

    type: Annotated[
        Literal["none", "cluster", "compact"],
        On(("eks",), "EC2 has cluster placement groups", values=("cluster",)),
        On(("gke",), "Compute Engine has compact placement policies", values=("compact",)),
    ] = "none"
    """`cluster`: an EC2 placement group; `compact`: a GKE compact placement policy."""
    group: str | None = None
    """Name of an existing placement group or resource policy; unset: the program creates one. On GKE a reservation
    that is not dense accepts only the policy that it was created with: name it here."""


_KUBELET = On(("eks", "gke"), "elsewhere the program configures no kubelet, and nodes only report the policy")
_SCOPE = On(("eks", "gke", "sandbox"), "on existing nodes the program configures no kubelet")


class Topology(SpecModel):
    """Topology Manager and Memory Manager policies of the kubelet."""

    policy: Literal["none", "best-effort", "restricted", "single-numa-node"]
    scope: Annotated[Literal["container", "pod"], _SCOPE] = "container"
    memory: Annotated[Literal["none", "static"], _KUBELET] = "none"
    """Memory Manager policy; `static` pins memory to the NUMA node of a Guaranteed pod's CPUs."""


class Taint(SpecModel):
    """Node taint of a pool in the stack file."""

    key: LabelKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class ExistingNodes(SpecModel):
    """Nodes of an existing cluster that form the pool, selected by name or by label."""

    names: Annotated[tuple[NodeName, ...], Field(min_length=1, max_length=5000)] | None = None
    """Names of the nodes. The program sets their labels. It does not change their taints, because taints are one
    list that all owners share."""
    selector: Annotated[dict[LabelKey, LabelValue], Field(min_length=1)] | None = None
    """Labels of the nodes. The program does not change these nodes; validation reports labels that are missing."""

    @model_validator(mode="after")
    def _one_of(self) -> ExistingNodes:
        if (self.names is None) == (self.selector is None):
            raise wrong("exactly one of names and selector", "write names: [gpu-0, gpu-1]")
        return self


class NodeSharing(SpecModel):
    """Nodes of a pool that use a named sharing instead of the pool's own."""

    nodes: Annotated[tuple[NodeName, ...], Field(min_length=1, max_length=5000)]
    sharing: DnsLabel
    """A name in the environment's `sharing`; the nodes are planned as a separate pool `<pool>-<sharing>`."""


_KARPENTER = On(("eks",), "GKE has an autoscaler of its own, and count sets its limits")


class Pool(SpecModel):
    """Node pool in the stack file: a GPU pool, or a CPU pool if its machine type has no GPUs."""

    name: DnsLabel
    machine_type: Annotated[
        str,
        SetsProperties(
            eks=("instance_type",),
            karpenter=("requirements",),
            gke=("guest_accelerator", "local_ssd", "machine_type"),
            sandbox=("machine_type",),
        ),
    ]
    """A machine type of the catalogue, which has its GPU model and count, memory, NVLinks and list prices. One
    without GPUs makes a CPU pool: no GPU software runs there, and fields about GPUs are refused."""
    count: Count
    capacity: Capacity = OnDemand()
    headroom: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """GPUs that are kept free for the next pods, on a pool that an autoscaler changes: pods of the lowest priority
    hold them, which pods of teams preempt. At most the GPUs of a node, or those of whole nodes."""
    schedule: Annotated[
        PoolSchedule | None,
        On(
            ("eks",),
            "scheduled actions of EC2 Auto Scaling start and stop the nodes",
            "remove schedule; a pool that an autoscaler changes has no nodes without pods (count.min: 0), and "
            "cleanup.idle_after ends idle notebooks",
        ),
    ] = None
    """When the pool has nodes; unset: always. For development pools, off at night and at weekends."""
    placement: Annotated[
        Placement | None,
        ON_CLOUDS,
        SetsProperties(eks=("placement_group",), karpenter=("node_class",), gke=("placement_policy",)),
    ] = None
    """Unset: `cluster` or `compact` for training pools with several nodes, RDMA interfaces and no reservation."""
    zones: Annotated[Annotated[tuple[Zone, ...], Field(min_length=1, max_length=50)] | None, ON_CLOUDS, _ZONES] = (
        None
    )
    """Zones of the nodes. Unset: the zone of `capacity`, else every zone of the cluster, for a managed node group
    of EKS those that it had when the pool was created; in a regional GKE cluster every zone that is known to offer
    the machine type. GKE creates the same number of nodes in each zone, so pools with initial nodes must name
    their zones there."""
    workload: Workload
    """Purpose of the pool; sets the defaults of Topology Manager policy, GPU network, placement and disruption,
    and decides which policy rules apply. `general` is for CPU pools, and their only one: monitoring, ingress, Ray
    heads, data loaders."""
    declared_sharing: Annotated[SharingOrName, SetsProperties(gke=("gpu_sharing_config",))] = Field(
        default=NoSharing(), alias="sharing"
    )
    """How GPUs are shared: the settings, or a name in the environment's `sharing`."""
    per_node: Annotated[tuple[NodeSharing, ...], Field(max_length=200)] = ()
    """Nodes with another sharing than the rest of the pool; in the sandbox, and on existing nodes given by
    name."""
    topology: Annotated[
        Topology | None, SetsProperties(eks=("user_data",), karpenter=("node_class",), gke=("kubelet_config",))
    ] = None
    tuning: Annotated[
        Tuning | None,
        ON_CLOUDS,
        SetsProperties(eks=("user_data",), karpenter=("node_class",), gke=("linux_node_config",)),
    ] = None
    bootstrap: Annotated[
        Bootstrap | None,
        ON_CLOUDS,
        SetsProperties(eks=("user_data",), karpenter=("node_class",), gke=("kubelet_config", "linux_node_config")),
    ] = None
    """What a company adds to the nodes before they join: commands, settings, a script, limits of the kubelet.
    Another value rolls them."""
    labels: Annotated[dict[LabelKey, LabelValue], SetsProperties(karpenter=("template",))] = {}
    tags: Annotated[
        dict[AwsTagKey, AwsTagValue],
        Field(max_length=10),
        ON_CLOUDS,
        SetsProperties(eks=("tags",), karpenter=("node_class",)),
    ] = {}
    """EKS and GKE: tags of the company on instances of the pool and their disks, beside those of the cluster
    (`tags`, on GKE `labels`). On GKE they are labels of resources: lower case, at most 63 characters."""
    taints: Annotated[tuple[Taint, ...], Field(max_length=50), SetsProperties(karpenter=("template",))] = ()
    """Taints in addition to `nvidia.com/gpu=present:NoSchedule`, which every GPU pool has; a CPU pool has only
    these."""
    gate_nodes: Annotated[NodeGate | None, SetsProperties(eks=("user_data",), karpenter=("template",))] = None
    """When nodes are tainted so that no pod of a team starts on them; unset: `validation.gate_nodes`. On an
    existing cluster the nodes must register with the startup taint themselves."""
    nodes: Annotated[ExistingNodes | None, On(("existing",), "elsewhere the program creates the nodes")] = None
    """Only on an existing cluster: the nodes that form the pool."""
    provisioner: Annotated[
        Literal["managed", "karpenter"], ON_CLOUDS, replace(_KARPENTER, values=("karpenter",))
    ] = "managed"
    """EKS: a managed node group, or Karpenter, which creates nodes for pending pods."""
    karpenter: Annotated[Karpenter | None, _KARPENTER] = None
    """Only with provisioner karpenter."""
    device_plugin: Annotated[
        Literal["operator", "provider"] | None, ON_CLOUDS, SetsProperties(gke=("gpu_driver_installation_config",))
    ] = None
    """What runs the device plugin: the GPU Operator, or the provider: the node image (Bottlerocket) or GKE, with
    its own sharing. Unset: provider on Bottlerocket, else operator."""
    image: Annotated[Image, ON_CLOUDS] = Image()
    network: Annotated[
        Network,
        ON_CLOUDS,
        SetsProperties(eks=("network_interfaces",), karpenter=("node_class",), gke=("additional_networks",)),
    ] = Network()
    disk: Annotated[
        Disk, ON_CLOUDS, SetsProperties(eks=("block_device_mappings",), karpenter=("node_class",), gke=("disk",))
    ] = Disk()
    local_nvme: Annotated[bool, ON_CLOUDS, SetsProperties(eks=("user_data",), karpenter=("node_class",))] = True
    """Use the machine's local NVMe disks, if it has any, for the ephemeral storage of pods."""
    upgrade: Annotated[
        Upgrade,
        On(
            ("eks", "gke"),
            "elsewhere the program replaces no nodes",
            fix="remove upgrade; changes.max_unavailable is how many nodes get another driver at a time",
        ),
    ] = Upgrade()
    repair: Annotated[bool | None, ON_CLOUDS] = None
    """Let the cloud replace unhealthy nodes; unset: yes, if the capacity type allows it."""
    protect: bool = False
    """Refuse to remove, rename or replace the pool, and to destroy the stack. To lift it, deploy `protect: false`
    first."""
    usd_per_hour: UsdPerHour | None = None
    """Price of one node in USD/h if it is not the list price: on-premises, spot, a commitment."""
    utilisation: Annotated[float, Field(ge=0, le=1)] | None = None
    """Expected utilisation of the pool's GPUs as a share of time, 0 to 1; a measured one takes precedence."""

    @property
    def capacity_alternatives(self) -> tuple[str, ...]:
        """Machine types that `capacity` allows beside the pool's own."""
        return (self.capacity.alternatives or ()) if isinstance(self.capacity, OnDemand | Spot) else ()

    @property
    def alternatives(self) -> tuple[str, ...]:
        """Machine types that nodes may have beside the pool's own, in the order of the file."""
        return self.capacity_alternatives or (self.karpenter.alternatives if self.karpenter is not None else ())

    @property
    def sharing(self) -> Sharing:
        """How GPUs are shared, after planning has resolved a name."""
        assert not isinstance(self.declared_sharing, str)  # noqa: S101 - planning has resolved it
        return self.declared_sharing
