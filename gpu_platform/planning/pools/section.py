"""Types of the plan of a node pool: its nodes, their labels and taints, and their resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gpu_platform.base import names
from gpu_platform.catalog.pod_devices import SHARES_PER_CONTAINER
from gpu_platform.catalog.pod_limits import KEEP_FROM_KARPENTER, SAFE_TO_EVICT
from gpu_platform.planning.clouds.daemonsets import DaemonSet
from gpu_platform.planning.clouds.schedules import SchedulePlan
from gpu_platform.planning.clouds.section import AutoscalerPlan, CloudNodes
from gpu_platform.planning.dra.section import DeviceOffer
from gpu_platform.planning.expectations.section import Expectations, NodeExpectation
from gpu_platform.planning.json_form import NOT_IN_JSON
from gpu_platform.planning.nodes.section import HOLDING_TAINTS, Kubelet, Labels, Taint
from gpu_platform.planning.nodes.software import NodeSoftware
from gpu_platform.planning.sharing.section import ResourceOffer, SharingPlan

LOWEST_WITH_NODES: Final = -10
"""The lowest priority of pods for which the Cluster Autoscaler adds and keeps nodes.

Source: Cluster Autoscaler FAQ, default of expendable-pods-priority-cutoff; read 2026-11-25. GKE's autoscaler is
taken to have the same.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesPlan:
    """Which nodes a pool has, and how many.

    `ownership`: nodes that this program creates, that it labels by name, that a selector selects, or that a cloud
    creates. `vary`: an autoscaler changes their number, so any node may be missing, also of those desired.
    """

    ownership: Literal["created", "labelled", "selected", "cloud"]
    min: int
    desired: int
    max: int
    vary: bool
    names: tuple[str, ...]

    @property
    def least(self) -> int:
        """The fewest nodes: `min` of a pool that an autoscaler changes, else all of `desired`."""
        return self.min if self.vary else self.desired


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrice:
    """Price of one node, USD/h; None: unknown, never zero.

    `declared`: it is `usd_per_hour` of the stack file. Else the on-demand list price in `region` (None: there are
    no list prices), from `source` of `date`; `reference`: the stack file names no region of a cloud, so the region
    is the vendor's reference region. `most_usd_per_hour`: of the dearest machine type that a node may have.
    """

    usd_per_hour: float | None
    most_usd_per_hour: float | None
    declared: bool = False
    region: str | None = None
    reference: bool = False
    source: str = ""
    date: str = ""


BOTH_ADD_NODES: Final = "Karpenter and the Cluster Autoscaler would both add nodes for a pod"
"""What happens with a pod that has room on new nodes of pools of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """One node pool. Memory in MiB.

    A CPU pool has no GPUs: `gpus_per_node` and `gpu_memory_mib` are 0, `gpu_model` and `gpu_product` empty.
    `utilisation`: share of its GPUs' time that is expected to be in use; None: not declared.
    """

    name: str
    path: str
    workload: str
    machine_type: str
    architecture: str
    gpu_model: str
    gpu_product: str
    gpu_memory_mib: int
    gpus_per_node: int
    nodes: NodesPlan
    capacity: Mapping[str, Any]
    placement: str
    sharing: SharingPlan
    resources: tuple[ResourceOffer, ...]
    """With DRA: device classes, which have no slash in their names."""
    cpu_millicores: int
    memory_mib: int
    labels: Labels
    taints: tuple[Taint, ...]
    added_taints: tuple[Taint, ...]
    """Taints that the cloud adds: the program does not set them, but its pods tolerate them."""
    node_selector: Labels
    kubelet: Kubelet | None
    driver_version: str | None
    software: NodeSoftware
    cloud: object | None
    """How the cloud creates the nodes; None: the program creates them, or they exist."""
    cloud_nodes: CloudNodes = field(default_factory=CloudNodes, metadata=NOT_IN_JSON)
    """Properties of these nodes that the rest of the plan depends on; they follow from `cloud`."""
    price: NodePrice
    utilisation: float | None
    expectations: Expectations
    node_expectation: NodeExpectation
    daemonsets: tuple[DaemonSet, ...] = ()
    """DaemonSets on a node; what they request is not left for teams (`pools/free.py`)."""
    devices: tuple[DeviceOffer, ...] = ()
    """With DRA: devices that claims can request."""
    startup_taints: tuple[Taint, ...] = ()
    """Taints of new nodes until they pass validation; no pod of a team tolerates them."""
    failed_taints: tuple[Taint, ...] = ()
    """Taints of nodes while a check fails; no pod of a team tolerates them."""
    protect: bool = False
    """Whether the stack file says that the pool must not be deleted."""
    schedule: SchedulePlan | None = None
    """When it has nodes; None: always."""
    autoscaler: AutoscalerPlan | None = None
    """What adds nodes to those that the program creates; None: nothing does."""

    @property
    def autoscaled(self) -> bool:
        """Whether an autoscaler changes the number of nodes by pending pods, as far as the stack file says."""
        return self.autoscaler is not None or self.cloud_nodes.autoscaled

    @property
    def mounts_shared_memory(self) -> bool:
        """Whether the device plugin mounts its MPS daemon's /dev/shm, which a pod's volume there would hide.

        Source: k8s-device-plugin, internal/plugin/mps.go and cmd/mps-control-daemon/mps/daemon.go (ShmDir), issues
        647 and 805; the kubelet appends mounts of volumes to those of devices; read 2026-11-29.
        """
        return self.sharing.mode == "mps"

    @property
    def by_karpenter(self) -> bool:
        """Whether a NodePool of Karpenter creates its nodes, or further nodes of a sandbox."""
        return self.autoscaler is not None or self.cloud_nodes.replaced_by_claim

    @property
    def by_cluster_autoscaler(self) -> bool:
        """Whether the Cluster Autoscaler changes the number of nodes."""
        return self.autoscaled and not self.by_karpenter

    @property
    def keeping_annotations(self) -> Mapping[str, str]:
        """Annotations of pods that end, which keep whatever scales the pool from removing their node.

        An autoscaler moves pods from a node with few requests, and drift of Karpenter replaces nodes. What scales
        the selected nodes of an existing cluster is not known.
        """
        unknown = self.nodes.ownership == "selected"
        found = {KEEP_FROM_KARPENTER: "true"} if self.by_karpenter or unknown else {}
        return {**found, SAFE_TO_EVICT: "false"} if unknown or (self.autoscaled and not found) else found

    @property
    def has_fixed_nodes(self) -> bool:
        """Whether the nodes are those that the program creates or labels, and no others."""
        return self.nodes.ownership in {"created", "labelled"} and self.autoscaler is None

    @property
    def agent_reads_host(self) -> bool:
        """Whether the node agent needs sysfs of the host, whose network interfaces its own does not show."""
        return self.software.gpu_access.privileged and "fabric-mtu" in self.expectations.expect

    @property
    def has_gpus(self) -> bool:
        """Whether its nodes have GPUs; else it is a CPU pool."""
        return self.gpus_per_node > 0

    @property
    def huge_pages_mib(self) -> int:
        """Memory of a node that only pods with huge pages can use."""
        return self.cloud_nodes.huge_pages_mib

    @property
    def price_usd_per_hour(self) -> float | None:
        """Price of one node, USD/h; None: unknown."""
        return self.price.usd_per_hour

    @property
    def average_usd_per_hour(self) -> float | None:
        """Price of one node averaged over the week of its schedule, USD/h; None: unknown."""
        price = self.price.usd_per_hour
        return price if price is None or self.schedule is None else price * self.schedule.share

    @property
    def claimed_with_gpus(self) -> Mapping[str, int]:
        """Devices of a node that pods claim beside GPUs, by device class: NICs, the channel of a ComputeDomain."""
        claimed: dict[str, int] = {}
        if (nics := self.cloud_nodes.nic_devices) is not None:
            claimed[nics.device_class] = nics.per_node
        if self.nvlink_domain is not None:
            claimed[names.NVLINK_CHANNEL_CLASS] = 1
        return claimed

    @property
    def nvlink_domain(self) -> int | None:
        """Nodes of the largest NVLink domain that the pool can be; None: NVLink ends at the node."""
        return self.node_expectation.nvlink_domain

    @property
    def all_taints(self) -> tuple[Taint, ...]:
        """What a pod must tolerate to run on the nodes."""
        return (*self.taints, *self.added_taints)

    @property
    def tolerated_by_daemons(self) -> tuple[Taint, ...]:
        """What the platform's DaemonSets must tolerate: they make a node ready, and run on failing ones.

        Whatever `gate_nodes` is: a node that was held back before a change passes only where they run.
        """
        return (*self.all_taints, *(HOLDING_TAINTS if self.has_gpus else ()))

    @property
    def units_per_node(self) -> dict[str, int]:
        """Units of each extended resource, or device class, on one node."""
        return {offer.name: offer.per_node for offer in self.resources}

    @property
    def units_in_container(self) -> Mapping[str, int]:
        """Most units of each extended resource that device plugins give to one container: one share, no more."""
        return {
            name: SHARES_PER_CONTAINER if self.sharing.shares(name) else units
            for name, units in self.units_per_node.items()
        }

    @property
    def units_desired(self) -> Mapping[str, int]:
        """Units of each extended resource over the desired nodes."""
        return {name: units * self.nodes.desired for name, units in self.units_per_node.items()}

    @property
    def max_units(self) -> Mapping[str, int]:
        """Units of each extended resource over the most nodes that the pool may have."""
        return {name: units * self.nodes.max for name, units in self.units_per_node.items()}


def claimed_with_gpus(pools: Iterable[PoolPlan]) -> Sequence[str]:
    """Return the device classes that pods of the pools claim beside GPUs."""
    return sorted({name for pool in pools for name in pool.claimed_with_gpus})
