"""Decide which pools are for a team's workloads, and warn about quotas that these pools cannot satisfy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gpu_platform.base import names
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.planning.teams.team_plans import DEFAULT_PRIORITIES


def is_for(workload: str, priorities: Collection[str]) -> bool:
    """Return whether a pool with this workload type is for a team that may use these priority classes.

    A pool for training or inference is for teams that may use the priority class with the same name.
    """
    return workload not in DEFAULT_PRIORITIES or workload in priorities


def gpu_quota_decisions(
    teams: Sequence[TeamPlan], pools: Sequence[PoolPlan], overcommit: float
) -> Iterator[Decision]:
    """Yield a warning for quotas that only pools for other workload types could satisfy.

    A quota counts all units of a resource name. On GKE the same name can mean whole GPUs of one pool and GPU
    shares of another.
    """
    for resource in dict.fromkeys(name for pool in pools for name in pool.max_units):
        offering = [pool for pool in pools if pool.max_units.get(resource)]
        quotas = {one.namespace: int(one.quota.get(names.quota_key(resource), "0")) for one in teams}
        own = {
            one.namespace: tuple(pool.name for pool in offering if is_for(pool.workload, one.priorities))
            for one in teams
            if quotas[one.namespace]
        }
        for chosen in dict.fromkeys(own.values()):
            others = [pool.name for pool in offering if pool.name not in chosen]
            if not chosen or not others:
                continue
            shares = {team: quotas[team] for team, of_team in own.items() if set(of_team) <= set(chosen)}
            most = sum(pool.max_units[resource] for pool in offering if pool.name in chosen) * overcommit
            if sum(shares.values()) > most:
                listed = ", ".join(f"{team} {units}" for team, units in shares.items())
                yield Decision(
                    subject="teams",
                    what="warning: quota",
                    chosen=f"{sum(shares.values())} {resource} ({listed})",
                    why=f"the pools for the work of these teams ({', '.join(chosen)}) have at most {most:g}; "
                    f"further pods wait, or run on {', '.join(others)}, which have the same resource "
                    "for other work. Lower the quotas, raise a count.max, "
                    "or give the teams the priority of that work",
                )
