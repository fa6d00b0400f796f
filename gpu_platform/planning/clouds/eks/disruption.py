"""Decide when Karpenter or the Cluster Autoscaler removes nodes of a pool, depending on the pool's workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from gpu_platform.stack.pool import Workload


class Disruption(NamedTuple):
    """When nodes are removed. The fields correspond to the fields of a Karpenter NodePool."""

    policy: Literal["WhenEmpty", "WhenEmptyOrUnderutilized"]
    consolidate_after: str
    expire_after: str
    termination_grace: str
    budgets: tuple[Mapping[str, Any], ...]
    why: str


_EMPTY_GO = {"nodes": "100%", "reasons": ["Empty"]}
DISRUPTION: Mapping[Workload, Disruption] = {
    "training": Disruption(
        policy="WhenEmpty",
        consolidate_after="30m",
        expire_after="Never",
        termination_grace="12h",
        budgets=(_EMPTY_GO, {"nodes": "0", "reasons": ["Drifted", "Underutilized"]}),
        why="a multi-node job fails when it loses a node, so only empty nodes are deleted",
    ),
    "inference": Disruption(
        policy="WhenEmptyOrUnderutilized",
        consolidate_after="15m",
        expire_after="504h",
        termination_grace="1h",
        budgets=({"nodes": "10%"},),
        why="replicas can move, so underused nodes are consolidated, a tenth of the nodes at a time",
    ),
    "development": Disruption(
        policy="WhenEmpty",
        consolidate_after="10m",
        expire_after="336h",
        termination_grace="30m",
        budgets=(_EMPTY_GO, {"nodes": "10%", "reasons": ["Drifted", "Underutilized"]}),
        why="sessions are not moved, and idle nodes are deleted",
    ),
    "general": Disruption(
        policy="WhenEmptyOrUnderutilized",
        consolidate_after="15m",
        expire_after="504h",
        termination_grace="1h",
        budgets=({"nodes": "10%"},),
        why=(
            "controllers and data loaders can move, so underused nodes are consolidated, a tenth of the nodes "
            "at a time"
        ),
    ),
}
