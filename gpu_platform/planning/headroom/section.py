"""Types of the plan of headroom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_platform.planning.nodes.section import Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomPods:
    """Pods of one pool that hold `units` of an extended resource each until pods of teams need them."""

    name: str
    pool: str
    resource: str
    units: int
    replicas: int
    node_selector: Mapping[str, str]
    tolerations: tuple[Taint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomPlan:
    """Headroom of all pools: a Deployment for each of `pods`, of one priority class."""

    image: str
    namespace: str
    priority: int
    pods: tuple[HeadroomPods, ...]
