"""Find quotas and workloads that teams cannot use while pools have no nodes.

Pools have no nodes when their schedule keeps them off, or between capacity blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.planning.clouds.windows import CapacityWindow, utc_text
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues.section import QueuesPlan
from gpu_platform.planning.workloads import workloads_of


def off_notices(plan: EnvironmentPlan) -> tuple[str, ...]:
    """Return a warning for each pool that sometimes has no nodes, with the quotas and workloads that cannot be
    used during this time.

    A pool with reserved capacity for certain times is included only if a quota, a workload or a queue depends on
    it.
    """
    return tuple(_notices(plan))


def _notices(plan: EnvironmentPlan) -> Iterator[str]:
    for pool in plan.pools:
        lost = [*_quotas(pool, plan), *_workloads(pool, plan)]
        if pool.schedule is not None:
            yield (
                f"{pool.path}.schedule: pool {pool.name} has nodes {pool.schedule}, {pool.schedule.hours_text}; "
                f"while the pool is off, {_unreachable(pool, plan, lost)}"
            )
        elif _has_times(pool) and (lost or _has_queues(pool, plan)):
            windows = pool.cloud_nodes.windows
            yield (
                f"{pool.path}.capacity: pool {pool.name} has nodes {' and '.join(map(_period, windows))}; before, "
                f"between and after these times {_unreachable(pool, plan, lost)}"
            )


def _has_times(pool: PoolPlan) -> bool:
    """Return whether the capacity of a pool exists only at declared times."""
    return any(window.starts or window.ends for window in pool.cloud_nodes.windows)


def _period(window: CapacityWindow) -> str:
    starts, ends = utc_text(window.starts), utc_text(window.ends)
    return " ".join([*([f"from {starts}"] if starts else []), *([f"until {ends}"] if ends else [])])


def _has_queues(pool: PoolPlan, plan: EnvironmentPlan) -> bool:
    return plan.queues is not None and any(flavor.pool == pool.name for flavor in plan.queues.flavors)


def _unreachable(pool: PoolPlan, plan: EnvironmentPlan, lost: Sequence[str]) -> str:
    what = "pods for this pool wait"
    if lost:
        what += f", and these cannot be used: {'; '.join(lost)}"
    if _has_queues(pool, plan):
        what += (
            "; queues still admit workloads for the pool, and requeue them after queueing.pods_ready_timeout, so "
            "the workloads wait until the pool starts"
        )
    return what


def _quotas(pool: PoolPlan, plan: EnvironmentPlan) -> Iterator[str]:
    """Yield the quotas of the pool's resources that cannot be used while the pool is off.

    A queue has a quota on each pool. Without queues, a quota is included if the other pools do not cover it at
    their maximum size.
    """
    if plan.queues is not None:
        yield from _queued_quotas(pool, plan.queues)
        return
    for offer in pool.resources:
        lasting = [one for one in plan.pools if one.schedule is None and not _has_times(one)]
        left = sum(each.max_units.get(offer.name, 0) for each in lasting)
        quotas = {
            team_plan.namespace: int(count)
            for team_plan in plan.teams
            if (count := team_plan.quota.get(names.quota_key(offer.name), "0")) != "0"
        }
        if sum(quotas.values()) > left:
            of_teams = ", ".join(f"{team} {count}" for team, count in quotas.items())
            yield f"quotas of {offer.name} ({of_teams}; {left or 'none'} left)"


def _queued_quotas(pool: PoolPlan, queues: QueuesPlan) -> Iterator[str]:
    for offer in pool.resources:
        quotas = {
            team.namespace: limits.nominal
            for team in queues.teams
            for flavor in team.flavors
            for limits in flavor.limits
            if flavor.pool == pool.name and limits.resource == offer.name and limits.nominal != "0"
        }
        if quotas:
            of_teams = ", ".join(f"{team} {count}" for team, count in quotas.items())
            yield f"quotas of {offer.name} on this pool ({of_teams})"


def _workloads(pool: PoolPlan, plan: EnvironmentPlan) -> Iterator[str]:
    """Yield the declared workloads that can run only on the pool."""
    for team in plan.teams:
        run = workloads_of(team.namespace, plan.workloads)
        gangs = {job.pod.workload.name for job in run.training_jobs} if run is not None else set[str]()
        pods = [pod.workload for pod in run.all_pods] if run is not None else []
        for workload in (*team.workloads, *pods):
            if workload.pool == pool.name:
                of = f" (gang of {counted(workload.replicas, 'pod')})" if workload.name in gangs else ""
                yield f"{team.namespace}/{workload.name}{of}"
