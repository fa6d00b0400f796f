"""Warn if quotas of CPU and memory add up to more than the nodes have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_platform.base.quantity import amount_of, amount_text
from gpu_platform.planning.clouds.controllers import Room
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.free import free_resources
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.team import Team


def cpu_quota_decisions(
    teams: Sequence[Team], pools: Sequence[PoolPlan], system: Sequence[Room] | None, *, queues: bool
) -> Iterator[Decision]:
    """Yield a warning for CPU and for memory if the quotas exceed the capacity of all nodes at the pools' maximum
    size.

    `system` is the free CPU and memory on the system nodes, or None if the cluster has nodes that the stack file
    does not describe. With `queues`, the quotas apply to pods without GPUs, which do not run on GPU nodes.
    """
    if system is None:
        return
    rooms = list(system)
    for pool in pools:
        if not (queues and pool.has_gpus):
            rooms += [Room(*free_resources(pool))] * pool.nodes.max
    most = {
        "cpu": sum(room.cpu_millicores for room in rooms),
        "memory": sum(room.memory_mib for room in rooms) * 2**20,
    }
    for resource, room in most.items():
        quotas = {team.name: amount_of(resource, getattr(team.quota, resource) or 0) for team in teams}
        total = sum(quotas.values())
        if total > room:
            shares = ", ".join(f"{name} {amount_text(resource, one)}" for name, one in quotas.items() if one)
            yield Decision(
                subject="teams",
                what=f"warning: quota.{resource}",
                chosen=f"{amount_text(resource, total)} in all quotas ({shares})",
                why=f"all nodes{' without GPUs' if queues else ''} together have at most "
                f"{amount_text(resource, room)}, so further pods wait for nodes that are never added. Lower "
                "the quotas, or add a pool" + (" without GPUs" if queues else ""),
            )
