"""Typed AWS responses, reduced to the fields that the comparisons need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Account and ARN of the credentials in use."""

    account: str
    arn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A pending or running instance. `lifecycle` is empty for On-Demand, or a value such as `capacity-block`."""

    instance_type: str
    lifecycle: str
    vcpus: int
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """Facts about an instance type. `addresses` is the number of IPv4 addresses per network interface."""

    name: str
    vcpus: int
    addresses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """An availability zone, with its name in this account and its id, which is the same in every account."""

    name: str
    zone_id: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReservation:
    """An On-Demand Capacity Reservation (`default`) or a Capacity Block (`capacity-block`)."""

    reservation_id: str
    instance_type: str
    zone: str
    state: str
    kind: str
    total: int
    available: int
    starts: datetime | None
    ends: datetime | None
    placement_group: str
    """Name of the placement group, or empty if the reservation has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A subnet with the number of its free addresses."""

    subnet_id: str
    zone: str
    vpc: str
    free: int
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """An EKS cluster."""

    name: str
    status: str
    version: str
    authentication_mode: str
    vpc: str
    endpoint: str
    certificate_authority: str
    tags: Mapping[str, str]
    security_group: str = ""
    """Id of the cluster security group, which applies to the API server's addresses in the VPC."""
    public_networks: tuple[str, ...] = ()
    """Networks that can reach the public address of the API server. Empty if the server has no public address."""
    auto_mode: bool = False
    ip_family: str = "ipv4"
