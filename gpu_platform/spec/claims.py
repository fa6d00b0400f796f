"""What a device must be like, for Dynamic Resource Allocation: demands of device classes and of teams' claims."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gpu_platform.spec._types import DnsLabel, MigProfileName, Quantity, SpecModel, wrong

_CLASS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
MAX_DEVICES = 32
"""The most devices of one claim: AllocationResultsMaxSize of resource.k8s.io/v1."""


def _class_name(value: str) -> str:
    if len(value) > 63 or not _CLASS_NAME.fullmatch(value):
        raise wrong("a DNS name of at most 63 characters", "for example large-gpu")
    return value


DeviceClassName = Annotated[str, AfterValidator(_class_name)]


class Demand(SpecModel):
    """What a device must be like; all that is said must hold."""

    memory: Quantity | None = None
    """GPU memory of the device, at least: 40Gi."""
    product: str | None = None
    """GPU model, as NVML, feature discovery or common use spell it."""
    profile: MigProfileName | None = None
    """A MIG instance of that profile instead of a whole GPU."""
    selector: str | None = Field(default=None, min_length=1)
    """A CEL expression over `device`, for what the other fields cannot say. Its syntax and names are checked."""


class DeviceClass(Demand):
    """Devices under a name of their own, with a quota of their own."""

    type: Literal["gpu", "mig"] | None = None
    """Whole GPUs or MIG instances; unset: mig with a profile, else gpu."""

    @model_validator(mode="after")
    def _consistent(self) -> DeviceClass:
        if self.profile is not None and self.type == "gpu":
            raise wrong("type mig with a profile: a whole GPU has none", "remove type")
        return self


class Claim(Demand):
    """Devices for a pod, as a ResourceClaimTemplate in the team's namespace."""

    name: DnsLabel
    device_class: DeviceClassName | None = None
    """Unset: mig.nvidia.com with a profile, else gpu.nvidia.com."""
    count: int = Field(default=1, ge=1, le=MAX_DEVICES)
    """Devices of one pod, all on its node."""
