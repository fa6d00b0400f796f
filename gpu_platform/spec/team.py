"""Stack file field `teams[]`: namespace, quota, priority, members and workloads of each team."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_platform.spec._types import DnsLabel, GpuMemory, Member, MigProfileName, Quantity, SpecModel
from gpu_platform.spec.claims import Claim, DeviceClassName


class Quota(SpecModel):
    """Resource quota of a team. A GPU resource without an entry has a quota of 0."""

    gpus: int = Field(default=0, ge=0)
    """Whole GPUs: `nvidia.com/gpu`."""
    shared: int = Field(default=0, ge=0)
    """Shares of time-sliced or MPS GPUs: `nvidia.com/gpu.shared`."""
    mig: dict[MigProfileName, Annotated[int, Field(ge=0)]] = {}
    """MIG instances by profile: `nvidia.com/mig-<profile>`."""
    mig_shared: dict[MigProfileName, Annotated[int, Field(ge=0)]] = {}
    """Shares of time-sliced MIG instances by profile: `nvidia.com/mig-<profile>.shared`."""
    devices: dict[DeviceClassName, Annotated[int, Field(ge=0)]] = {}
    """With DRA: devices by device class: gpu.nvidia.com, mig.nvidia.com, or one of `device_classes`."""
    cpu: Quantity | None = None
    memory: Quantity | None = None


class Workload(SpecModel):
    """Deployment of a team in the stack file, with the node selector and tolerations of its pool."""

    name: DnsLabel
    pool: DnsLabel
    replicas: int = Field(default=1, ge=0, le=1000)
    gpus: int = Field(default=1, ge=0, le=16)
    """Whole GPUs per pod; on a shared or MIG pool a pod gets exactly one share or instance. 0 on a CPU pool, and
    only there."""
    profile: MigProfileName | None = None
    """MIG profile, if the pool offers several."""
    claim: DnsLabel | None = None
    """On a pool with DRA: name of the claim in `claims` that each pod gets; the claim has the number of
    devices."""
    gpu_memory: GpuMemory | None = None
    """GPU memory that a pod needs on each of its GPUs, shares or instances; checked against their memory."""
    cpu: Quantity = "1"
    memory: Quantity = "4Gi"
    image: str | None = None
    """Container image, pinned; unset: the pause image, which allocates the GPU and computes nothing."""
    command: Annotated[tuple[str, ...], Field(max_length=200)] = ()


class Team(SpecModel):
    """Team in the stack file: its namespace, quota, priority, members and workloads."""

    name: DnsLabel
    """Name of the team and of its namespace."""
    quota: Quota
    priority: DnsLabel
    """Highest priority class that the team may use, and the default of its workloads."""
    members: Annotated[tuple[Member, ...], Field(min_length=1, max_length=1000)]
    claims: Annotated[tuple[Claim, ...], Field(max_length=200)] = ()
    """With DRA: ResourceClaimTemplates in the team's namespace."""
    workloads: Annotated[tuple[Workload, ...], Field(max_length=200)] = ()
