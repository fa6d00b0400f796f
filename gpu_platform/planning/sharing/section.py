"""Types of the plan of a pool's sharing: how pods request its GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpu_platform.base import names


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOffer:
    """One extended resource that each node of a pool offers: units on a node, and the GPUs of these units."""

    name: str
    per_node: int
    gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevicesPlan:
    """The instances on some GPUs of a node. `devices` None: on all."""

    devices: tuple[int, ...] | None
    layout: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsShare:
    """Limits of a replica of a GPU shared by MPS: memory in MiB, threads in percent of the GPU's."""

    memory_mib: int
    threads_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MigRollPlan:
    """How live nodes get another MIG layout. `drains`: `up` evicts their pods; else it waits for the pods."""

    drains: bool
    max_unavailable: int
    drain_timeout_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingPlan:
    """How a pool's GPUs are offered.

    `name`: of the environment's sharing that the pool uses; `source`: its place in the stack file.
    `replicas`: of each GPU, or of each MIG instance.
    """

    mode: str
    name: str | None
    source: str
    replicas: int
    renamed: bool
    mps: MpsShare | None
    mig_strategy: Literal["none", "single", "mixed"]
    mig_layouts: tuple[MigDevicesPlan, ...]
    mig_change: str | None
    mig_roll: MigRollPlan | None
    """None where the operator partitions no GPU of the pool."""
    device_plugin_key: str | None
    device_plugin_config: Mapping[str, Any] | None
    """None, and with it key and mig_config, where the node image or GKE runs the device plugin."""
    mig_config: str | None
    partitions: bool = False
    """With DRA: the driver creates MIG instances for claims that request them."""

    def shares(self, resource: str) -> bool:
        """Return whether units of a resource are shares. Beside MIG instances, GPUs without a layout are whole."""
        whole = self.mode == "mig" and self.mig_strategy != "single" and resource == names.GPU_RESOURCE
        return self.replicas > 1 and not whole
