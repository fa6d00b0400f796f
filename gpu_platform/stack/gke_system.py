"""Stack file field `cluster.create.system` for GKE: a new cluster's nodes without GPUs."""

from __future__ import annotations

from pydantic import Field, model_validator

from gpu_platform.stack._types import SpecModel, order_fix, wrong
from gpu_platform.stack.keys import GoogleKey


class GkeSystemNodes(SpecModel):
    """Nodes without GPUs in a new GKE cluster, for GKE's own pods, the GPU Operator and other controllers."""

    machine_type: str | None = Field(default=None, examples=["e2-standard-8"])
    """Compute Engine machine type. The default is the smallest e2-standard type with at least 4 vCPUs that can
    hold the controllers.
    """
    min: int = Field(default=3, ge=1, le=100)
    max: int = Field(default=3, ge=1, le=100)
    """Maximum number of nodes in all zones together, at least 3. GKE's autoscaler adds and deletes nodes between
    `min` and `max`. If both are the same multiple of 3, the number of nodes is fixed. Topology-aware queues
    require a fixed number.
    """
    disk_gb: int = Field(default=100, ge=20, le=16384)
    kms_key: GoogleKey | None = None
    """Customer-managed key of the nodes' disks. By default, the cloud's default key is used."""

    @model_validator(mode="after")
    def _ordered(self) -> GkeSystemNodes:
        if self.min > self.max:
            raise wrong("min <= max", order_fix(self.min, self.max, None))
        return self
