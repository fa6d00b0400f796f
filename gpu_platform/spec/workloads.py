"""The file that `gpu-platform capacity suggest` reads: what is to run, and where it may."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from gpu_platform.spec._types import DnsLabel, GpuMemory, Quantity, SpecModel, UsdPerHour
from gpu_platform.spec.load import parse_document, read_yaml_file
from gpu_platform.spec.pool import Workload


class Demand(SpecModel):
    """Pods that are alike, all of them at once."""

    name: DnsLabel
    kind: Workload
    """training, inference or development: chooses how GPUs may be shared, and the pool's workload."""
    count: int = Field(ge=1, le=10_000)
    """Pods that run at the same time."""
    trust_domain: DnsLabel
    """Pods of different trust domains never share a GPU, unless as MIG instances."""
    gpu_memory: GpuMemory
    """GPU memory that a pod needs on each GPU that it holds."""
    compute: float = Field(default=1.0, gt=0, le=1)
    """Share of one whole GPU's compute that a pod keeps busy, 0 to 1: of the model in `measured_on`, else of
    whatever model is chosen. A replica gives 1/replicas, a MIG instance its part of the compute slices."""
    measured_on: str | None = None
    """The GPU model on which `compute` was measured; the pods then run on that model alone."""
    objective: Literal["latency", "throughput"] = "throughput"
    """latency: pods never wait for each other's time slices."""
    gpus: int = Field(default=1, ge=1, le=16)
    """GPUs of one pod."""
    nvlink: bool = False
    """The pod's GPUs must have NVLink; training on several GPUs always has."""
    cpu: Quantity = "1"
    memory: Quantity = "4Gi"


class Demands(SpecModel):
    """What is to run, and what may be chosen for it."""

    provider: Literal["aws", "gcp", "on-prem"] | None = None
    """Unset: the cheapest one."""
    region: str | None = Field(default=None, pattern=r"^[a-z]+(-[a-z]+)+-?\d{1,2}$", examples=["us-east-1"])
    """Only said back: prices are the list's, of one region each."""
    machine_families: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Families that may be chosen, such as g6 or a2-ultragpu; unset: all."""
    architecture: Literal["amd64", "arm64"] = "amd64"
    """What the container images are built for."""
    usd_per_hour: dict[str, UsdPerHour] = {}
    """What a machine costs you, by machine type, where that is not the list price: on-premises, a commitment."""
    workloads: Annotated[tuple[Demand, ...], Field(min_length=1)]


@cache
def _adapter() -> TypeAdapter[Demands]:
    return TypeAdapter(Demands)


def read_demands(path: Path) -> Demands:
    """Read a workloads file; raises BadInput with every problem, its places as the file has them."""
    return parse_document(read_yaml_file(path), str(path), _adapter())
