"""Find quotas and workloads that no team can use while the pools with a schedule are off."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform import names
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.workloads import workloads_of
from gpu_platform.quantity import counted


def off_notices(plan: EnvironmentPlan) -> tuple[str, ...]:
    """Return a warning for each pool with a schedule: what cannot be used while it is off."""
    return tuple(
        f"{pool.path}.schedule: pool {pool.name} has nodes {pool.schedule}, {pool.schedule.hours_text}; while "
        f"it is off {_unreachable(pool, plan)}"
        for pool in plan.pools
        if pool.schedule is not None
    )


def _unreachable(pool: PoolPlan, plan: EnvironmentPlan) -> str:
    lost = [*_quotas(pool, plan), *_workloads(pool, plan)]
    what = "pods for it wait"
    if lost:
        what += f", and these cannot be used: {'; '.join(lost)}"
    if plan.queues is not None and any(flavor.pool == pool.name for flavor in plan.queues.flavors):
        what += (
            "; queues admit workloads for it all the same, and put them back after queueing.pods_ready_timeout: "
            "they wait for its start"
        )
    return what


def _quotas(pool: PoolPlan, plan: EnvironmentPlan) -> Iterator[str]:
    """Yield the quotas that the pools without a schedule do not cover, by resource of the pool."""
    for offer in pool.resources:
        left = sum(each.units_desired.get(offer.name, 0) for each in plan.pools if each.schedule is None)
        quotas = {
            tenant.namespace: int(count)
            for tenant in plan.tenants
            if (count := tenant.quota.get(names.quota_key(offer.name), "0")) != "0"
        }
        if sum(quotas.values()) > left:
            of_teams = ", ".join(f"{team} {count}" for team, count in quotas.items())
            yield f"quotas of {offer.name} ({of_teams}; {left or 'none'} left)"


def _workloads(pool: PoolPlan, plan: EnvironmentPlan) -> Iterator[str]:
    """Yield the declared workloads that run on the pool alone."""
    for tenant in plan.tenants:
        run = workloads_of(tenant.namespace, plan.workloads)
        gangs = {job.pod.workload.name for job in run.training_jobs} if run is not None else set[str]()
        pods = [pod.workload for pod in run.all_pods] if run is not None else []
        for workload in (*tenant.workloads, *pods):
            if workload.pool == pool.name:
                of = f" (gang of {counted(workload.replicas, 'pod')})" if workload.name in gangs else ""
                yield f"{tenant.namespace}/{workload.name}{of}"
