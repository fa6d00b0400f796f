"""Plan which nodes a pool has, for every provider."""

from __future__ import annotations

from typing import Literal

from gpu_platform.planning.pools.section import NodesPlan
from gpu_platform.spec.pool import Pool


def nodes_plan(
    pool: Pool, ownership: Literal["created", "labelled", "selected", "cloud"], names: tuple[str, ...] = ()
) -> NodesPlan:
    """Return which nodes a pool has, with the counts of the stack file."""
    count = pool.count
    return NodesPlan(ownership=ownership, min=count.min, desired=count.desired, max=count.maximum, names=names)
