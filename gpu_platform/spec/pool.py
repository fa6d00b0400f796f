"""Stack file field `pools[]`: GPU node pools; most settings have defaults that depend on the machine type."""

from __future__ import annotations

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
    """Number of nodes of a pool: minimum, desired, maximum."""

    min: int = Field(default=0, ge=0, le=MAX_NODES)
    desired: int = Field(ge=0, le=MAX_NODES)
    max: int | None = Field(default=None, ge=0, le=MAX_NODES)
    """Unset: `desired`."""

    @property
    def highest(self) -> int:
        """Maximum number of nodes: `max`, or `desired` if it is not set."""
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
    """On-demand capacity, paid by the hour."""

    type: Literal["on-demand"] = "on-demand"


class Spot(SpecModel):
    """Spot capacity, which the cloud can reclaim."""

    type: Literal["spot"]


class Reservation(SpecModel):
    """An existing capacity reservation of the cloud; its zone and terms were set when it was created."""

    type: Literal["reservation"]
    reservation: str = Field(examples=["cr-0a1b2c3d4e5f60718", "h100-pool"])
    """EKS: the id of an On-Demand Capacity Reservation; GKE: the name of a Compute Engine reservation."""
    zone: Zone
    placement_group: str | None = None
    """EKS: name of the cluster placement group of the reservation, if it has one."""
    project: str | None = None
    """GKE: the project that shares the reservation; unset: the cluster's."""
    block: str | None = None
    """GKE: name of one block of the reservation."""


class CapacityBlock(SpecModel):
    """An EC2 Capacity Block for ML: reserved for a fixed time."""

    type: Literal["capacity-block"]
    reservation: str = Field(pattern=r"^cr-[0-9a-f]+$", examples=["cr-0a1b2c3d4e5f60718"])
    zone: Zone
    ends: Instant | None = None
    """End of the block, such as 2026-12-14T11:30:00Z; EKS drains its nodes about 40 minutes earlier."""
    needed_until: Instant | None = None
    """Time until which the pool is needed; a block that ends earlier is refused."""


class FlexStart(SpecModel):
    """GKE flex-start: GKE creates nodes when capacity is available, for at most seven days."""

    type: Literal["flex-start"]
    max_run_duration: Duration | None = None
    """How long a node may run, at most 7 days; unset: 7 days."""
    queued: bool = False
    """Queued provisioning: a ProvisioningRequest gets all its nodes at once."""


Capacity = Annotated[OnDemand | Spot | Reservation | CapacityBlock | FlexStart, Field(discriminator="type")]


class Placement(SpecModel):
    """Physical placement of the pool's nodes relative to each other."""

    type: Literal["none", "cluster", "compact"] = "none"
    """`cluster`: an EC2 placement group; `compact`: a GKE compact placement policy."""
    group: str | None = None
    """Name of an existing placement group or resource policy; unset: the program creates one. On GKE a reservation
    that is not dense accepts only the policy that it was created with: name it here."""


class Topology(SpecModel):
    """Topology Manager and Memory Manager policies of the kubelet."""

    policy: Literal["none", "best-effort", "restricted", "single-numa-node"]
    scope: Literal["container", "pod"] = "container"
    memory: Literal["none", "static"] = "none"
    """Memory Manager policy; `static` pins memory to the NUMA node of a Guaranteed pod's CPUs."""


class Taint(SpecModel):
    """Node taint of a pool in the stack file."""

    key: LabelKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class ExistingNodes(SpecModel):
    """Nodes of an existing cluster that form the pool, selected by name or by label."""

    names: Annotated[tuple[NodeName, ...], Field(min_length=1)] | None = None
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

    nodes: Annotated[tuple[NodeName, ...], Field(min_length=1)]
    sharing: DnsLabel
    """A name in the environment's `sharing`; the nodes are planned as a separate pool `<pool>-<sharing>`."""


class Pool(SpecModel):
    """GPU node pool in the stack file."""

    name: DnsLabel
    machine_type: str
    """A machine type of the catalogue, which has its GPU model and count, memory, NVLinks and price."""
    count: Count
    capacity: Capacity = OnDemand()
    placement: Placement | None = None
    """Unset: `cluster` or `compact` for training pools with several nodes, RDMA interfaces and no reservation."""
    zones: Annotated[tuple[Zone, ...], Field(min_length=1)] | None = None
    """Zones of the nodes; unset: the zone of `capacity`, else every zone of the cluster. GKE creates the same
    number of nodes in each zone, so in a regional cluster a pool with initial nodes must name its zones."""
    workload: Workload
    """Purpose of the pool; determines taints, Topology Manager policy and which policy rules apply."""
    declared_sharing: SharingOrName = Field(default=NoSharing(), alias="sharing")
    """How GPUs are shared: the settings, or a name in the environment's `sharing`."""
    per_node: tuple[NodeSharing, ...] = ()
    """Nodes with another sharing than the rest of the pool; in the sandbox, and on existing nodes given by
    name."""
    topology: Topology | None = None
    labels: dict[LabelKey, LabelValue] = {}
    taints: tuple[Taint, ...] = ()
    """Taints in addition to `nvidia.com/gpu=present:NoSchedule`, which every GPU pool has."""
    nodes: ExistingNodes | None = None
    """Only on an existing cluster: the nodes that form the pool."""
    provisioner: Literal["managed", "karpenter"] = "managed"
    """EKS: a managed node group, or Karpenter, which creates nodes for pending pods."""
    karpenter: Karpenter | None = None
    """Only with provisioner karpenter."""
    device_plugin: Literal["operator", "provider"] | None = None
    """What runs the device plugin: the GPU Operator, or the provider: the node image (Bottlerocket) or GKE, with
    its own sharing. Unset: provider on Bottlerocket, else operator."""
    image: Image = Image()
    network: Network = Network()
    disk: Disk = Disk()
    local_nvme: bool = True
    """Use the machine's local NVMe disks, if it has any, for the ephemeral storage of pods."""
    upgrade: Upgrade = Upgrade()
    repair: bool | None = None
    """Let the cloud replace unhealthy nodes; unset: yes, if the capacity type allows it."""
    usd_per_hour: UsdPerHour | None = None
    """Price of one node in USD/h if it is not the list price: on-premises, spot, a commitment."""
    utilisation: Annotated[float, Field(ge=0, le=1)] | None = None
    """Expected utilisation of the pool's GPUs as a share of time, 0 to 1; a measured one takes precedence."""

    @property
    def sharing(self) -> Sharing:
        """How GPUs are shared, after planning has resolved a name."""
        assert not isinstance(self.declared_sharing, str)  # noqa: S101 - planning has resolved it
        return self.declared_sharing
