"""Decide whether queues consider nodes (topology-aware scheduling).

Source: kubernetes-sigs/kueue v0.19.2, pkg/scheduler/flavorassigner/tas_flavorassigner.go: flavors with a topology
serve workloads that request a topology, or all workloads of a queue in which every flavor has a topology. A
workload gets one such flavor. Kueue counts only nodes that exist, and no claimed devices. Read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.queueing import Queueing


def is_topology_aware(queueing: Queueing, pools: Sequence[PoolPlan], cloud: Cloud) -> bool:
    """Return whether workloads start only when nodes have room for their pods."""
    return not unsuitable(pools, cloud) if queueing.topology is None else queueing.topology


def closest_level(levels: Sequence[str]) -> str | None:
    """Return the narrowest level with several nodes, or None. `levels` start with the widest and end with
    hostname.
    """
    return levels[-2] if len(levels) > 1 else None


def unsuitable(pools: Sequence[PoolPlan], cloud: Cloud) -> tuple[str, ...]:
    """Return the nodes that may not exist yet and the pools whose devices are claimed, each with the reason."""
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
    """Return all changes that make unsuitable nodes suitable, or an empty string if there are none.

    Claimed devices stay claimed, and nodes that are created on demand have no fixed number.
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
