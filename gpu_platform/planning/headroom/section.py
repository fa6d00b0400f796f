"""Types for the headroom plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_platform.planning.nodes.section import Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomPods:
    """Pods of one pool. Each pod occupies `units` of an extended resource until team pods need these units."""

    name: str
    pool: str
    resource: str
    units: int
    replicas: int
    node_selector: Mapping[str, str]
    tolerations: tuple[Taint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomPlan:
    """Headroom of all pools: a Deployment for each entry of `pods`, all with the same priority class."""

    image: str
    namespace: str
    priority: int
    pods: tuple[HeadroomPods, ...]
