"""`teams[]`: a team's namespace, quota, priority, members and the workloads it wants to see running."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_platform.spec._types import DnsLabel, GpuMemory, Member, MigProfileName, Quantity, SpecModel
from gpu_platform.spec.claims import Claim, DeviceClassName


class Quota(SpecModel):
    """What a team may hold at once. GPUs that are not named are not granted."""

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
    """A Deployment that the team wants to see running, placed as its pool demands."""

    name: DnsLabel
    pool: DnsLabel
    replicas: int = Field(default=1, ge=0, le=1000)
    gpus: int = Field(default=1, ge=1, le=16)
    """Whole GPUs of one pod; on a shared or MIG pool a pod takes exactly one share or instance."""
    profile: MigProfileName | None = None
    """Which MIG profile, where the pool offers several."""
    claim: DnsLabel | None = None
    """On a pool with DRA: which of the team's `claims` each pod has; the claim says how many devices."""
    gpu_memory: GpuMemory | None = None
    """GPU memory that a pod needs on each GPU, share or instance that it holds; held against what there is."""
    cpu: Quantity = "1"
    memory: Quantity = "4Gi"
    image: str | None = None
    """Container image, pinned; unset: the pause image, which holds the GPU and computes nothing."""
    command: tuple[str, ...] = ()


class Team(SpecModel):
    """One team's share of the platform."""

    name: DnsLabel
    """Also the name of its namespace."""
    quota: Quota
    priority: DnsLabel
    """The highest priority class that the team may use, and the default of its workloads."""
    members: Annotated[tuple[Member, ...], Field(min_length=1)]
    claims: tuple[Claim, ...] = ()
    """With DRA: what pods of the team may claim, as ResourceClaimTemplates."""
    workloads: tuple[Workload, ...] = ()
