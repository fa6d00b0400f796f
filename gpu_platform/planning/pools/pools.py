"""Plan every node pool of an environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpu_platform.base import names
from gpu_platform.base.quantity import duration_text
from gpu_platform.catalog import MachineType
from gpu_platform.planning import expectations, requirements
from gpu_platform.planning.clouds.schedules import DRAIN_SECONDS, schedule_of
from gpu_platform.planning.clouds.vendors import vendor_of
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.nodes import allocatable
from gpu_platform.planning.pools.rdma_drivers import rdma_driver_decision
from gpu_platform.planning.pools.section import NodePrice, PoolPlan
from gpu_platform.planning.sharing import ResolvedPool
from gpu_platform.stack.pool import Pool


def plan(context: CompleteContext, resolved_pools: Sequence[ResolvedPool]) -> Decided[tuple[PoolPlan, ...]]:
    """Return the plans of valid pools, in the order of the stack file."""
    decided = [plan_pool(context, resolved) for resolved in resolved_pools]
    decisions: list[Decision] = []
    for one in decided:
        decisions += one.decisions
    return Decided(tuple(one.value for one in decided), tuple(decisions))


def plan_pool(context: CompleteContext, resolved: ResolvedPool) -> Decided[PoolPlan]:
    """Return the plan for one valid pool."""
    pool, required = resolved.pool, requirements.plan(context, resolved)
    needed = required.value
    machine = needed.machine
    cloud = context.cloud.pools.plan(pool, machine, needed, context.catalog)
    autoscaler = context.cloud.pools.plan_autoscaler(pool, machine, needed)
    expected = expectations.plan(context, needed, cloud.value.nodes)
    added = context.cloud.pools.added_taints(pool, machine)
    by_karpenter = pool.provisioner == "karpenter"
    alternatives = [context.catalog.machine_types[name] for name in pool.alternatives]
    nodes = [allocatable(one, karpenter=by_karpenter) for one in (machine, *alternatives)]
    selected = pool.nodes.selector if pool.nodes is not None else None
    plan = PoolPlan(
        name=pool.name,
        path=resolved.path,
        workload=pool.workload,
        machine_type=machine.name,
        architecture=machine.arch,
        gpu_model=needed.gpu.model if needed.gpu is not None else "",
        gpu_product=needed.gpu.product if needed.gpu is not None else "",
        gpu_memory_mib=needed.gpu.memory_mib if needed.gpu is not None else 0,
        gpus_per_node=machine.gpu_count,
        nodes=context.cloud.pools.nodes(pool, resolved.nodes),
        capacity=pool.capacity.model_dump(mode="json", exclude_none=True),
        placement=cloud.value.nodes.placement or (pool.placement.type if pool.placement else "none"),
        sharing=needed.sharing,
        resources=needed.resources,
        # A pod can run on any of the machine types, so it can request only as much CPU as the smallest type has.
        cpu_millicores=min(node.cpu_millicores for node in nodes),
        memory_mib=min(node.memory_mib for node in nodes),
        labels=needed.labels,
        taints=needed.taints,
        added_taints=tuple(added),
        node_selector=dict(selected) if selected else {names.POOL_LABEL: pool.name},
        kubelet=needed.kubelet,
        driver_version=needed.driver_version,
        software=needed.software,
        cloud=cloud.value.plan,
        cloud_nodes=cloud.value.nodes,
        price=_price(context, pool, machine),
        utilisation=pool.utilisation,
        expectations=expected.hardware,
        node_expectation=expected.node,
        devices=needed.devices,
        startup_taints=needed.startup_taints,
        failed_taints=needed.failed_taints,
        protect=pool.protect,
        schedule=schedule_of(pool.schedule),
        autoscaler=autoscaler.value,
    )
    of_taints = tuple(
        Decision(subject=f"pool {pool.name}", what="taint", chosen=str(taint), why=why)
        for taint, why in added.items()
    )
    plan = replace(plan, daemonsets=context.cloud.pools.daemonsets(plan, context.catalog))
    return Decided(
        plan,
        (
            *required.decisions,
            *of_taints,
            *cloud.decisions,
            *autoscaler.decisions,
            *_of_schedule(plan),
            *rdma_driver_decision(context, pool, plan),
            *_of_disks(plan),
        ),
    )


def _of_disks(plan: PoolPlan) -> Iterator[Decision]:
    """Yield the number of disks that pods can have on a node, if this number is lower than the number of GPUs or
    shares that the node offers.
    """
    offered = 0 if plan.devices else sum(plan.units_per_node.values())
    if plan.cloud_nodes.volumes is not None and offered > plan.cloud_nodes.volumes:
        yield Decision(
            subject=f"pool {plan.name}",
            what="disks of pods",
            chosen=f"at most {plan.cloud_nodes.volumes} on a node that offers {offered} GPUs, shares or instances",
            why=f"the cloud attaches no more disks to {plan.machine_type}; further pods with a disk each stay "
            "pending, and need volumes of type nfs or lustre instead",
        )


def _of_schedule(pool: PoolPlan) -> Iterator[Decision]:
    """Yield the decision that states when a pool with a schedule has nodes, and what happens to its pods when the
    nodes stop.
    """
    if (schedule := pool.schedule) is not None:
        yield Decision(
            subject=f"pool {pool.name}",
            what="schedule",
            chosen=f"{schedule}, {schedule.hours_text}",
            why=f"at {schedule.stop} its nodes are drained for at most {duration_text(DRAIN_SECONDS)} and "
            "terminated, and `up` does not start them before the schedule does; the cost includes only the "
            "scheduled hours, and validation expects no nodes while the pool is off",
        )


def _price(context: CompleteContext, pool: Pool, machine: MachineType) -> NodePrice:
    """Return the price that the stack file sets or, if it sets none, the list price in the cluster's region.
    Prices of other regions are not used.
    """
    if pool.usd_per_hour is not None:
        return NodePrice(usd_per_hour=pool.usd_per_hour, most_usd_per_hour=pool.usd_per_hour, declared=True)
    in_cloud = context.cloud.region
    region = in_cloud or vendor_of(machine).reference_region
    listed = context.catalog.price(machine, region)
    others = [context.catalog.price(context.catalog.machine_types[name], region) for name in pool.alternatives]
    prices = [one.usd_per_hour if one is not None else None for one in (listed, *others)]
    known = [price for price in prices if price is not None]
    return NodePrice(
        usd_per_hour=listed.usd_per_hour if listed is not None else None,
        most_usd_per_hour=max(known) if len(known) == len(prices) else None,
        region=region,
        reference=in_cloud is None and region is not None,
        source=str(listed.source) if listed is not None else "",
        date=listed.source.date.isoformat() if listed is not None else "",
    )
