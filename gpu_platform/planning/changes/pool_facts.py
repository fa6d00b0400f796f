"""Facts about each pool as a stack output. The next preview compares them with its plan.

Properties have the API names of their platform (`catalog/facts/pool_changes.yaml`). Their values are strings,
which the state of the engine returns unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.planning.plan import EnvironmentPlan, Plan
from gpu_platform.planning.pools.section import PoolPlan

SANDBOX = "sandbox"
EXISTING = "existing"
"""Platform name for nodes that the program does not create."""


def pool_facts(plan: EnvironmentPlan) -> Mapping[str, Any]:
    """Return the stack output `pools`, with the platform, size, protection and properties of each pool."""
    return {pool.name: _facts(pool, plan) for pool in plan.pools}


PROTECT_FIELD = " (protect: true)"
"""Suffix in the output `protected` for subjects with the field `protect`. Other subjects are protected by
`cluster.protect`.
"""
CLUSTER_PROTECT = "cluster.protect"


def protected(plan: Plan) -> tuple[str, ...]:
    """Return the stack output `protected`, which names the subjects that the engine refuses to delete."""
    own = [f"stack {plan.stack}{PROTECT_FIELD}"] if plan.protect else []
    if plan.kind == "team":
        return tuple(own)
    cluster = plan.cluster.cloud
    return (
        *own,
        *([f"cluster {cluster.name}"] if cluster is not None and cluster.protect else ()),
        *(
            f"pool {pool.name}{PROTECT_FIELD if pool.protect else ''}"
            for pool in plan.pools
            if pool.protect or pool.cloud_nodes.protect
        ),
    )


def protection_changes(outputs: Mapping[str, Any], plan: Plan) -> tuple[str, ...]:
    """Return the protections that `up` removes and adds. Protection changes nothing in the cluster itself.

    `outputs` are the stack outputs of the last deployment, and are empty if there was none.
    """
    if not outputs:
        return ()
    old: Sequence[str] = outputs.get("protected") or ()
    new = protected(plan)
    return (
        *(f"protection lifted by the next `up`: {one}" for one in old if one not in new),
        *(f"protection added by the next `up`: {one}" for one in new if one not in old),
    )


def platform_of(pool: PoolPlan) -> str:
    """Return the platform of a pool's cloud nodes. For other nodes, return `sandbox` if the program creates them,
    and `existing` otherwise.
    """
    if pool.cloud_nodes.platform is not None:
        return pool.cloud_nodes.platform
    return SANDBOX if pool.nodes.ownership == "created" else EXISTING


def properties(pool: PoolPlan, plan: EnvironmentPlan) -> Mapping[str, str]:
    """Return the properties that cause a pool or its nodes to be replaced when they change. An unset property is
    an empty string.
    """
    if pool.name in plan.cluster.pool_properties:
        return plan.cluster.pool_properties[pool.name]
    if platform_of(pool) == EXISTING:
        return {}
    return {"machine_type": pool.machine_type, "nodes": str(pool.nodes.desired)}


def _facts(pool: PoolPlan, plan: EnvironmentPlan) -> Mapping[str, Any]:
    return {
        "platform": platform_of(pool),
        "least_nodes": pool.nodes.min,
        "nodes": pool.nodes.desired,
        "most_nodes": pool.nodes.max
        if pool.cloud is not None or pool.autoscaler is not None
        else pool.nodes.desired,
        "gpus_per_node": pool.gpus_per_node,
        "protected": pool.protect or pool.cloud_nodes.protect,
        "protected_by": f"{pool.path}.protect" if pool.protect else CLUSTER_PROTECT,
        # Start and end of reserved capacity, by reservation.
        "windows": {window.reservation: window.shown for window in pool.cloud_nodes.windows},
        "properties": dict(properties(pool, plan)),
    }
