"""GKE node pools: what follows from a machine type, a capacity type and a workload."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.gke.plan import GkePoolPlan
from gpu_platform.planning.plan import Decision, Kubelet, Taint
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.software import NodeSoftware
from gpu_platform.spec.cluster import GkeCluster
from gpu_platform.spec.pool import Pool


def check_gke_pool(
    pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record every combination that GKE refuses, or that would waste what the pool pays for."""


def plan_gke_pool(
    pool: Pool,
    machine: MachineType,
    cluster: GkeCluster,
    software: NodeSoftware,
    kubelet: Kubelet | None,
    labels: Mapping[str, str],
    taints: tuple[Taint, ...],
    catalog: Catalog,
    decisions: list[Decision],
) -> GkePoolPlan:
    """Return the plan of a pool without problems; appends what was chosen to `decisions`."""
    raise NotImplementedError
