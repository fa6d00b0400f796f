"""Stack file field `cluster.create.system` of GKE: the nodes without GPUs of a new cluster."""

from __future__ import annotations

from pydantic import Field, model_validator

from gpu_platform.stack._types import SpecModel, order_fix, wrong
from gpu_platform.stack.keys import GoogleKey


class GkeSystemNodes(SpecModel):
    """Nodes without GPUs of a new GKE cluster, for GKE's own pods, the GPU Operator and other controllers."""

    machine_type: str | None = Field(default=None, examples=["e2-standard-8"])
    """Compute Engine machine type. Unset: the smallest e2-standard from 4 vCPUs on that holds controllers."""
    min: int = Field(default=3, ge=1, le=100)
    max: int = Field(default=3, ge=1, le=100)
    """Nodes over all zones, 3 or more; GKE's autoscaler adds and deletes them between `min` and `max`. The same
    multiple of 3 in both is a fixed number, which topology-aware queues need."""
    disk_gb: int = Field(default=100, ge=20, le=16384)
    kms_key: GoogleKey | None = None
    """Customer-managed key of their disks; unset: the cloud's default key."""

    @model_validator(mode="after")
    def _ordered(self) -> GkeSystemNodes:
        if self.min > self.max:
            raise wrong("min <= max", order_fix(self.min, self.max, None))
        return self
