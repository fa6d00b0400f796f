"""Find pools whose nodes cannot start because their capacity has ended or has not begun, and gaps between capacity
blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from datetime import datetime

from gpu_platform.base.errors import Problem
from gpu_platform.base.quantity import counted
from gpu_platform.planning.clouds.windows import CapacityWindow, closed_text, utc_text
from gpu_platform.planning.pools.section import PoolPlan


def ended_capacity(pools: Iterable[PoolPlan], now: datetime) -> tuple[Problem, ...]:
    """Return a problem for each pool with desired nodes that cannot start, because its capacity has ended or has
    not begun.

    `now` must have a time zone. An EC2 capacity block that has not begun is not a problem, because a schedule or
    Karpenter starts its nodes.
    """
    return tuple(problem for pool in pools for problem in _problems(pool, now))


def capacity_gaps(pools: Iterable[PoolPlan]) -> tuple[str, ...]:
    """Return a warning for each gap between two capacity blocks of a pool."""
    return tuple(
        f"{pool.path}.capacity.blocks: pool {pool.name} has no nodes from {utc_text(one.drains)}, when nodes of "
        f"{one.reservation} are drained, to {utc_text(next_.starts)}, when {next_.reservation} begins"
        for pool in pools
        for one, next_ in itertools.pairwise(pool.cloud_nodes.windows)
        if one.ends is not None and next_.starts is not None and one.ends < next_.starts
    )


def _problems(pool: PoolPlan, now: datetime) -> Iterator[Problem]:
    windows: tuple[CapacityWindow, ...] = pool.cloud_nodes.windows
    if not pool.nodes.desired or not windows:
        return
    nodes = counted(pool.nodes.desired, "desired node")
    last = windows[-1]
    if last.ends is not None and last.ends <= now:
        several = "blocks" in pool.capacity
        yield Problem(
            f"{pool.path}.capacity.{'blocks' if several else 'ends'}",
            f"{utc_text(last.ends)}, which has passed, with {nodes}",
            "an end in the future, because nodes cannot start on capacity that has ended",
            f"{'add the next block' if several else 'name the new capacity in reservation and ends'}, write "
            f"{pool.path}.count.desired: 0 and min: 0, or remove the pool",
        )
    elif pool.capacity["type"] == "reservation" and not last.has_begun(now):
        yield Problem(
            f"{pool.path}.capacity.starts",
            f"{closed_text(windows, now)}, with {nodes}",
            "a start time in the past, or 0 desired nodes; GKE creates no nodes before a reservation begins",
            f"write {pool.path}.count.desired: 0 and min: 0 until then",
        )
