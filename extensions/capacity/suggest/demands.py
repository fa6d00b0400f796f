"""Schema of the workloads file of `capacity suggest`: the pods to run, and the machine types to choose from."""

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
from gpu_platform.catalog.models import VendorName


class WorkloadDemand(SpecModel):
    """Identical pods that run at the same time, and the GPUs that they need."""

    name: DnsLabel
    kind: GpuWorkload
    """Kind of the workload: training, inference or development.

    It determines how GPUs may be shared, and the `workload` of the pool.
    """
    count: int = Field(ge=1, le=10_000)
    """Number of pods that run at the same time."""
    trust_domain: DnsLabel = Field(examples=["shop"])
    """Pods of different trust domains never share a GPU, except as MIG instances."""
    gpu_memory: GpuMemory
    """GPU memory that a pod needs on each of its GPUs."""
    compute: float = Field(default=1.0, gt=0, le=1)
    """Share of one whole GPU's compute that a pod uses, from 0 to 1.

    It refers to the GPU model in `measured_on`, or to the chosen model if `measured_on` is not set. A replica
    provides 1/replicas of the compute, and a MIG instance provides compute in proportion to its compute slices.
    """
    measured_on: str | None = None
    """GPU model that `compute` was measured on. The pods run only on this model."""
    objective: Literal["latency", "throughput"] = "throughput"
    """With `latency`, GPUs are not time-sliced, so that pods never wait for each other."""
    gpus: int = Field(default=1, ge=1, le=16)
    """GPUs per pod."""
    nvlink: bool = False
    """Whether NVLink must connect the pod's GPUs. Training on several GPUs always requires it."""
    rdma: bool = False
    """The pod needs the node's interfaces for RDMA between nodes (EFA on AWS, GPUDirect on GCP).

    It must use all GPUs of a machine with these interfaces, because pods with fewer GPUs communicate within their
    node.
    """
    cpu: Cpu = "1"
    memory: Memory = "4Gi"


class ReservedMachines(SpecModel):
    """Machines of a capacity reservation, which is paid for whether it is used or not."""

    reservation: str = Field(min_length=1, examples=["cr-0a1b2c3d4e5f60718", "h100-pool"])
    """On EKS, the id of an On-Demand Capacity Reservation. On GKE, the name of a Compute Engine reservation."""
    machine_type: str
    count: int = Field(ge=1, le=10_000)
    """Number of machines of the reservation that these workloads may use."""
    zone: Zone
    """Zone of the reservation."""


class Demands(SpecModel):
    """Workloads file: the workloads, and the machine types that may be chosen for them."""

    provider: VendorName | None = None
    """Vendor of the machine types (`vendor` in the catalogue). By default, the cheapest vendor is chosen."""
    region: str | None = Field(
        default=None,
        pattern=worded(r"^[a-z]+(-[a-z]+)+-?\d{1,2}$", "a region such as us-east-1, not a zone"),
        examples=["us-east-1"],
    )
    """Region for list prices.

    Machine types without a price in this region are left out. The default is us-east-1 on AWS and us-central1 on
    GCP.
    """
    zone: Zone | None = None
    """Zone of `region` for all pools.

    By default, a pool that must name a zone gets the first zone that is known to offer its machine type. If no
    such zone is known, the pool gets the first zone of the region.
    """
    capacity: Literal["on-demand", "spot"] = "on-demand"
    """How the cloud sells the nodes. List prices are on-demand prices, so they are upper bounds for spot."""
    machine_families: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Machine families to choose from, such as g6 or a2-ultragpu. The default is all families."""
    architecture: Literal["amd64", "arm64"] = "amd64"
    """CPU architecture of the container images."""
    usd_per_hour: dict[str, UsdPerHour] = {}
    """Price of a machine in USD/h by machine type, if it is not the list price (on-premises or with a commitment).
    """
    reservations: Annotated[tuple[ReservedMachines, ...], Field(max_length=100)] = ()
    """Machines that are reserved and already paid for.

    They are used first, and more machines are bought if necessary.
    """
    workloads: Annotated[tuple[WorkloadDemand, ...], Field(min_length=1, max_length=1000)]


@cache
def _adapter() -> TypeAdapter[Demands]:
    return TypeAdapter(Demands)


def read_demands(path: Path) -> Demands:
    """Read a workloads file. Raises BadInput, which lists every problem with its place in the file."""
    return parse_document(read_yaml_file(path), str(path), _adapter())
