"""Stack file field `sharing`: how the GPUs of a pool are shared. It is set in a pool, or under a name in the
environment.

Sharing settings may have values per GPU model (`replicas` by model, `layout: all-balanced`). Planning resolves
them for each pool (`planning/sharing/named.py`). The properties `replicas` and `layout` can only be read after
planning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from gpu_platform.stack._types import (
    DnsLabel,
    Duration,
    MigLayoutName,
    MigProfileName,
    SpecModel,
    plain_or_mapping,
    wrong,
)
from gpu_platform.stack.declared import SetsProperties

MAX_TIME_SLICING_REPLICAS = 48


ReplicaCount = Annotated[int, Field(ge=2, le=MAX_TIME_SLICING_REPLICAS)]
ReplicasByGpu = Annotated[dict[str, ReplicaCount], Field(min_length=1)]
Replicas = Annotated[
    Annotated[ReplicaCount, Tag("plain")] | Annotated[ReplicasByGpu, Tag("mapping")],
    Discriminator(plain_or_mapping),
]


class NoSharing(SpecModel):
    """No sharing: pods use whole GPUs."""

    mode: Literal["none"] = "none"


class _Renamed(SpecModel):
    rename: bool = True
    """Advertise shares as `nvidia.com/gpu.shared` instead of `nvidia.com/gpu`, which is the resource of whole
    GPUs.
    """
    fail_requests_greater_than_one: bool = True
    """Refuse pods that request more than one share, because two shares give no more compute than one."""


class _Replicated(_Renamed):
    declared_replicas: Replicas = Field(alias="replicas")
    """Number of replicas of each GPU, or a number per GPU model: `{T4: 4, A100-80GB: 10}`."""

    @property
    def replicas(self) -> int:
        """Replicas of each GPU, after planning has resolved them for the pool's GPU model."""
        assert isinstance(self.declared_replicas, int)  # noqa: S101 - planning has resolved it
        return self.declared_replicas


class TimeSlicing(_Replicated):
    """Time-slicing. A GPU is advertised `replicas` times. The replicas share its memory and take turns."""

    mode: Literal["time-slicing"]


class Mps(_Replicated):
    """CUDA MPS. A Multi-Process Service daemon shares each GPU. A replica receives 1/replicas of the GPU's memory
    and threads.

    The maximum is 48 replicas, which is the client limit of MPS.
    """

    mode: Literal["mps"]


MigLayout = Annotated[dict[MigProfileName, Annotated[int, Field(ge=1, le=7)]], Field(min_length=1)]
DeclaredMigLayout = Annotated[
    Annotated[MigLayoutName, Tag("plain")] | Annotated[MigLayout, Tag("mapping")], Discriminator(plain_or_mapping)
]


class MigDevices(SpecModel):
    """MIG layout in the stack file for some GPUs of a node, selected by index, by model, or both."""

    devices: Annotated[tuple[Annotated[int, Field(ge=0, le=31)], ...], Field(min_length=1)] | None = None
    gpu: str | None = None
    """GPU model, as named by NVML or GPU Feature Discovery, or its common name. The layout of the node's other
    GPUs does not change.
    """
    declared_layout: DeclaredMigLayout = Field(alias="layout")
    """Number of instances of each profile, or `all-balanced` or `all-<profile>`."""

    @model_validator(mode="after")
    def _some(self) -> MigDevices:
        if self.devices is None and self.gpu is None:
            raise wrong("devices, gpu, or both", "add devices: [0, 1], or gpu: H100")
        return self

    @property
    def layout(self) -> Mapping[str, int]:
        """Number of instances of each profile, after planning has resolved it for the pool's GPU model."""
        assert not isinstance(self.declared_layout, str)  # noqa: S101 - planning has resolved it
        return self.declared_layout


class MigRoll(SpecModel):
    """How a new MIG layout is rolled out to running nodes."""

    max_unavailable: int = Field(default=1, ge=1)
    """Maximum number of nodes of the pool that are unavailable at the same time while their layout changes."""
    drain_timeout: Duration = "15m"
    """Maximum time to drain a node. A node that still has pods after this time keeps its layout."""


class Mig(_Renamed, MigRoll):
    """MIG in the stack file. Each GPU is partitioned into hardware-isolated instances."""

    mode: Literal["mig"]
    declared_layout: Annotated[DeclaredMigLayout | None, SetsProperties(gke=("gpu_partition_size",))] = Field(
        default=None, alias="layout"
    )
    """Instances of every GPU. The value is the number of instances of each profile, or `all-balanced`, or
    `all-<profile>` for as many instances as fit on a GPU.
    """
    layouts: Annotated[tuple[MigDevices, ...], Field(min_length=1)] | None = None
    """Different layouts for different GPUs of the node, instead of `layout`."""
    strategy: Literal["mixed", "single"] = "mixed"
    """How the resources of instances are named. `mixed` advertises `nvidia.com/mig-<profile>`. `single` advertises
    `nvidia.com/gpu`, and needs the same profile on all GPUs.
    """
    change: Literal["drain", "replace"] = "drain"
    """How nodes with running GPU pods change to a new layout. With `drain`, `up` drains these nodes one after
    another. With `replace`, the nodes keep their layout until they are replaced.
    """
    declared_replicas: Replicas | None = Field(default=None, alias="replicas")
    """Time-slicing of MIG instances: how many times each instance is advertised, as
    `nvidia.com/mig-<profile>.shared`. The value is a number, or a number per GPU model.
    """

    @model_validator(mode="after")
    def _one_of(self) -> Mig:
        if (self.declared_layout is None) == (self.layouts is None):
            raise wrong("exactly one of layout and layouts", "write layout: {1g.10gb: 7}")
        alone = sorted({"rename", "fail_requests_greater_than_one"} & self.model_fields_set)
        if alone and self.declared_replicas is None:
            raise wrong(
                f"{alone[0]} only with replicas, because without them instances are not shared",
                f"remove {alone[0]}",
            )
        return self

    @property
    def layout(self) -> Mapping[str, int] | None:
        """Number of instances of each profile, after planning has resolved it for the pool's GPU model."""
        assert not isinstance(self.declared_layout, str)  # noqa: S101 - planning has resolved it
        return self.declared_layout

    @property
    def replicas(self) -> int:
        """Number of time-sliced replicas of each instance, after planning has resolved it. It is 1 without
        time-slicing.
        """
        assert self.declared_replicas is None or isinstance(self.declared_replicas, int)  # noqa: S101 - likewise
        return self.declared_replicas or 1


class Dra(SpecModel):
    """Dynamic Resource Allocation instead of a device plugin. Either all pools of a cluster use it, or no pool
    does.
    """

    mode: Literal["dra"]
    partitions: bool = False
    """Also offer MIG instances, which the driver creates when a claim requests one (DynamicMIG, alpha)."""


Sharing = Annotated[NoSharing | TimeSlicing | Mps | Mig | Dra, Field(discriminator="mode")]
SharingOrName = Annotated[
    Annotated[DnsLabel, Tag("plain")] | Annotated[Sharing, Tag("mapping")],
    Discriminator(lambda value: "plain" if isinstance(value, str) else "mapping"),
]
