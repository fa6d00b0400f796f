"""Facts of each pool as a stack output, which the next preview compares with its own plan.

Properties are texts, by the API names of their platform (`catalog/facts/pool_changes.yaml`), so
that the state of the engine returns them unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.planning.plan import EnvironmentPlan, Plan
from gpu_platform.planning.pools.section import PoolPlan

SANDBOX = "sandbox"
EXISTING = "existing"
"""Platforms of pools outside clouds."""


def pool_facts(plan: EnvironmentPlan) -> Mapping[str, Any]:
    """Return the stack output `pools`: by pool, its platform, size, protection and properties, as plain JSON."""
    return {pool.name: _facts(pool, plan) for pool in plan.pools}


PROTECT_FIELD = " (protect: true)"
"""Ends the text of what the field `protect` protects; the rest is protected by `cluster.protect`."""
CLUSTER_PROTECT = "cluster.protect"


def protected(plan: Plan) -> tuple[str, ...]:
    """Return what the engine refuses to delete, as text: the stack output `protected`."""
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
    """Return which protection `up` lifts and adds: nothing in the cluster has to change with it.

    `outputs`: of the last deployment, empty if there is none.
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
    """Return the platform of a pool: that of its cloud, `sandbox` or `existing`."""
    if pool.cloud_nodes.platform is not None:
        return pool.cloud_nodes.platform
    return SANDBOX if pool.nodes.ownership == "created" else EXISTING


def properties(pool: PoolPlan, plan: EnvironmentPlan) -> Mapping[str, str]:
    """Return the properties whose change replaces a pool or its nodes; empty texts where one is not set."""
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
        # By reservation, start and end of reserved capacity.
        "windows": {window.reservation: window.shown for window in pool.cloud_nodes.windows},
        "properties": dict(properties(pool, plan)),
    }
