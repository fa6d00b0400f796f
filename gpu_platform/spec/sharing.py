"""`sharing`: how GPUs are offered, written in a pool or once under a name.

A sharing may leave to the GPU model what depends on it (`replicas` by model, `layout: all-balanced`). Planning
resolves that for each pool (`planning/sharing_configs.py`); `replicas` and `layout` are there afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from gpu_platform.spec._types import DnsLabel, Duration, MigLayoutName, MigProfileName, SpecModel, wrong
from gpu_platform.spec.declared import Shows

MAX_TIME_SLICING_REPLICAS = 48
MAX_MPS_CLIENTS = 48


def _kind(value: object) -> str:
    return "mapping" if isinstance(value, Mapping) else "plain"


ReplicaCount = Annotated[int, Field(ge=2, le=MAX_TIME_SLICING_REPLICAS)]
ReplicasByGpu = Annotated[dict[str, ReplicaCount], Field(min_length=1)]
Replicas = Annotated[
    Annotated[ReplicaCount, Tag("plain")] | Annotated[ReplicasByGpu, Tag("mapping")], Discriminator(_kind)
]


class NoSharing(SpecModel):
    """Whole GPUs."""

    mode: Literal["none"] = "none"


class _Renamed(SpecModel):
    rename: bool = True
    """Advertise `nvidia.com/gpu.shared`, so that a share never looks like a whole GPU."""
    fail_requests_greater_than_one: bool = True
    """Refuse a pod that asks for more than one share: two shares give no more compute than one."""


class _Replicated(_Renamed):
    declared_replicas: Replicas = Field(alias="replicas")
    """A number, or one by GPU model: `{T4: 4, A100-80GB: 10}`."""

    @property
    def replicas(self) -> int:
        """Replicas of each GPU, once the pool's GPU model is known."""
        assert isinstance(self.declared_replicas, int)  # noqa: S101 - planning has resolved it
        return self.declared_replicas


class TimeSlicing(_Replicated):
    """Each GPU is offered several times; the replicas share memory and take turns."""

    mode: Literal["time-slicing"]


class Mps(_Replicated):
    """Each GPU is shared by a Multi-Process Service daemon; a replica has 1/replicas of memory and threads.

    At most 48 replicas: the client limit of MPS.
    """

    mode: Literal["mps"]


MigLayout = Annotated[dict[MigProfileName, Annotated[int, Field(ge=1, le=7)]], Field(min_length=1)]
DeclaredMigLayout = Annotated[
    Annotated[MigLayoutName, Tag("plain")] | Annotated[MigLayout, Tag("mapping")], Discriminator(_kind)
]


class MigDevices(SpecModel):
    """A layout for some GPUs of the node: by index, by model, or both."""

    devices: Annotated[tuple[Annotated[int, Field(ge=0, le=31)], ...], Field(min_length=1)] | None = None
    gpu: str | None = None
    """A GPU model, as NVML, feature discovery or common use spell it; other GPUs of the node are left alone."""
    declared_layout: DeclaredMigLayout = Field(alias="layout")
    """Profile to count, or `all-balanced` or `all-<profile>`."""

    @model_validator(mode="after")
    def _some(self) -> MigDevices:
        if self.devices is None and self.gpu is None:
            raise wrong("devices, gpu, or both", "add devices: [0, 1], or gpu: H100")
        return self

    @property
    def layout(self) -> Mapping[str, int]:
        """Profile to count, once the pool's GPU model is known."""
        assert not isinstance(self.declared_layout, str)  # noqa: S101 - planning has resolved it
        return self.declared_layout


class MigRoll(SpecModel):
    """How nodes get a new layout."""

    max_unavailable: int = Field(default=1, ge=1)
    """How many nodes of the pool may be out of service at a time while its layout changes."""
    drain_timeout: Duration = "15m"
    """How long the pods of one node may take to leave; a node that is not empty by then stays as it is."""


class Mig(_Renamed, MigRoll):
    """Each GPU is cut into hardware-isolated instances."""

    mode: Literal["mig"]
    declared_layout: Annotated[DeclaredMigLayout | None, Shows(gke=("gpu_partition_size",))] = Field(
        default=None, alias="layout"
    )
    """Instances on every GPU: profile to count; or `all-balanced`; or `all-<profile>`, as many as fit."""
    layouts: Annotated[tuple[MigDevices, ...], Field(min_length=1)] | None = None
    """Instead of `layout`: other layouts for other GPUs of the node."""
    strategy: Literal["mixed", "single"] = "mixed"
    """`mixed`: `nvidia.com/mig-<profile>`; `single`: `nvidia.com/gpu`, with one profile on all GPUs."""
    change: Literal["drain", "replace"] = "drain"
    """What makes room for a new layout where pods run: `up` drains node by node, or you replace the nodes."""
    declared_replicas: Replicas | None = Field(default=None, alias="replicas")
    """Time-slicing on top: each instance is offered so many times, as `nvidia.com/mig-<profile>.shared`. A number,
    or one by GPU model."""

    @model_validator(mode="after")
    def _one_of(self) -> Mig:
        if (self.declared_layout is None) == (self.layouts is None):
            raise wrong("exactly one of layout and layouts", "write layout: {1g.10gb: 7}")
        alone = sorted({"rename", "fail_requests_greater_than_one"} & self.model_fields_set)
        if alone and self.declared_replicas is None:
            raise wrong(f"{alone[0]} only with replicas: instances are not shared otherwise", f"remove {alone[0]}")
        return self

    @property
    def layout(self) -> Mapping[str, int] | None:
        """Profile to count, once the pool's GPU model is known."""
        assert not isinstance(self.declared_layout, str)  # noqa: S101 - planning has resolved it
        return self.declared_layout

    @property
    def replicas(self) -> int:
        """Time-sliced replicas of each instance, once the pool's GPU model is known; 1 where it is not shared."""
        assert self.declared_replicas is None or isinstance(self.declared_replicas, int)  # noqa: S101 - likewise
        return self.declared_replicas or 1


class Dra(SpecModel):
    """GPUs are allocated by Dynamic Resource Allocation instead of a device plugin, on all pools or on none."""

    mode: Literal["dra"]
    partitions: bool = False
    """Offer MIG instances as well, cut when a claim asks for one: the driver's DynamicMIG, which is alpha."""


Sharing = Annotated[NoSharing | TimeSlicing | Mps | Mig | Dra, Field(discriminator="mode")]
SharingOrName = Annotated[
    Annotated[DnsLabel, Tag("plain")] | Annotated[Sharing, Tag("mapping")],
    Discriminator(lambda value: "plain" if isinstance(value, str) else "mapping"),
]
