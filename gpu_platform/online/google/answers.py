"""Typed Google Cloud responses, reduced to the fields that the comparisons need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_platform.planning.clouds.gke.existing_cluster import ExistingGke


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota's value and usage. `used` is None if the API does not return the usage."""

    limit: float
    used: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A Compute Engine reservation. `ends` is the time of its deletion as an RFC 3339 string, or empty if it is
    not set.
    """

    name: str
    zone: str
    status: str
    machine_type: str
    count: int
    in_use: int
    specific: bool
    policies: tuple[str, ...]
    """Names of the reservation's resource policies."""
    ends: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A subnetwork. `cidr` is the range of its nodes, and `secondary` contains the other ranges by name."""

    cidr: str
    secondary: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A GKE cluster, with the facts that planning compares and fields that only the online checks use."""

    status: str
    facts: ExistingGke
    labels: Mapping[str, str]
    network: str
    """Path of the network, `projects/P/global/networks/NAME`."""
    subnetwork: str
    """Path of the subnetwork, `projects/P/regions/R/subnetworks/NAME`."""
    authorized: tuple[str, ...]
    """Networks that can reach the IP addresses of the API server. Empty if every network with a route can reach
    them.
    """
    node_pools: Mapping[str, Mapping[str, str]]
    """Resource labels of each node pool, by the name of the node pool."""
