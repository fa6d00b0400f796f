"""Types for node requirements, which are decided before the cloud plans how to create the nodes."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_platform.catalog import Gpu, MachineType
from gpu_platform.planning.dra.section import DeviceOffer
from gpu_platform.planning.nodes.section import KernelSettings, Kubelet, Labels, NodeBootstrap, Taint
from gpu_platform.planning.nodes.software import NodeSoftware
from gpu_platform.planning.sharing.section import ResourceOffer, SharingPlan
from gpu_platform.stack.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPlace:
    """The position of a pool in a compute class. Nodes are added first to the pool with `rank` 0."""

    name: str
    rank: int
    pools: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequirements:
    """The requirements for the nodes of one pool.

    `path` is the pool's path in the stack file. The sharing configuration of `pool` contains no names or GPU
    models. `gpu` is None if the nodes have no GPUs. `kubelet` is None if the nodes keep the image's settings.
    `driver_version` is None if it is not known before a deployment.
    """

    path: str
    pool: Pool
    machine: MachineType
    gpu: Gpu | None
    software: NodeSoftware
    driver_version: str | None
    sharing: SharingPlan
    resources: tuple[ResourceOffer, ...]
    devices: tuple[DeviceOffer, ...]
    kubelet: Kubelet | None
    labels: Labels
    taints: tuple[Taint, ...]
    startup_taints: tuple[Taint, ...] = ()
    """Taints of new nodes. The node agent removes them when the node passes validation."""
    failed_taints: tuple[Taint, ...] = ()
    """Taints that the node agent sets while a check fails."""
    compute_class: ClassPlace | None = None
    kernel: KernelSettings | None = None
    """Kernel settings, or None to keep the image's settings."""
    bootstrap: NodeBootstrap | None = None
    """Scripts and kubelet settings that a company adds to nodes before they join the cluster."""
