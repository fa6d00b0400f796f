"""Plan the headroom of autoscaled pools: pods of the lowest priority occupy GPUs until other pods need them.

A team's pod preempts them at once and starts on an existing node. The preempted pods become pending, and the
autoscaler adds the node that the team would otherwise have waited for.

Sources: Cluster Autoscaler FAQ, "How can I configure overprovisioning with Cluster Autoscaler?" (pods below
priority -10 neither add nodes nor keep them); Karpenter docs, FAQ; Kubernetes docs, Overprovision Node Capacity
For A Cluster; read 2026-11-25.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.headroom.section import HeadroomPlan, HeadroomPods
from gpu_platform.planning.pools.section import LOWEST_WITH_NODES, PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.pool import CapacityBlock, FlexStart, Pool, Reservation

PRIORITY_CLASS: Final = "gpu-headroom"
PRIORITY: Final = LOWEST_WITH_NODES
"""Priority of headroom pods. All team priority classes are above it."""
_IMAGE: Final = "pause"  # image name in the catalogue
_PREPAID: Final = (Reservation, CapacityBlock)


def check(context: CompleteContext, planned: Sequence[PoolPlan]) -> None:
    """Record a problem for headroom that no pod can occupy or that is not needed."""
    for index, pool in context.pools:
        if pool.headroom is not None:
            _check_pool(pool, planned[index], context.at(f"pools[{index}]").at("headroom"))


def _check_pool(pool: Pool, plan: PoolPlan, problems: Problems) -> None:
    found = f"{pool.headroom} GPUs"
    if not plan.has_gpus:
        problems.add(found, "headroom on a pool with GPUs", "remove headroom")
    elif not pool.count.is_range:
        problems.add(
            f"{found} on a pool with a fixed number of nodes",
            "headroom on an autoscaled pool, with count.min below count.max",
            "write count: {min: 0, ...}, or remove headroom",
        )
    elif isinstance(pool.capacity, _PREPAID):
        problems.add(
            f"{found} of capacity that is paid for in advance",
            "headroom on pools that are paid by the hour",
            "remove headroom, and write count.min, because idle nodes of a reservation cost as much as used nodes",
        )
    elif isinstance(pool.capacity, FlexStart):
        problems.add(
            f"{found} of flex-start capacity",
            "headroom on pools that get nodes when pods need them",
            "remove headroom, because flex-start queues requests until capacity is available",
        )
    elif any("/" not in offer.name for offer in plan.resources):
        problems.add(
            f"{found} on a pool whose GPUs are claimed (DRA)",
            "headroom in extended resources, because autoscalers do not add nodes for claims",
            "remove headroom",
        )
    elif (limit := plan.gpus_per_node * plan.nodes.max) < (asked := pool.headroom or 0):
        problems.add(found, f"at most {limit}, the GPUs of the pool's {plan.nodes.max} nodes", f"write {limit}")
    elif asked > plan.gpus_per_node and asked % plan.gpus_per_node:
        fewer = asked - asked % plan.gpus_per_node
        problems.add(found, f"at most {plan.gpus_per_node}, the GPUs of a node, or whole nodes", f"write {fewer}")


def plan(context: CompleteContext, planned: Sequence[PoolPlan]) -> HeadroomPlan | None:
    """Return the headroom plan, or None if no pool has headroom."""
    pods = [
        one
        for index, pool in context.pools
        if pool.headroom is not None
        for one in _pods(planned[index], pool.headroom)
    ]
    if not pods:
        return None
    return HeadroomPlan(
        image=context.catalog.images[_IMAGE].reference,
        namespace=names.HEADROOM_NAMESPACE,
        priority=PRIORITY,
        pods=tuple(pods),
    )


def _pods(pool: PoolPlan, gpus: int) -> Iterator[HeadroomPods]:
    """Yield the headroom pods for each resource of the pool.

    A pod for whole GPUs requests at most the GPUs of one node. Pods for shares or MIG instances request one unit
    each, because a node may reject a pod that requests several units.
    """
    for offer in pool.resources:
        units = gpus * offer.per_node // pool.gpus_per_node
        each = min(gpus, pool.gpus_per_node) if offer.name == names.GPU_RESOURCE and not _shares(pool) else 1
        if units:
            suffix = "" if len(pool.resources) == 1 else f"-{offer.name.partition('/')[2].replace('.', '-')}"
            yield HeadroomPods(
                name=f"{pool.name}{suffix}",
                pool=pool.name,
                resource=offer.name,
                units=each,
                replicas=units // each,
                node_selector=pool.node_selector,
                tolerations=pool.all_taints,
            )


def _shares(pool: PoolPlan) -> bool:
    """Return whether several pods may share a GPU. Sharing does not always change the name of the resource."""
    return any(offer.per_node > pool.gpus_per_node for offer in pool.resources)


def decisions(plan: HeadroomPlan | None, pools: Sequence[PoolPlan]) -> Iterator[Decision]:
    """Yield a decision for each pool with headroom.

    The decision states which GPUs are kept free, and the cost of their nodes while no team uses them.
    """
    for pool in pools:
        held = [one for one in plan.pods if one.pool == pool.name] if plan is not None else []
        if not held:
            continue
        nodes = max(_nodes(pool, one) for one in held)
        price = pool.price_usd_per_hour
        costs = "at an unknown price" if price is None else f"for {price * nodes:.2f} USD/h"
        why = f"{counted(sum(one.replicas for one in held), 'pod')} of priority {PRIORITY} keep"
        why += f" {counted(nodes, 'node')}, {costs} while no team uses the capacity"
        why += "; team pods preempt these pods, and the autoscaler then adds nodes"
        if _plans_shares_as_gpus(pool):
            why += (
                "; Karpenter plans one GPU for each headroom pod, and only learns later that a GPU has room for "
                "several of them"
            )
        yield Decision(
            subject=f"pool {pool.name}",
            what="headroom",
            chosen=", ".join(f"{one.units * one.replicas} {one.resource}" for one in held),
            why=why,
        )


def _nodes(pool: PoolPlan, pods: HeadroomPods) -> int:
    """Return the maximum number of nodes that the headroom pods keep running."""
    each = pool.gpus_per_node if _plans_shares_as_gpus(pool) else pool.units_per_node[pods.resource]
    return min(math.ceil(pods.units * pods.replicas / each), pool.nodes.max)


def _plans_shares_as_gpus(pool: PoolPlan) -> bool:
    """Return whether Karpenter adds nodes for GPU shares. Karpenter uses the cloud's data about machine types,
    which contains no GPU shares.
    """
    return pool.by_karpenter and pool.cloud is not None and _shares(pool)
