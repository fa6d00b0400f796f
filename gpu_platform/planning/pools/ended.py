"""Find pools whose capacity has ended: their nodes cannot start any more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from gpu_platform.errors import Problem
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.quantity import counted


def ended_capacity(pools: Iterable[PoolPlan], now: datetime) -> tuple[Problem, ...]:
    """Return the pools that have nodes by the stack file, on capacity that has ended. `now`: with time zone."""
    return tuple(
        Problem(
            f"{pool.path}.capacity.ends",
            f"{ends}, which has passed, with {counted(pool.nodes.desired, 'desired node')}",
            "an end in the future: no node starts on capacity that has ended",
            f"name the new capacity in reservation and ends, write {pool.path}.count.desired: 0 and min: 0, or "
            "remove the pool",
        )
        for pool in pools
        if pool.nodes.desired and (ends := pool.capacity.get("ends")) and datetime.fromisoformat(ends) <= now
    )
