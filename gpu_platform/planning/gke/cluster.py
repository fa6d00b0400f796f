"""The GKE cluster that the pools of a stack stand in."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.catalog import Catalog
from gpu_platform.planning.gke.plan import GkeClusterPlan
from gpu_platform.planning.plan import Decision, PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.spec.cluster import GkeCluster
from gpu_platform.spec.pool import Pool


def check_gke_cluster(cluster: GkeCluster, pools: Sequence[Pool], catalog: Catalog, problems: Problems) -> None:
    """Record what is wrong with a cluster for its pools; `problems` stands at `cluster`."""


def plan_gke_cluster(
    cluster: GkeCluster, stack: str, pools: Sequence[PoolPlan], catalog: Catalog, decisions: list[Decision]
) -> GkeClusterPlan:
    """Return the plan of a cluster for pools that are planned; appends what was chosen to `decisions`."""
    raise NotImplementedError
