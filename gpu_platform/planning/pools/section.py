"""Types for node pool plans: the nodes, their labels and taints, and their resources."""

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

GKE's autoscaler is assumed to have the same limit. Source: Cluster Autoscaler FAQ, default of
expendable-pods-priority-cutoff; read 2026-11-25.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesPlan:
    """The nodes of a pool, and their number.

    `ownership` is `created` for nodes that this program creates, and `labelled` for nodes that it labels by name.
    It is `selected` for nodes that a selector selects, and `cloud` for nodes that a cloud creates. `vary` means
    that an autoscaler changes the number of nodes, so that even desired nodes may be missing.
    """

    ownership: Literal["created", "labelled", "selected", "cloud"]
    min: int
    desired: int
    max: int
    vary: bool
    names: tuple[str, ...]

    @property
    def least(self) -> int:
        """The minimum number of nodes: `min` if an autoscaler changes the number, otherwise `desired`."""
        return self.min if self.vary else self.desired


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrice:
    """The price of one node in USD/h. None means unknown, never zero.

    `declared` means that the price is `usd_per_hour` in the stack file. Otherwise it is the on-demand list price
    in `region`, from `source` as of `date`. `region` is None if there are no list prices. `reference` means that
    the stack file names no cloud region, so `region` is the vendor's reference region. `most_usd_per_hour` is the
    price of the most expensive machine type that a node may have.
    """

    usd_per_hour: float | None
    most_usd_per_hour: float | None
    declared: bool = False
    region: str | None = None
    reference: bool = False
    source: str = ""
    date: str = ""


BOTH_ADD_NODES: Final = "Karpenter and the Cluster Autoscaler would both add nodes for a pod"
"""Warning for a pod that fits on new nodes of pools with different autoscalers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """A node pool. Memory is in MiB.

    In a CPU pool, `gpus_per_node` and `gpu_memory_mib` are 0, and `gpu_model` and `gpu_product` are empty.
    `utilisation` is the expected share of time in which its GPUs are used, or None if it is not declared.
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
    """Resources on each node. With DRA, these are device classes, whose names have no slash."""
    cpu_millicores: int
    memory_mib: int
    labels: Labels
    taints: tuple[Taint, ...]
    added_taints: tuple[Taint, ...]
    """Taints that the cloud adds. The program does not set them, but its pods tolerate them."""
    node_selector: Labels
    kubelet: Kubelet | None
    driver_version: str | None
    software: NodeSoftware
    cloud: object | None
    """How the cloud creates the nodes. None if the program creates them or they already exist."""
    cloud_nodes: CloudNodes = field(default_factory=CloudNodes, metadata=NOT_IN_JSON)
    """Properties of nodes that the cloud creates, for use in other plans. They follow from `cloud`."""
    price: NodePrice
    utilisation: float | None
    expectations: Expectations
    node_expectation: NodeExpectation
    daemonsets: tuple[DaemonSet, ...] = ()
    """DaemonSets on a node. The resources that they request are not available to teams (`pools/free.py`)."""
    devices: tuple[DeviceOffer, ...] = ()
    """Devices that pods can request through claims. Used only with DRA."""
    startup_taints: tuple[Taint, ...] = ()
    """Taints of new nodes until they pass validation. No team pod tolerates them."""
    failed_taints: tuple[Taint, ...] = ()
    """Taints of nodes while a check fails. No team pod tolerates them."""
    protect: bool = False
    """Whether the stack file protects the pool from deletion."""
    schedule: SchedulePlan | None = None
    """The times at which the pool has nodes. None means always."""
    autoscaler: AutoscalerPlan | None = None
    """The autoscaler that adds nodes to a pool whose first nodes the program creates, or None."""

    @property
    def autoscaled(self) -> bool:
        """Whether an autoscaler changes the number of nodes for pending pods, according to the stack file."""
        return self.autoscaler is not None or self.cloud_nodes.autoscaled

    @property
    def has_rdma(self) -> bool:
        """Whether the program gives the nodes NICs for RDMA, so that pods can use RDMA between nodes.

        On an existing cluster, the owner sets up RDMA, and the program's pods do not use it.
        """
        nics = self.cloud_nodes.fabric_nics
        return nics is not None and nics.kind in {"efa", "mlx5", "infiniband"}

    @property
    def mounts_shared_memory(self) -> bool:
        """Whether the device plugin mounts the /dev/shm of its MPS daemon in pods. A volume of the pod at this
        path would hide this mount.

        Source: k8s-device-plugin, internal/plugin/mps.go and cmd/mps-control-daemon/mps/daemon.go (ShmDir), issues
        647 and 805; the kubelet appends volume mounts to device mounts; read 2026-11-29.
        """
        return self.sharing.mode == "mps"

    @property
    def by_karpenter(self) -> bool:
        """Whether a Karpenter NodePool creates the nodes or, in a sandbox, additional nodes."""
        return self.autoscaler is not None or self.cloud_nodes.replaced_by_claim

    @property
    def by_cluster_autoscaler(self) -> bool:
        """Whether the Cluster Autoscaler changes the number of nodes."""
        return self.autoscaled and not self.by_karpenter

    @property
    def keeping_annotations(self) -> Mapping[str, str]:
        """Annotations that keep autoscalers from removing the node of a pod that runs to completion.

        The Cluster Autoscaler moves pods from nodes with few requests, and Karpenter replaces nodes on drift. If a
        selector selects nodes of an existing cluster, it is not known which autoscaler removes them.
        """
        unknown = self.nodes.ownership == "selected"
        found = {KEEP_FROM_KARPENTER: "true"} if self.by_karpenter or unknown else {}
        return {**found, SAFE_TO_EVICT: "false"} if unknown or (self.autoscaled and not found) else found

    @property
    def has_fixed_nodes(self) -> bool:
        """Whether the pool has only nodes that the program creates or labels."""
        return self.nodes.ownership in {"created", "labelled"} and self.autoscaler is None

    @property
    def agent_reads_host(self) -> bool:
        """Whether the node agent needs the host's sysfs, because its container's sysfs does not contain the host's
        NICs.
        """
        return self.software.gpu_access.privileged and "fabric-mtu" in self.expectations.expect

    @property
    def has_gpus(self) -> bool:
        """Whether the nodes have GPUs. A pool without GPUs is a CPU pool."""
        return self.gpus_per_node > 0

    @property
    def huge_pages_mib(self) -> int:
        """A node's memory in MiB that is reserved for pods with huge pages."""
        return self.cloud_nodes.huge_pages_mib

    @property
    def price_usd_per_hour(self) -> float | None:
        """The price of one node in USD/h, or None if unknown."""
        return self.price.usd_per_hour

    @property
    def average_usd_per_hour(self) -> float | None:
        """The price of one node in USD/h, averaged over the week of its schedule, or None if unknown."""
        price = self.price.usd_per_hour
        return price if price is None or self.schedule is None else price * self.schedule.share

    @property
    def claimed_with_gpus(self) -> Mapping[str, int]:
        """Devices of a node that pods claim in addition to GPUs, by device class. These are NICs, and the channel
        of a ComputeDomain.
        """
        claimed: dict[str, int] = {}
        if (nics := self.cloud_nodes.nic_devices) is not None:
            claimed[nics.device_class] = nics.per_node
        if self.nvlink_domain is not None:
            claimed[names.NVLINK_CHANNEL_CLASS] = 1
        return claimed

    @property
    def nvlink_domain(self) -> int | None:
        """Maximum number of nodes in the pool's NVLink domain, or None if NVLink does not connect nodes."""
        return self.node_expectation.nvlink_domain

    @property
    def all_taints(self) -> tuple[Taint, ...]:
        """All taints that a pod must tolerate to run on the nodes."""
        return (*self.taints, *self.added_taints)

    @property
    def tolerated_by_daemons(self) -> tuple[Taint, ...]:
        """All taints that the platform's DaemonSets must tolerate, because these DaemonSets make nodes ready and
        run on failing nodes. The result does not depend on `gate_nodes`, because nodes that were tainted under an
        earlier setting pass validation only if these DaemonSets run on them.
        """
        return (*self.all_taints, *(HOLDING_TAINTS if self.has_gpus else ()))

    @property
    def units_per_node(self) -> dict[str, int]:
        """Units of each extended resource, or device class, on one node."""
        return {offer.name: offer.per_node for offer in self.resources}

    @property
    def units_in_container(self) -> Mapping[str, int]:
        """Maximum units of each extended resource that a device plugin gives to one container. For shares, the
        maximum is one.
        """
        return {
            name: SHARES_PER_CONTAINER if self.sharing.shares(name) else units
            for name, units in self.units_per_node.items()
        }

    @property
    def units_desired(self) -> Mapping[str, int]:
        """Units of each extended resource on all desired nodes together."""
        return {name: units * self.nodes.desired for name, units in self.units_per_node.items()}

    @property
    def max_units(self) -> Mapping[str, int]:
        """Units of each extended resource on all nodes together if the pool has its maximum size."""
        return {name: units * self.nodes.max for name, units in self.units_per_node.items()}


def claimed_with_gpus(pools: Iterable[PoolPlan]) -> Sequence[str]:
    """Return the device classes that the pools' pods claim in addition to GPUs."""
    return sorted({name for pool in pools for name in pool.claimed_with_gpus})
