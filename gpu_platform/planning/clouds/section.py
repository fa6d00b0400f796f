"""The plan of a cluster, and what every cloud's part of it has."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_platform.planning.clouds.eks.plan import EksClusterPlan
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """How the cluster is reached. `kubernetes` is its minor version where known."""

    provider: str
    name: str
    kubeconfig: str | None
    context: str | None
    kubernetes: str | None
    cloud: EksClusterPlan | GkeClusterPlan | None = None
    """The cloud's part of a cluster of provider eks or gke."""
