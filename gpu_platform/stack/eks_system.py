"""Stack file field `cluster.create.system` of EKS: the nodes without GPUs of a new cluster."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from gpu_platform.stack._types import SpecModel, order_fix, wrong
from gpu_platform.stack.keys import AwsKey

# Series, generation, options, size; the option g is a Graviton CPU. EC2 instance types guide, "Naming
# conventions", read 2026-11-23. Series with accelerators, Macs and high-memory hosts are no system nodes.
_X86_TYPE = re.compile(
    r"[cdhimrtxz]\d+(?P<options>[a-z]*(-[a-z0-9]+)*)\.(?P<size>medium|\d*x?large|metal[a-z0-9-]*)"
)


def _machine_type(value: str) -> str:
    found = _X86_TYPE.fullmatch(value)
    if found is None or "g" in found["options"]:
        raise wrong(
            "an EC2 instance type with x86 CPUs, no accelerator and at least the size medium: the image of system "
            "nodes is for x86",
            "write for example m7i.2xlarge",
        )
    return value


class SystemNodes(SpecModel):
    """Nodes without GPUs of a new EKS cluster, for add-ons, Karpenter, the GPU Operator and other controllers."""

    machine_types: Annotated[tuple[Annotated[str, AfterValidator(_machine_type)], ...], Field(max_length=10)] = ()
    """EC2 instance types in order of preference; EC2 takes the first with capacity. Unset: the smallest of m7i and
    m6i that hold the controllers that the stack installs; Ray heads and ingress controllers need larger ones."""
    min: int = Field(default=2, ge=1, le=100)
    desired: int = Field(default=2, ge=1, le=100)
    """Number of nodes; an edit of the numbers applies it. An autoscaler may change it between `min` and `max`."""
    max: int = Field(default=4, ge=1, le=100)
    disk_gb: int = Field(default=50, ge=20, le=16384)
    kms_key: AwsKey | None = None
    """Customer-managed key of their disks, or an alias of one; unset: the cloud's default key."""
    release: str | None = Field(default=None, pattern=r"^1\.\d+\.\d+-\d{8}$", examples=["1.36.2-20260818"])
    """Release of the AL2023 image; another one rolls the nodes. They get the newest one when they are created
    without `release`, and in each roll that does not change `release`."""

    @model_validator(mode="after")
    def _ordered(self) -> SystemNodes:
        if not self.min <= self.desired <= self.max:
            raise wrong("min <= desired <= max", order_fix(self.min, self.desired, self.max))
        return self
