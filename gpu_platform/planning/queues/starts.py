"""Compare the requests of declared workloads with the quota on their pools: the team's own quota, and the quota
that other teams can lend.

Kueue starts a workload when one flavor has quota for all resources of all its pods (kubernetes-sigs/kueue v0.19.2,
pkg/scheduler/flavorassigner/flavorassigner.go; read 2026-11-28). A team can reclaim the quota that it has lent. A
team cannot borrow quota that another team uses at all times for its own workloads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_platform.base.quantity import amount_text
from gpu_platform.planning.pools.free import free_resources
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues.limits import amounts, cohort_amounts
from gpu_platform.planning.queues.shares import Division, Offers, queue_settings
from gpu_platform.planning.queues.work import DeclaredJob
from gpu_platform.planning.teams.quota_of_pods import quota_place
from gpu_platform.stack.team import Team


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedPools:
    """The resources of the pools, their division among teams, and the declared workloads of all teams.

    `teams` are the teams of the environment. The division may also contain a team with its own stack.
    """

    teams: Sequence[Team]
    pools: Sequence[PoolPlan]
    offers: Offers
    work: Mapping[str, Sequence[DeclaredJob]]
    division: Division


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """A resource for which the team's own quota on the pool is too small.

    `lent` is the maximum that other teams can lend now. `later` also includes units that teams with their own
    stack will lend.
    """

    resource: str
    needed: int
    own: int
    lent: int
    later: int

    def text(self, amount: int) -> str:
        """Return an amount of the resource as text."""
        return f"{amount_text(self.resource, amount)} {self.resource}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A declared job, and the resources for which the team's own quota is too small to start it. `beside`
    indicates whether other workloads of the team always run on the same pool.

    `advice` describes the change that allows the job to start on the team's own quota.
    """

    job: DeclaredJob
    beside: bool
    lacks: tuple[Lack, ...] = ()
    advice: str = ""

    @property
    def impossible(self) -> tuple[Lack, ...]:
        """Resources that the job cannot get, even if other teams lend as much as they can."""
        return tuple(one for one in self.lacks if one.needed > one.own + one.later)

    @property
    def waits_for_stacks(self) -> bool:
        """Whether the job cannot start until teams with their own stack lend their quota."""
        return any(one.needed > one.own + one.lent for one in self.lacks)


def starts(team: Team, divided: DividedPools) -> Iterator[Start]:
    """Yield each declared job of a team, with the resources for which the team's own quota is too small to start
    it.
    """
    shares, offers, work = divided.division.teams[team.name], divided.offers, divided.work[team.name]
    for job in work:
        pool = next(one for one in divided.pools if one.name == job.pool)
        own, limit, lent = (amounts(pool, part, offers) for part in (shares.nominal, shares.borrow, shares.lent))
        others = _lendable(team, pool, divided)
        beside = [one for one in work if not one.ends and one.pool == job.pool and one is not job]
        lacks: list[Lack] = []
        for name, amount in job.requests.items():
            needed = amount + sum(one.requests.get(name, 0) for one in beside)
            if needed > own[name]:
                now = min(limit[name], others[name])
                later = min(limit[name], others[name] + limit[name] - lent[name])
                lacks.append(Lack(resource=name, needed=needed, own=own[name], lent=now, later=later))
        advice = _advice(team, job, lacks, pool, divided) if lacks else ""
        yield Start(job=job, beside=bool(beside), lacks=tuple(lacks), advice=advice)


def main_lacks(job: DeclaredJob, lacks: Sequence[Lack]) -> Sequence[Lack]:
    """Return the missing resources to report. If GPUs are missing, only GPUs are reported, because a quota for
    GPUs also adds CPU and memory.
    """
    return [one for one in lacks if one.resource == job.resource] or lacks


def _lendable(team: Team, pool: PoolPlan, divided: DividedPools) -> Mapping[str, int]:
    """Return the amounts of a pool's resources that the other teams of its cohort can lend to a team.

    The amounts include units that belong to no quota, and quota that other teams do not always use.
    """
    division, cohort = divided.division, queue_settings(team).cohort
    of_environment = [division.teams[one.name] for one in divided.teams]
    unassigned = cohort_amounts(division, of_environment, divided.offers, pool).get(cohort, {})
    found = {name: unassigned.get(name, 0) for name in ("cpu", "memory", *divided.offers)}
    for other in divided.teams:
        if other.name != team.name and queue_settings(other).cohort == cohort:
            shares = division.teams[other.name]
            own, lend = (amounts(pool, part, divided.offers) for part in (shares.nominal, shares.lend))
            for name, units in lend.items():
                found[name] += max(0, min(units, own[name] - _always(other, name, pool, divided)))
    return found


def _always(team: Team, resource: str, pool: PoolPlan, divided: DividedPools) -> int:
    """Return how much of a resource a team's workloads use on a pool at all times."""
    return sum(job.always.get(resource, 0) for job in divided.work[team.name] if job.pool == pool.name)


def _advice(team: Team, job: DeclaredJob, lacks: Sequence[Lack], pool: PoolPlan, divided: DividedPools) -> str:
    """Return the advice on how a team can get enough quota for a job.

    If the pool has enough unassigned units, the advice is to raise the team's quota. Otherwise, other quotas or
    the reserve must also be lowered, or the pool needs more nodes. The quota of a team with its own stack comes
    from `queueing.reserve`, which only the environment can raise.
    """
    name, resource, division = pool.name, job.resource, divided.division
    quotas = {one.name: division.teams[one.name].nominal[resource] for one in (*divided.teams, team)}
    own, reserved = quotas[team.name], division.reserve[resource].get(name, 0)
    more = max(_units(one, job, pool, divided.offers) for one in lacks)
    unassigned = sum(units[resource].get(name, 0) for units in division.cohorts.values())
    of_environment = team in divided.teams
    left = unassigned if of_environment else reserved - own.get(name, 0)
    if more <= left:
        wanted = {**{pool: units for pool, units in own.items() if units}, name: own.get(name, 0) + more}
        by_pool = ", ".join(f"{pool}: {units}" for pool, units in sorted(wanted.items()))
        return f"write quota.{quota_place(resource)}: {{{by_pool}}}, or reduce the workload's request"
    others = {
        f"the quota of {one.name}": quotas[one.name].get(name, 0) - _always(one, resource, pool, divided)
        for one in divided.teams
        if one is not team
    }
    reserve = {"queueing.reserve": reserved} if of_environment else {}
    spare = {place: units for place, units in {**others, **reserve}.items() if units > 0}
    missing = more - left if of_environment else more - left - unassigned
    if missing > sum(spare.values()):
        where = "" if of_environment else ", queueing.reserve in the environment"
        return f"reduce the workload's request, or raise the count of the pool{where} and the team's quota"
    lower = f"lower {' and '.join(spare)} by {missing}" if missing > 0 else ""
    if of_environment:
        return f"reduce the workload's request, or raise the team's quota on pool {name} by {more} and {lower}"
    steps = [
        f"raise queueing.reserve in the environment by {more - left}",
        *([lower] if lower else []),
        f"raise the team's quota by {more}",
    ]
    return f"reduce the workload's request, or {', '.join(steps[:-1])} and {steps[-1]}, all on pool {name}"


def _units(lack: Lack, job: DeclaredJob, pool: PoolPlan, offers: Offers) -> int:
    """Return how many units of the job's GPU resource to add to the quota, so that it covers the missing amount.

    A GPU quota also adds CPU and memory, so units are added for missing CPU or memory too.
    """
    free = free_resources(pool)
    of_node = {"cpu": free.cpu_millicores, "memory": free.memory_mib * 2**20}.get(lack.resource)
    offer = next((one for one in offers[job.resource] if one.pool is pool), None)
    missing = lack.needed - lack.own
    if of_node is None or offer is None or not offer.gpus:
        return missing
    return math.ceil(missing * pool.gpus_per_node / (of_node * offer.gpus))
