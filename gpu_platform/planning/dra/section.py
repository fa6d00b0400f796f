"""The plan of devices that pods claim with Dynamic Resource Allocation (DRA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOffer:
    """One kind of device that the DRA driver publishes for each node of a pool. Memory in MiB.

    `per_node`: the most of them that can be held at once; a GPU that is cut is no whole one at that time.
    """

    type: Literal["gpu", "mig"]
    product: str
    profile: str | None
    memory_mib: int
    per_node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClassPlan:
    """A DeviceClass: every selector must hold."""

    name: str
    selectors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlan:
    """A ResourceClaimTemplate with one request: every selector must hold, beside those of the class."""

    name: str
    device_class: str
    count: int
    selectors: tuple[str, ...]
