"""Typed answers of Google Cloud, reduced to what the comparisons need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_platform.planning.clouds.gke.existing_cluster import ExistingGke


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota's value and use. `used` None: not known, because the API does not return it."""

    limit: float
    used: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A Compute Engine reservation. `ends`: RFC 3339 text of its deletion, empty: none."""

    name: str
    zone: str
    status: str
    machine_type: str
    count: int
    in_use: int
    specific: bool
    policies: tuple[str, ...]
    """Names of its resource policies."""
    ends: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A subnetwork. `cidr`: of its nodes; `secondary`: the other ranges, by name."""

    cidr: str
    secondary: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A GKE cluster: what planning compares, and what only a look from outside needs."""

    status: str
    facts: ExistingGke
    labels: Mapping[str, str]
    network: str
    """`projects/P/global/networks/NAME`."""
    subnetwork: str
    """`projects/P/regions/R/subnetworks/NAME`."""
    authorized: tuple[str, ...]
    """Networks that reach the IP addresses of the API server; empty: all that have a route to them."""
    node_pools: Mapping[str, Mapping[str, str]]
    """Resource labels of each node pool, by name."""
