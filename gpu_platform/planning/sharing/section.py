"""Types for a pool's sharing plan, which determines how pods request its GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpu_platform.base import names


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOffer:
    """An extended resource that each node of a pool offers, with its units on a node and the number of GPUs that
    they represent.
    """

    name: str
    per_node: int
    gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevicesPlan:
    """A MIG layout, and the indices of the GPUs of a node that have this layout. If `devices` is None, all GPUs
    have the layout.
    """

    devices: tuple[int, ...] | None
    layout: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsShare:
    """Limits for one replica of a GPU that MPS shares: memory in MiB, and threads in percent of the GPU's
    threads.
    """

    memory_mib: int
    threads_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MigRollPlan:
    """Rules for changing the MIG layout of running nodes. If `drains` is set, `up` evicts their pods. Otherwise it
    waits until the pods finish.
    """

    drains: bool
    max_unavailable: int
    drain_timeout_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingPlan:
    """The sharing of a pool's GPUs, and the resources that its nodes offer as a result.

    `name` is the name of the environment's sharing configuration that the pool uses, and `source` is the path of
    this configuration in the stack file. `replicas` is the number of replicas per GPU or MIG instance.
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
    """Rules for changing the MIG layout of nodes, or None if the operator partitions no GPU of the pool."""
    device_plugin_key: str | None
    device_plugin_config: Mapping[str, Any] | None
    """Config of the device plugin. It is None, like its key and `mig_config`, if the device plugin comes from the
    node image or GKE.
    """
    mig_config: str | None
    partitions: bool = False
    """Whether the DRA driver creates MIG instances for claims that request them. Used only with DRA."""

    def shares(self, resource: str) -> bool:
        """Return whether units of a resource are shares of a GPU or MIG instance. GPUs without a layout are not
        shared, even if the pool's MIG instances are shared.
        """
        whole = self.mode == "mig" and self.mig_strategy != "single" and resource == names.GPU_RESOURCE
        return self.replicas > 1 and not whole
