"""Typed Azure responses, reduced to the fields that the comparisons need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_platform.planning.clouds.aks.existing_cluster import ExistingAks


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The limit of a quota and its current use."""

    limit: float
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A VM size in one region, as a subscription may use it."""

    zones: frozenset[str]
    """Numbers of the zones that the subscription may use."""
    restriction: str
    """Reason why the subscription may not use the size in the whole region, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A resource group."""

    region: str
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A subnet, and how its nodes reach the internet."""

    cidrs: tuple[str, ...]
    has_nat: bool
    has_routes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """One reservation of a capacity reservation group."""

    region: str
    size: str
    zone: str
    """Number of the zone, or empty for a reservation in no particular zone."""
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """An AKS cluster, with the facts that planning compares and fields that only the online checks use."""

    state: str
    facts: ExistingAks
    tags: Mapping[str, str]
    private: bool
    authorized: tuple[str, ...]
    """Networks that reach a public API server. Empty if every network does."""
    agent_pools: Mapping[str, Mapping[str, str]]
    """Tags of each agent pool, by the name of the agent pool."""
