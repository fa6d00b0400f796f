"""EKS node pools: what follows from a machine type, a capacity type and a workload."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.plan import Decision, Kubelet, Taint
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.software import NodeSoftware
from gpu_platform.spec.cluster import EksCluster
from gpu_platform.spec.pool import Pool


def check_eks_pool(
    pool: Pool, machine: MachineType, cluster: EksCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record every combination that EKS refuses, or that would waste what the pool pays for."""


def plan_eks_pool(
    pool: Pool,
    machine: MachineType,
    cluster: EksCluster,
    software: NodeSoftware,
    kubelet: Kubelet | None,
    labels: Mapping[str, str],
    taints: tuple[Taint, ...],
    catalog: Catalog,
    decisions: list[Decision],
) -> EksPoolPlan | KarpenterPoolPlan:
    """Return the plan of a pool without problems; appends what was chosen to `decisions`."""
    raise NotImplementedError
