"""Stack file fields for Dynamic Resource Allocation: device classes and team claims."""

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
    """Requirements for a device in Dynamic Resource Allocation. A device must meet all requirements."""

    memory: Quantity | None = None
    """Minimum GPU memory of the device, such as 40Gi."""
    product: str | None = None
    """GPU model, as named by NVML or GPU Feature Discovery, or its common name."""
    profile: MigProfileName | None = None
    """MIG profile. If set, the device is a MIG instance of this profile instead of a whole GPU."""
    selector: str | None = Field(default=None, min_length=1)
    """CEL expression over `device` for other requirements. The syntax and the names in it are checked."""


class DeviceClass(DeviceRequirements):
    """DeviceClass for Dynamic Resource Allocation. Pods request devices by the name of the class. Each class has a
    separate quota."""

    type: Literal["gpu", "mig"] | None = None
    """`gpu` selects whole GPUs, `mig` selects MIG instances. The default is `mig` if `profile` is set, else `gpu`.
    """

    @model_validator(mode="after")
    def _consistent(self) -> DeviceClass:
        if self.profile is not None and self.type == "gpu":
            raise wrong("type mig with a profile, because a whole GPU has no profile", "remove type")
        return self


class Claim(DeviceRequirements):
    """Devices that a pod requests, through a ResourceClaimTemplate in the team's namespace."""

    name: DnsLabel
    device_class: DeviceClassName | None = None
    """DeviceClass of the devices. The default is mig.nvidia.com if `profile` is set, else gpu.nvidia.com."""
    count: int = Field(default=1, ge=1, le=MAX_DEVICES)
    """Number of devices per pod. All of them are on the pod's node."""
