"""`pools[]`: GPU node pools; a pool names its machine type, the rest follows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpu_platform.spec._instant import Instant
from gpu_platform.spec._types import (
    DnsLabel,
    Duration,
    LabelKey,
    LabelValue,
    MigProfileName,
    NodeName,
    SpecModel,
    Zone,
    wrong,
)
from gpu_platform.spec.nodes import Disk, Image, Karpenter, Network, Upgrade

Workload = Literal["training", "inference", "development"]
SharingMode = Literal["none", "time-slicing", "mps", "mig", "dra"]
MAX_NODES = 1000
MAX_TIME_SLICING_REPLICAS = 48
MAX_MPS_CLIENTS = 48


class Count(SpecModel):
    """How many nodes a pool has."""

    min: int = Field(default=0, ge=0, le=MAX_NODES)
    desired: int = Field(ge=0, le=MAX_NODES)
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


class OnDemand(SpecModel):
    """Capacity bought by the hour."""

    type: Literal["on-demand"] = "on-demand"


class Spot(SpecModel):
    """Spare capacity that can be taken back."""

    type: Literal["spot"]


class Reservation(SpecModel):
    """A capacity reservation of the cloud; its terms, its zone among them, were agreed when it was made."""

    type: Literal["reservation"]
    reservation: str = Field(examples=["cr-0a1b2c3d4e5f60718", "h100-pool"])
    """EKS: the id of an On-Demand Capacity Reservation; GKE: the name of a Compute Engine reservation."""
    zone: Zone
    placement_group: str | None = None
    """EKS: name of the cluster placement group that the reservation was made in, if any."""
    project: str | None = None
    """GKE: the project that shares the reservation; unset: the cluster's."""
    block: str | None = None
    """GKE: one block of the reservation."""


class CapacityBlock(SpecModel):
    """An EC2 Capacity Block for ML: reserved for a fixed time."""

    type: Literal["capacity-block"]
    reservation: str = Field(pattern=r"^cr-[0-9a-f]+$", examples=["cr-0a1b2c3d4e5f60718"])
    zone: Zone
    ends: Instant | None = None
    """When the block ends, such as 2026-12-14T11:30:00Z; EKS drains its nodes some 40 minutes before."""
    needed_until: Instant | None = None
    """Until when the pool is needed; a block that ends before is refused."""


class FlexStart(SpecModel):
    """GKE flex-start: nodes come when there is capacity, for at most seven days."""

    type: Literal["flex-start"]
    max_run_duration: Duration | None = None
    """At most 7 days; unset: 7 days."""
    queued: bool = False
    """Queued provisioning: all nodes of a request at once, by a ProvisioningRequest."""


Capacity = Annotated[OnDemand | Spot | Reservation | CapacityBlock | FlexStart, Field(discriminator="type")]


class Placement(SpecModel):
    """How the pool's nodes are placed to each other."""

    type: Literal["none", "cluster", "compact"] = "none"
    """`cluster`: an EC2 placement group; `compact`: a GKE compact placement policy."""
    group: str | None = None
    """Name of a placement group or resource policy that is there; unset: the program makes one."""


class NoSharing(SpecModel):
    """Whole GPUs."""

    mode: Literal["none"] = "none"


class _Replicated(SpecModel):
    rename: bool = True
    """Advertise `nvidia.com/gpu.shared`, so that a share never looks like a whole GPU."""
    fail_requests_greater_than_one: bool = True
    """Refuse a pod that asks for more than one share: two shares give no more compute than one."""


class TimeSlicing(_Replicated):
    """Each GPU is offered several times; the replicas share memory and take turns."""

    mode: Literal["time-slicing"]
    replicas: int = Field(ge=2, le=MAX_TIME_SLICING_REPLICAS)


class Mps(_Replicated):
    """Each GPU is shared by a Multi-Process Service daemon; a replica has 1/replicas of memory and threads."""

    mode: Literal["mps"]
    replicas: int = Field(ge=2, le=MAX_MPS_CLIENTS)
    """At most 48: the client limit of MPS on Volta and newer."""


MigLayout = Annotated[dict[MigProfileName, Annotated[int, Field(ge=1, le=7)]], Field(min_length=1)]


class MigDevices(SpecModel):
    """A layout for some GPUs of the node."""

    devices: Annotated[tuple[Annotated[int, Field(ge=0, le=31)], ...], Field(min_length=1)]
    layout: MigLayout


class Mig(SpecModel):
    """Each GPU is cut into hardware-isolated instances."""

    mode: Literal["mig"]
    layout: MigLayout | None = None
    """Instances on every GPU of the node: profile to count."""
    layouts: Annotated[tuple[MigDevices, ...], Field(min_length=1)] | None = None
    """Instead of `layout`: other layouts for other GPUs of the node."""
    strategy: Literal["mixed", "single"] = "mixed"
    """`mixed`: `nvidia.com/mig-<profile>`; `single`: `nvidia.com/gpu`, with one profile on all GPUs."""
    change: Literal["drain", "replace"] = "drain"
    """Who makes room for a new layout on nodes that run pods: you drain each node first, or replace the nodes."""

    @model_validator(mode="after")
    def _one_of(self) -> Mig:
        if (self.layout is None) == (self.layouts is None):
            raise wrong("exactly one of layout and layouts", "write layout: {1g.10gb: 7}")
        return self


class Dra(SpecModel):
    """GPUs are allocated by Dynamic Resource Allocation instead of a device plugin."""

    mode: Literal["dra"]


Sharing = Annotated[NoSharing | TimeSlicing | Mps | Mig | Dra, Field(discriminator="mode")]


class Topology(SpecModel):
    """Kubelet topology policy."""

    policy: Literal["none", "best-effort", "restricted", "single-numa-node"]
    scope: Literal["container", "pod"] = "container"
    memory: Literal["none", "static"] = "none"
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


class Pool(SpecModel):
    """A GPU node pool."""

    name: DnsLabel
    machine_type: str
    """A machine type of the catalogue; it says GPU, count, memory, links and price."""
    count: Count
    capacity: Capacity = OnDemand()
    placement: Placement | None = None
    """Unset: `cluster` or `compact` for training pools of several nodes with RDMA interfaces and without a
    reservation."""
    zones: Annotated[tuple[Zone, ...], Field(min_length=1)] | None = None
    """Where the nodes may be; unset: the capacity's zone, else every zone of the cluster. GKE makes as many nodes
    in each, so a pool with nodes from the start must name them in a regional cluster."""
    workload: Workload
    """What the pool is for; it chooses taints, Topology Manager policy and which rules apply."""
    sharing: Sharing = NoSharing()
    topology: Topology | None = None
    labels: dict[LabelKey, LabelValue] = {}
    taints: tuple[Taint, ...] = ()
    """Taints beside `nvidia.com/gpu=present:NoSchedule`, which every GPU pool has."""
    nodes: ExistingNodes | None = None
    """Only on an existing cluster: which nodes are the pool."""
    provisioner: Literal["managed", "karpenter"] = "managed"
    """EKS: a managed node group, or Karpenter, which makes nodes for pods that wait."""
    karpenter: Karpenter | None = None
    """Only with provisioner karpenter."""
    device_plugin: Literal["operator", "provider"] | None = None
    """Who runs the device plugin: the GPU Operator, or the node image (Bottlerocket) or GKE, which then shares
    GPUs in its own way. Unset: operator, but provider on Bottlerocket."""
    image: Image = Image()
    network: Network = Network()
    disk: Disk = Disk()
    local_nvme: bool = True
    """Use the machine's local NVMe disks for pods' ephemeral storage, where it has any."""
    upgrade: Upgrade = Upgrade()
    repair: bool | None = None
    """Let the cloud replace nodes that it finds broken; unset: yes, where the capacity allows it."""
    usd_per_hour: Annotated[float, Field(gt=0)] | None = None
    """What one node costs you, where that is not the list price: on-premises, spot, a commitment."""
    utilisation: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the time of the pool's GPUs, 0 to 1, that is expected to be put to work; measured ones go before."""
