"""Types for the devices that pods claim through Dynamic Resource Allocation (DRA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOffer:
    """A kind of device that the DRA driver publishes for each node of a pool. Memory is in MiB.

    `per_node` is the maximum number that can be allocated at once. A GPU with allocated MIG instances cannot be
    allocated as a whole GPU at the same time.
    """

    type: Literal["gpu", "mig"]
    product: str
    profile: str | None
    memory_mib: int
    per_node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClassPlan:
    """A DeviceClass. A device must match every selector."""

    name: str
    selectors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlan:
    """A ResourceClaimTemplate with one request.

    A device must match every selector here and in the device class.
    """

    name: str
    device_class: str
    count: int
    selectors: tuple[str, ...]
