"""The EKS cluster that the pools of a stack stand in."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.catalog import Catalog
from gpu_platform.planning.eks.plan import EksClusterPlan
from gpu_platform.planning.plan import Decision, PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.spec.cluster import EksCluster, Operator
from gpu_platform.spec.pool import Pool


def check_eks_cluster(
    cluster: EksCluster, pools: Sequence[Pool], operator: Operator | None, catalog: Catalog, problems: Problems
) -> None:
    """Record what is wrong with a cluster for its pools; `problems` stands at `cluster`."""


def plan_eks_cluster(
    cluster: EksCluster,
    stack: str,
    pools: Sequence[PoolPlan],
    operator: Operator,
    catalog: Catalog,
    decisions: list[Decision],
) -> EksClusterPlan:
    """Return the plan of a cluster for pools that are planned; appends what was chosen to `decisions`."""
    raise NotImplementedError
