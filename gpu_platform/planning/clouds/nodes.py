"""Plan the nodes of a pool, for every provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from gpu_platform.planning.clouds.controllers import Room
from gpu_platform.planning.pools.free import free_resources
from gpu_platform.planning.pools.section import NodesPlan, PoolPlan
from gpu_platform.stack.pool import Pool


def nodes_plan(
    pool: Pool, ownership: Literal["created", "labelled", "selected", "cloud"], names: tuple[str, ...] = ()
) -> NodesPlan:
    """Return the plan for a pool's nodes, with the node counts from the stack file."""
    count = pool.count
    return NodesPlan(
        ownership=ownership,
        min=count.min,
        desired=count.desired,
        max=count.maximum,
        vary=count.is_range,
        names=names,
    )


_MOST_COUNTED: Final = 20
"""Maximum number of a pool's nodes that are considered for controllers. More nodes would not change the result."""


def pools_for_controllers(pools: Sequence[PoolPlan]) -> list[PoolPlan]:
    """Return the pools whose initial or added nodes can run pods without GPUs and without tolerations.

    Pools with a schedule and spot pools are excluded, because controllers must run at all times.
    """
    return [
        pool
        for pool in pools
        if not pool.has_gpus and not pool.all_taints and pool.schedule is None and pool.capacity["type"] != "spot"
    ]


def rooms_of_cpu_pools(pools: Sequence[PoolPlan]) -> list[Room]:
    """Return the free CPU and memory on each node of the pools that can run controllers."""
    return [
        Room(*free_resources(pool))
        for pool in pools_for_controllers(pools)
        for _ in range(min(pool.nodes.max if pool.autoscaled else pool.nodes.desired, _MOST_COUNTED))
    ]
