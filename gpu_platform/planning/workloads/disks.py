"""Compare the disks of declared workloads with the number of disks that the nodes of a pool can attach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from gpu_platform.base.quantity import counted
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.workloads.section import TeamWorkloadsPlan


def disk_decisions(
    teams: Iterable[TeamWorkloadsPlan], pools: Sequence[PoolPlan], disks: Collection[str | None]
) -> Iterator[Decision]:
    """Yield a warning for each pool whose declared workloads have more disks than its nodes can attach.

    `disks` contains the storage classes whose volumes are disks, and None if the default class is one of them.
    kube-scheduler leaves a pod pending if no node can attach its disk ("node(s) exceed max volume count").
    """
    declared = Counter(
        one.pod.workload.pool
        for team in teams
        for one in (*team.training_jobs, *team.notebooks)
        if one.claim is not None and not one.claim.shared and one.claim.storage_class in disks
    )
    for pool in pools:
        on_node = pool.cloud_nodes.volumes
        if on_node is not None and declared[pool.name] > on_node * pool.nodes.max:
            yield Decision(
                subject=f"pool {pool.name}",
                what="warning: disks",
                chosen=f"{declared[pool.name]} declared workloads, each with a disk, but at most "
                f"{on_node} disks on each node, and at most {counted(pool.nodes.max, 'node')}",
                why=f"the cloud attaches no more disks to {pool.machine_type}, and the other pods stay pending: "
                "write a storage_class of type nfs for some of them, raise the pool's count, or use another "
                "machine type",
            )
