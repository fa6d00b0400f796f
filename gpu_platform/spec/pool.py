"""`pools[]`: GPU node pools; a pool names its machine type, the rest follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpu_platform.spec._instant import Instant
from gpu_platform.spec._types import (
    DnsLabel,
    Duration,
    LabelKey,
    LabelValue,
    NodeName,
    SpecModel,
    UsdPerHour,
    Zone,
    wrong,
)
from gpu_platform.spec.declared import ON_CLOUDS, On, Shows
from gpu_platform.spec.nodes import Disk, Image, Karpenter, Network, Upgrade
from gpu_platform.spec.sharing import Dra as Dra
from gpu_platform.spec.sharing import Mig as Mig
from gpu_platform.spec.sharing import Mps as Mps
from gpu_platform.spec.sharing import NoSharing as NoSharing
from gpu_platform.spec.sharing import Sharing as Sharing
from gpu_platform.spec.sharing import SharingOrName
from gpu_platform.spec.sharing import TimeSlicing as TimeSlicing

Workload = Literal["training", "inference", "development"]
MAX_NODES = 1000


class Count(SpecModel):
    """How many nodes a pool has."""

    min: Annotated[
        int,
        On(("existing", "eks", "gke"), "the sandbox has no autoscaler, and creates the desired number of nodes"),
    ] = Field(default=0, ge=0, le=MAX_NODES)
    desired: Annotated[int, Shows(sandbox=("nodes",))] = Field(ge=0, le=MAX_NODES)
    max: int | None = Field(default=None, ge=0, le=MAX_NODES)
    """Unset: `desired`."""

    @property
    def highest(self) -> int:
        """The most nodes that the pool may have."""
        return self.desired if self.max is None else self.max

    @model_validator(mode="after")
    def _ordered(self) -> Count:
        if not self.min <= self.desired <= self.highest:
            raise wrong(
                "min <= desired <= max",
                f"min {self.min}, desired {self.desired}, max {self.highest}: raise max or lower desired",
            )
        return self


_BOUGHT = On(("eks", "gke"), "elsewhere the program buys no capacity", fix="remove capacity")


_CAPACITY_TYPE = Shows(eks=("capacity_type",), karpenter=("requirements",), gke=("provisioning",))
_RESERVATION = Shows(eks=("capacity_reservation",), karpenter=("node_class",), gke=("reservation_affinity",))
_ZONES = Shows(eks=("subnet_ids",), karpenter=("requirements",), gke=("node_locations",))


class OnDemand(SpecModel):
    """Capacity bought by the hour."""

    type: Annotated[Literal["on-demand"], _CAPACITY_TYPE] = "on-demand"


class Spot(SpecModel):
    """Spare capacity that can be taken back."""

    type: Annotated[Literal["spot"], _BOUGHT, _CAPACITY_TYPE]


_COMPUTE_ENGINE = On(("gke",), "it is part of the name of a Compute Engine reservation")
_RESERVATION_NAME = Shows(gke=("reservation_affinity",))


class Reservation(SpecModel):
    """A capacity reservation of the cloud; its terms, its zone among them, were agreed when it was made."""

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
        Shows(eks=("placement_group",), karpenter=("node_class",)),
    ] = None
    """EKS: name of the cluster placement group that the reservation was made in, if any."""
    project: Annotated[str | None, _COMPUTE_ENGINE, _RESERVATION_NAME] = None
    """GKE: the project that shares the reservation; unset: the cluster's."""
    block: Annotated[str | None, _COMPUTE_ENGINE, _RESERVATION_NAME] = None
    """GKE: one block of the reservation."""


class CapacityBlock(SpecModel):
    """An EC2 Capacity Block for ML: reserved for a fixed time."""

    type: Annotated[Literal["capacity-block"], On(("eks",), "capacity blocks are sold by EC2"), _CAPACITY_TYPE]
    reservation: Annotated[str, _RESERVATION] = Field(pattern=r"^cr-[0-9a-f]+$", examples=["cr-0a1b2c3d4e5f60718"])
    zone: Annotated[Zone, _ZONES]
    ends: Instant | None = None
    """When the block ends, such as 2026-12-14T11:30:00Z; EKS drains its nodes some 40 minutes before."""
    needed_until: Instant | None = None
    """Until when the pool is needed; a block that ends before is refused."""


class FlexStart(SpecModel):
    """GKE flex-start: nodes come when there is capacity, for at most seven days."""

    type: Annotated[Literal["flex-start"], On(("gke",), "flex-start is sold by Google Cloud"), _CAPACITY_TYPE]
    max_run_duration: Annotated[Duration | None, Shows(gke=("max_run_duration",))] = None
    """At most 7 days; unset: 7 days."""
    queued: Annotated[bool, Shows(gke=("queued_provisioning",))] = False
    """Queued provisioning: all nodes of a request at once, by a ProvisioningRequest."""


Capacity = Annotated[OnDemand | Spot | Reservation | CapacityBlock | FlexStart, Field(discriminator="type")]


class Placement(SpecModel):
    """How the pool's nodes are placed to each other."""

    type: Annotated[
        Literal["none", "cluster", "compact"],
        On(("eks",), "EC2 has cluster placement groups", values=("cluster",)),
        On(("gke",), "Compute Engine has compact placement policies", values=("compact",)),
    ] = "none"
    """`cluster`: an EC2 placement group; `compact`: a GKE compact placement policy."""
    group: str | None = None
    """Name of a placement group or resource policy that is there; unset: the program makes one. On GKE a
    reservation that is not dense takes only the policy that it was made with: name it here."""


_KUBELET = On(("eks", "gke"), "elsewhere the program configures no kubelet, and nodes report the policy alone")


class Topology(SpecModel):
    """Kubelet topology policy."""

    policy: Literal["none", "best-effort", "restricted", "single-numa-node"]
    scope: Annotated[Literal["container", "pod"], _KUBELET] = "container"
    memory: Annotated[Literal["none", "static"], _KUBELET] = "none"
    """Memory Manager policy; `static` pins memory to the NUMA node of a Guaranteed pod's CPUs."""


class Taint(SpecModel):
    """A node taint."""

    key: LabelKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class ExistingNodes(SpecModel):
    """Which nodes of an existing cluster are the pool: by name, or by the labels of their node group."""

    names: Annotated[tuple[NodeName, ...], Field(min_length=1)] | None = None
    """The program labels these nodes; their taints, one list for all owners, stay with their owner."""
    selector: Annotated[dict[LabelKey, LabelValue], Field(min_length=1)] | None = None
    """The program leaves these nodes alone; validation says which labels their owner has yet to set."""

    @model_validator(mode="after")
    def _one_of(self) -> ExistingNodes:
        if (self.names is None) == (self.selector is None):
            raise wrong("exactly one of names and selector", "write names: [gpu-0, gpu-1]")
        return self


class NodeSharing(SpecModel):
    """Some nodes of a pool, and the named sharing that they have instead of the pool's own."""

    nodes: Annotated[tuple[NodeName, ...], Field(min_length=1)]
    sharing: DnsLabel
    """A name of the environment's `sharing`; the nodes are planned as a pool of their own, `<pool>-<sharing>`."""


_KARPENTER = On(("eks",), "GKE has an autoscaler of its own, and count says how far it goes")


class Pool(SpecModel):
    """A GPU node pool."""

    name: DnsLabel
    machine_type: Annotated[
        str,
        Shows(
            eks=("instance_type",),
            karpenter=("requirements",),
            gke=("guest_accelerator", "local_ssd", "machine_type"),
            sandbox=("machine_type",),
        ),
    ]
    """A machine type of the catalogue; it says GPU, count, memory, links and price."""
    count: Count
    capacity: Capacity = OnDemand()
    placement: Annotated[
        Placement | None,
        ON_CLOUDS,
        Shows(eks=("placement_group",), karpenter=("node_class",), gke=("placement_policy",)),
    ] = None
    """Unset: `cluster` or `compact` for training pools of several nodes with RDMA interfaces and without a
    reservation."""
    zones: Annotated[Annotated[tuple[Zone, ...], Field(min_length=1)] | None, ON_CLOUDS, _ZONES] = None
    """Where the nodes may be; unset: the capacity's zone, else every zone of the cluster. GKE makes as many nodes
    in each, so a pool with nodes from the start must name them in a regional cluster."""
    workload: Workload
    """What the pool is for; it chooses taints, Topology Manager policy and which rules apply."""
    declared_sharing: Annotated[SharingOrName, Shows(gke=("gpu_sharing_config",))] = Field(
        default=NoSharing(), alias="sharing"
    )
    """How the GPUs are offered: written here, or the name of one of the environment's `sharing`."""
    per_node: tuple[NodeSharing, ...] = ()
    """Nodes of the pool whose GPUs are offered in another way; in the sandbox and on nodes that are named."""
    topology: Annotated[
        Topology | None, Shows(eks=("user_data",), karpenter=("node_class",), gke=("kubelet_config",))
    ] = None
    labels: Annotated[dict[LabelKey, LabelValue], Shows(karpenter=("template",))] = {}
    taints: Annotated[tuple[Taint, ...], Shows(karpenter=("template",))] = ()
    """Taints beside `nvidia.com/gpu=present:NoSchedule`, which every GPU pool has."""
    nodes: Annotated[ExistingNodes | None, On(("existing",), "elsewhere the program creates the nodes")] = None
    """Only on an existing cluster: which nodes are the pool."""
    provisioner: Annotated[
        Literal["managed", "karpenter"], ON_CLOUDS, replace(_KARPENTER, values=("karpenter",))
    ] = "managed"
    """EKS: a managed node group, or Karpenter, which makes nodes for pods that wait."""
    karpenter: Annotated[Karpenter | None, _KARPENTER] = None
    """Only with provisioner karpenter."""
    device_plugin: Annotated[
        Literal["operator", "provider"] | None, ON_CLOUDS, Shows(gke=("gpu_driver_installation_config",))
    ] = None
    """Who runs the device plugin: the GPU Operator, or the node image (Bottlerocket) or GKE, which then shares
    GPUs in its own way. Unset: operator, but provider on Bottlerocket."""
    image: Annotated[Image, ON_CLOUDS] = Image()
    network: Annotated[
        Network,
        ON_CLOUDS,
        Shows(eks=("network_interfaces",), karpenter=("node_class",), gke=("additional_networks",)),
    ] = Network()
    disk: Annotated[
        Disk, ON_CLOUDS, Shows(eks=("block_device_mappings",), karpenter=("node_class",), gke=("disk",))
    ] = Disk()
    local_nvme: Annotated[bool, ON_CLOUDS, Shows(eks=("user_data",), karpenter=("node_class",))] = True
    """Use the machine's local NVMe disks for pods' ephemeral storage, where it has any."""
    upgrade: Annotated[Upgrade, ON_CLOUDS] = Upgrade()
    repair: Annotated[bool | None, ON_CLOUDS] = None
    """Let the cloud replace nodes that it finds broken; unset: yes, where the capacity allows it."""
    usd_per_hour: UsdPerHour | None = None
    """What one node costs you, where that is not the list price: on-premises, spot, a commitment."""
    utilisation: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the time of the pool's GPUs, 0 to 1, that is expected to be put to work; a measured one wins."""

    @property
    def sharing(self) -> Sharing:
        """How the GPUs are offered, once a name is resolved."""
        assert not isinstance(self.declared_sharing, str)  # noqa: S101 - planning has resolved it
        return self.declared_sharing
