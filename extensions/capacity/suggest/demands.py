"""Workloads file of `gpu-platform capacity suggest`: the pods to run, and the machine types to choose from."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from gpu_platform.api.documents import (
    Cpu,
    DnsLabel,
    GpuMemory,
    GpuWorkload,
    Memory,
    SpecModel,
    UsdPerHour,
    Zone,
    parse_document,
    read_yaml_file,
    worded,
)


class WorkloadDemand(SpecModel):
    """Identical pods that run at the same time, and the GPUs that they need."""

    name: DnsLabel
    kind: GpuWorkload
    """training, inference or development: determines how GPUs may be shared, and the pool's workload."""
    count: int = Field(ge=1, le=10_000)
    """Number of pods that run at the same time."""
    trust_domain: DnsLabel = Field(examples=["shop"])
    """Pods of different trust domains never share a GPU, except as MIG instances."""
    gpu_memory: GpuMemory
    """GPU memory that a pod needs on each of its GPUs."""
    compute: float = Field(default=1.0, gt=0, le=1)
    """Share of one whole GPU's compute that a pod uses, 0 to 1: of the model in `measured_on`, else of the model
    that is chosen. A replica provides 1/replicas, a MIG instance its part of the compute slices."""
    measured_on: str | None = None
    """GPU model on which `compute` was measured; the pods then run only on this model."""
    objective: Literal["latency", "throughput"] = "throughput"
    """latency: no time-slicing, so that pods never wait for each other."""
    gpus: int = Field(default=1, ge=1, le=16)
    """GPUs per pod."""
    nvlink: bool = False
    """The pod's GPUs must be connected by NVLink; always required for training on several GPUs."""
    rdma: bool = False
    """The pod needs the node's interfaces for RDMA between nodes (EFA on AWS, GPUDirect on GCP): it gets machines
    that have them, whole, since pods of fewer GPUs than a node has communicate within their node."""
    cpu: Cpu = "1"
    memory: Memory = "4Gi"


class ReservedMachines(SpecModel):
    """Machines of a capacity reservation, which are paid for whether they are used or not."""

    reservation: str = Field(min_length=1, examples=["cr-0a1b2c3d4e5f60718", "h100-pool"])
    """EKS: the id of an On-Demand Capacity Reservation; GKE: the name of a Compute Engine reservation."""
    machine_type: str
    count: int = Field(ge=1, le=10_000)
    """Machines of the reservation that these workloads may use."""
    zone: Zone
    """Zone of the reservation."""


class Demands(SpecModel):
    """Workloads file: the workloads, and the machine types that may be chosen for them."""

    provider: Literal["aws", "gcp", "on-prem"] | None = None
    """Vendor of the machine types (`vendor` in the catalogue); unset: the cheapest one."""
    region: str | None = Field(
        default=None,
        pattern=worded(r"^[a-z]+(-[a-z]+)+-?\d{1,2}$", "a region such as us-east-1, not a zone"),
        examples=["us-east-1"],
    )
    """Region whose list prices are compared; machine types without a price there are left out. Unset: us-east-1
    (AWS) and us-central1 (GCP)."""
    zone: Zone | None = None
    """Zone of `region` for all pools. Unset: pools that must name a zone get the first that is known to offer
    their machine type, else the first of the region."""
    capacity: Literal["on-demand", "spot"] = "on-demand"
    """How the cloud sells the nodes. List prices are those on demand, so upper bounds for spot."""
    machine_families: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Machine families to choose from, such as g6 or a2-ultragpu; unset: all."""
    architecture: Literal["amd64", "arm64"] = "amd64"
    """CPU architecture of the container images."""
    usd_per_hour: dict[str, UsdPerHour] = {}
    """Price of a machine in USD/h by machine type, if it is not the list price: on-premises, a commitment."""
    reservations: Annotated[tuple[ReservedMachines, ...], Field(max_length=100)] = ()
    """Machines that are reserved and paid for: they are used first, and what they do not hold is bought."""
    workloads: Annotated[tuple[WorkloadDemand, ...], Field(min_length=1, max_length=1000)]


@cache
def _adapter() -> TypeAdapter[Demands]:
    return TypeAdapter(Demands)


def read_demands(path: Path) -> Demands:
    """Read a workloads file; raises BadInput with every problem and its place in the file."""
    return parse_document(read_yaml_file(path), str(path), _adapter())
