"""`pools[]`: GPU node pools; a pool names its machine type, the rest follows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpu_platform.spec._types import DnsLabel, LabelKey, LabelValue, MigProfileName, NodeName, SpecModel, wrong

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
    """A capacity reservation of the cloud."""

    type: Literal["reservation"]
    reservation: str
    zone: str | None = None


class CapacityBlock(SpecModel):
    """An EC2 Capacity Block for ML: reserved for a fixed time."""

    type: Literal["capacity-block"]
    reservation: str = Field(pattern=r"^cr-[0-9a-f]+$", examples=["cr-0a1b2c3d4e5f60718"])
    zone: str


class FlexStart(SpecModel):
    """GKE flex-start: queued until capacity is there."""

    type: Literal["flex-start"]
    max_run_duration: str | None = None


Capacity = Annotated[OnDemand | Spot | Reservation | CapacityBlock | FlexStart, Field(discriminator="type")]


class Placement(SpecModel):
    """How the pool's nodes are placed to each other."""

    type: Literal["none", "cluster", "compact"] = "none"
    """`cluster`: an EC2 placement group; `compact`: a GKE compact placement policy."""


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
    workload: Workload
    """What the pool is for; it chooses taints, Topology Manager policy and which rules apply."""
    sharing: Sharing = NoSharing()
    topology: Topology | None = None
    labels: dict[LabelKey, LabelValue] = {}
    taints: tuple[Taint, ...] = ()
    """Taints beside `nvidia.com/gpu=present:NoSchedule`, which every GPU pool has."""
    nodes: ExistingNodes | None = None
    """Only on an existing cluster: which nodes are the pool."""
