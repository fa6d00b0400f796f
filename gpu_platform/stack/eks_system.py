"""Stack file field `cluster.create.system` for EKS: a new cluster's nodes without GPUs."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from gpu_platform.stack._types import SpecModel, order_fix, wrong
from gpu_platform.stack.keys import AwsKey

# Type names consist of series, generation, options and size. The option g stands for a Graviton CPU.
# Series with accelerators, Macs and high-memory hosts are excluded.
# Source: EC2 instance types guide, "Naming conventions"; read 2026-11-23.
_X86_TYPE = re.compile(
    r"[cdhimrtxz]\d+(?P<options>[a-z]*(-[a-z0-9]+)*)\.(?P<size>medium|\d*x?large|metal[a-z0-9-]*)"
)


def _machine_type(value: str) -> str:
    found = _X86_TYPE.fullmatch(value)
    if found is None or "g" in found["options"]:
        raise wrong(
            "an EC2 instance type with x86 CPUs, without accelerators and of size medium or larger, because the "
            "image of system nodes is for x86",
            "for example, write m7i.2xlarge",
        )
    return value


class SystemNodes(SpecModel):
    """Nodes without GPUs in a new EKS cluster, for add-ons, Karpenter, the GPU Operator and other controllers."""

    machine_types: Annotated[tuple[Annotated[str, AfterValidator(_machine_type)], ...], Field(max_length=10)] = ()
    """EC2 instance types in order of preference. EC2 uses the first type with capacity. The default is the
    smallest m7i and m6i types that can hold the controllers that the stack installs. Ray heads and ingress
    controllers need larger types.
    """
    min: int = Field(default=2, ge=1, le=100)
    desired: int = Field(default=2, ge=1, le=100)
    """Number of nodes. An autoscaler may change it between `min` and `max`. `up` sets it again only when `min`,
    `desired` or `max` changes.
    """
    max: int = Field(default=4, ge=1, le=100)
    disk_gb: int = Field(default=50, ge=20, le=16384)
    kms_key: AwsKey | None = None
    """Customer-managed key of the nodes' disks, or an alias of such a key. By default, the cloud's default key is
    used.
    """
    release: str | None = Field(default=None, pattern=r"^1\.\d+\.\d+-\d{8}$", examples=["1.36.2-20260818"])
    """Release of the AL2023 image. Changing it rolls the nodes. If `release` is unset, nodes have the newest
    release when they are created. A rolling update for another reason also moves them to the newest release.
    """

    @model_validator(mode="after")
    def _ordered(self) -> SystemNodes:
        if not self.min <= self.desired <= self.max:
            raise wrong("min <= desired <= max", order_fix(self.min, self.desired, self.max))
        return self
