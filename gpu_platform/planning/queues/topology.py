"""Decide whether queues take the free capacity of nodes into account (topology-aware scheduling).

Source: kubernetes-sigs/kueue v0.19.2, pkg/scheduler/flavorassigner/tas_flavorassigner.go. Flavors with a topology
serve workloads that request a topology, or all workloads of a queue if every flavor of the queue has a topology.
Kueue counts only nodes that exist, and does not count claimed devices. Read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.queueing import Queueing


def is_topology_aware(queueing: Queueing, pools: Sequence[PoolPlan], cloud: Cloud) -> bool:
    """Return whether workloads start only when nodes have enough free resources for their pods."""
    return not unsuitable(pools, cloud) if queueing.topology is None else queueing.topology


def closest_level(levels: Sequence[str]) -> str | None:
    """Return the narrowest level whose domains contain several nodes, or None. `levels` start with the widest
    level and end with the hostname.
    """
    return levels[-2] if len(levels) > 1 else None


def unsuitable(pools: Sequence[PoolPlan], cloud: Cloud) -> tuple[str, ...]:
    """Return the obstacles to topology-aware scheduling, each with its reason.

    An obstacle is a pool whose devices are claimed, or nodes that may not exist yet.
    """
    growing = cloud.growing_nodes
    return (
        *(
            f"pool {pool.name} " + ("has DRA" if pool.devices else "is autoscaled")
            for pool in pools
            if pool.devices or pool.nodes.vary
        ),
        *((f"{growing.what} ({growing.setting} fixes their number)",) if growing is not None else ()),
    )


def what_to_write(pools: Sequence[PoolPlan], cloud: Cloud) -> str:
    """Return the changes to the stack file that make topology-aware scheduling possible, or an empty string.

    No change helps if devices are claimed, or if the number of nodes is not fixed because nodes are created on
    demand.
    """
    if any(pool.devices or pool.cloud_nodes.created_on_demand for pool in pools):
        return ""
    growing = cloud.growing_nodes
    return " and ".join(
        (
            *(("only count: {desired: N} in pools",) if any(pool.nodes.vary for pool in pools) else ()),
            *((growing.setting,) if growing is not None else ()),
        )
    )
