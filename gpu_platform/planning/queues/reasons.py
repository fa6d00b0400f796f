"""Decisions about queues with their reasons, as `check` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_platform.base.quantity import amount_text
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues.section import QueuesPlan, TeamQueuePlan
from gpu_platform.planning.queues.shares import Offers, Shares, queue_settings
from gpu_platform.planning.queues.starts import DividedPools, Start, main_lacks, starts
from gpu_platform.planning.queues.topology import unsuitable
from gpu_platform.planning.teams.quota_of_pods import quota_units
from gpu_platform.stack.queueing import Queueing
from gpu_platform.stack.team import Team


def queueing_decisions(
    stack: str, queueing: Queueing, planned: QueuesPlan, pools: Sequence[PoolPlan], cloud: Cloud
) -> tuple[Decision, ...]:
    """Return the decisions about Kueue, its topology and the ResourceQuotas."""
    kueue = planned.kueue
    subject = f"stack {stack}"
    who = {
        "helm": ("installed by its chart", "queueing.kueue"),
        "config": (
            "run by the sandbox",
            "no sandbox node can run Kueue; the first `up` builds the binary, which takes a few minutes",
        ),
        "present": ("present", "the owner of the cluster installs, configures and upgrades it"),
    }
    chosen, why = who[kueue.install]
    found = [
        Decision(subject=subject, what="Kueue", chosen=f"{kueue.version}, {chosen}", why=why),
        Decision(
            subject=subject,
            what="topology-aware scheduling",
            chosen="yes" if planned.topologies else "no",
            why=_why_topology(queueing, planned, pools, cloud),
        ),
        Decision(
            subject=subject,
            what="ResourceQuotas of teams",
            chosen="nominal quota and borrowing limit together",
            why="with only the nominal quota, the API server would refuse pods on borrowed quota; with "
            "no ResourceQuota, pods of deleted workloads would hold GPUs of other teams until their grace period "
            "ends",
        ),
    ]
    return tuple(found)


def _why_topology(queueing: Queueing, planned: QueuesPlan, pools: Sequence[PoolPlan], cloud: Cloud) -> str:
    if queueing.topology is False:
        return "queueing.topology"
    if not planned.topologies:
        return "Kueue counts only nodes that exist, and " + ", ".join(unsuitable(pools, cloud))
    fixed = "all pools have a fixed size and a device plugin"
    if cloud.creates_cluster or cloud.runs_kueue:
        return fixed
    return f"{fixed}; assumed: no autoscaler adds nodes without GPUs"


def queue_decisions(
    teams: Sequence[Team], queues: Sequence[TeamQueuePlan], divided: DividedPools
) -> tuple[Decision, ...]:
    """Return decisions about each queue, about the declared workloads that it can start, and about limits that are
    too high.
    """
    by_name = {queue.namespace: queue for queue in queues}
    found: list[Decision] = []
    for team in teams:
        shares, queue = divided.division.teams[team.name], by_name[team.name]
        found.append(
            Decision(
                subject=f"team {team.name}",
                what="queue",
                chosen=queue.local_queue,
                why=_limits_text(shares, queue.cohort, divided.offers),
            )
        )
        found += [_start(team, start) for start in starts(team, divided)]
        found += _warnings(team, shares)
    return tuple(found)


def _limits_text(shares: Shares, cohort: str, offers: Offers) -> str:
    texts: list[str] = []
    for name, of_resource in offers.items():
        nominal, borrow, lend = (part[name] for part in (shares.nominal, shares.borrow, shares.lend))
        if not any((*nominal.values(), *borrow.values())):
            continue
        parts = ", ".join(f"{units} on {pool}" for pool, units in nominal.items() if units)
        where = f" ({parts})" if parts and len(of_resource) > 1 else ""
        texts.append(
            f"{sum(nominal.values())} {name}{where}, borrows at most {_lent(name, shares)}, "
            f"lends at most {sum(lend.values())}"
        )
    return "; ".join(texts) + f" (cohort {cohort})" if texts else "the team has no GPU quota"


def _lent(resource: str, shares: Shares) -> str:
    """Return how many units of a resource a team can borrow, and how many of these units the cohort cannot lend
    yet.
    """
    lent = sum(shares.lent[resource].values())
    rest = sum(shares.borrow[resource].values()) - lent
    return f"{lent}" + (f" ({rest} more when teams with their own stack lend them in the cohort)" if rest else "")


def _start(team: Team, start: Start) -> Decision:
    """Return the decision that states whether a declared workload starts on the team's own quota while all other
    teams use their quotas.
    """
    job = start.job
    what = f"{job.path} ({job.name})"
    if not start.lacks:
        return Decision(
            subject=f"team {team.name}",
            what=what,
            chosen="starts on the team's own quota",
            why=f"{job.requests[job.resource]} {job.resource} on pool {job.pool}, even while other teams use "
            "their quotas",
        )
    lacks = "; ".join(
        f"{one.text(one.needed)}, quota there {amount_text(one.resource, one.own)}"
        for one in main_lacks(job, start.lacks)
    )
    return Decision(
        subject=f"team {team.name}",
        what=f"warning: {what}",
        chosen="starts only when teams with their own stack lend quota in the cohort"
        if start.waits_for_stacks
        else "starts only on borrowed quota",
        why=f"on pool {job.pool} it needs {lacks}"
        + (", together with pods that always run" if start.beside else "")
        + f"; {start.advice}",
    )


def _warnings(team: Team, shares: Shares) -> Iterator[Decision]:
    settings = queue_settings(team)
    if settings.borrow is None:
        return
    for name, units in quota_units(settings.borrow).items():
        if units > sum(shares.borrow[name].values()):
            yield Decision(
                subject=f"team {team.name}",
                what="warning: borrow",
                chosen=f"{units} {name}",
                why=f"cohort {settings.cohort} lends at most {_lent(name, shares)}",
            )
