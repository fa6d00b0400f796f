"""What providers share about the `nodes` of a pool."""

from __future__ import annotations

from typing import Literal

from gpu_platform.planning.pools.section import NodesPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.spec.pool import Pool


def nodes_plan(
    pool: Pool, ownership: Literal["created", "labelled", "selected", "cloud"], names: tuple[str, ...] = ()
) -> NodesPlan:
    """Return which nodes a pool has, with the counts of the stack file."""
    count = pool.count
    return NodesPlan(ownership=ownership, min=count.min, desired=count.desired, max=count.highest, names=names)


def refuse_nodes(pool: Pool, provider: str, problems: Problems) -> None:
    """Record `nodes` where the program or the cloud creates the nodes; `problems` is at the pool."""
    if pool.nodes is not None:
        problems.at("nodes").add(
            f"nodes on provider {provider}",
            "nodes only on provider existing; elsewhere the program makes them",
            "remove nodes",
        )
