"""Types of the requirements on nodes, which are decided before the cloud plans their creation."""

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
    """The place of a pool in a compute class. `rank`: 0 for the pool that gets nodes first."""

    name: str
    rank: int
    pools: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequirements:
    """Nodes of one pool. `path`: of the pool in the file; `pool`: with its sharing made concrete.

    `gpu` None: the nodes have no GPUs.

    `kubelet` None: the image's own settings; `driver_version` None: not known before a deploy.
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
    """Taints of new nodes, which the node agent removes when a node passes validation."""
    failed_taints: tuple[Taint, ...] = ()
    """Taints that the node agent sets while a check fails."""
    compute_class: ClassPlace | None = None
    kernel: KernelSettings | None = None
    """None: the image's own settings."""
    bootstrap: NodeBootstrap | None = None
    """What a company adds before the nodes join."""
