"""Stack file fields for Dynamic Resource Allocation: device classes, and the claims of teams."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gpu_platform.stack._types import DnsLabel, MigProfileName, Quantity, SpecModel, wrong

_CLASS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
MAX_DEVICES = 32
"""Maximum number of devices per claim: AllocationResultsMaxSize of resource.k8s.io/v1."""


def _class_name(value: str) -> str:
    if len(value) > 63 or not _CLASS_NAME.fullmatch(value):
        raise wrong("a DNS name of at most 63 characters", "for example large-gpu")
    return value


DeviceClassName = Annotated[str, AfterValidator(_class_name)]


class DeviceRequirements(SpecModel):
    """Requirements for a device of Dynamic Resource Allocation; a device must meet all of them."""

    memory: Quantity | None = None
    """Minimum GPU memory of the device: 40Gi."""
    product: str | None = None
    """GPU model in the spelling of NVML, feature discovery or common use."""
    profile: MigProfileName | None = None
    """MIG profile: the device is a MIG instance of this profile instead of a whole GPU."""
    selector: str | None = Field(default=None, min_length=1)
    """CEL expression over `device` for other requirements. Its syntax and names are checked."""


class DeviceClass(DeviceRequirements):
    """DeviceClass of Dynamic Resource Allocation: devices with a common name and a quota of their own."""

    type: Literal["gpu", "mig"] | None = None
    """`gpu`: whole GPUs; `mig`: MIG instances. Unset: mig with a profile, else gpu."""

    @model_validator(mode="after")
    def _consistent(self) -> DeviceClass:
        if self.profile is not None and self.type == "gpu":
            raise wrong("type mig with a profile: a whole GPU has none", "remove type")
        return self


class Claim(DeviceRequirements):
    """Devices of a pod, as a ResourceClaimTemplate in the team's namespace."""

    name: DnsLabel
    device_class: DeviceClassName | None = None
    """Unset: mig.nvidia.com with a profile, else gpu.nvidia.com."""
    count: int = Field(default=1, ge=1, le=MAX_DEVICES)
    """Number of devices per pod, all on its node."""
