"""Types for the interfaces, disks and user data of a launch template, using names of the EC2 API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkInterface:
    """One network interface of a launch template."""

    network_card_index: int
    device_index: int
    interface_type: Literal["interface", "efa", "efa-only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDevice:
    """One encrypted EBS volume of a launch template. The size is in GiB."""

    device_name: str
    size_gib: int
    volume_type: str
    iops: int | None
    throughput_mibps: int | None
    kms_key: str | None
    snapshot: str | None = None
    """Snapshot that the volume is created from. None for an empty volume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserData:
    """Settings of a node at its first boot. `user_data.write_user_data` converts them to text.

    `needs_cluster_access` is true for a custom AMI. EKS does not add the cluster's access data to the user data of
    such nodes, so the program adds this data.
    """

    format: Literal["nodeadm", "bottlerocket"]
    settings: Mapping[str, Any]
    needs_cluster_access: bool
    sysctls: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kernel parameters that cloud-init loads before the kubelet starts. For Bottlerocket they are in `settings`
    instead.
    """
    commands: tuple[str, ...] = ()
    """Lines of a bash script that cloud-init runs before the kubelet starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Outputs of a cluster that a node needs to join the cluster."""

    name: str
    endpoint: str
    certificate_authority: str
    """PEM in Base64, as EKS returns it."""
    service_cidr: str
