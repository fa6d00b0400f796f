"""Find declared workloads that use several nodes with RDMA, but communicate between them over TCP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.workloads.granted import INTERCONNECT_VARIABLE, TCP
from gpu_platform.planning.workloads.section import PodPlan, TeamWorkloadsPlan
from gpu_platform.stack.environment import Environment

_OWNERS: Final = (
    "the owner of an existing cluster sets up RDMA, and declared workloads cannot request RDMA devices, so "
    "traffic between nodes is several times slower; use one node, or see docs/existing-clusters.md, RDMA"
)


def network_decisions(
    plan: TeamWorkloadsPlan, environment: Environment, available: Available
) -> Iterator[Decision]:
    """Yield a warning for each declared workload whose pods use whole nodes with RDMA, but communicate over TCP.

    Pods on pools with `network: {rdma: false}` are ignored.
    """
    if environment.cluster.provider == "sandbox":
        return
    declined = {pool.name for pool in environment.pools if pool.network.rdma is False}
    pools = {pool.name: pool for pool in available.pools if pool.name not in declined}
    for subject, pod in _pods(plan):
        pool = pools.get(pod.workload.pool)
        if pool is None or pod.env.get(INTERCONNECT_VARIABLE) != TCP or not _whole(pod, pool):
            continue
        count = available.catalog.machine_types[pool.machine_type].rdma_interfaces
        if count:
            yield Decision(
                subject=subject,
                what="warning: network between nodes",
                chosen=f"TCP; the pods use none of the {count} RDMA NICs of {pool.machine_type}",
                why=_OWNERS
                if pool.cloud is None
                else f"pool {pool.name} has no NICs for traffic between GPUs, so this traffic is several times "
                f"slower; write network: {{rdma: true}} in the pool, which replaces its nodes",
            )


def _whole(pod: PodPlan, pool: PoolPlan) -> bool:
    return pool.sharing.mode in ("none", "dra") and pod.workload.units == pool.gpus_per_node


def _pods(plan: TeamWorkloadsPlan) -> Iterable[tuple[str, PodPlan]]:
    for job in plan.training_jobs:
        yield f"training job {plan.namespace}/{job.pod.workload.name}", job.pod
    for service in plan.inference_services:
        yield f"inference service {plan.namespace}/{service.pod.workload.name}", service.pod
    for cluster in plan.ray_clusters:
        for workers in cluster.workers:
            yield f"Ray cluster {plan.namespace}/{cluster.head.workload.name}", workers.pod
