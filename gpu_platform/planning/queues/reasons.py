"""Decisions about queues with their reasons, as `check` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues.section import QueuesPlan, TeamQueuePlan
from gpu_platform.planning.queues.shares import queue_settings
from gpu_platform.planning.queues.topology import unsuitable
from gpu_platform.planning.teams.quota_of_pods import quota_units
from gpu_platform.spec.queueing import Queueing
from gpu_platform.spec.team import Team


def queueing_decisions(
    stack: str, queueing: Queueing, planned: QueuesPlan, pools: Sequence[PoolPlan], *, aware: bool
) -> tuple[Decision, ...]:
    """Return the decisions about Kueue, topology and ResourceQuotas."""
    kueue = planned.kueue
    subject = f"stack {stack}"
    who = {
        "helm": ("installed by its chart", "queueing.kueue"),
        "config": ("run by the sandbox", "the sandbox has no nodes that could run it"),
        "present": ("present", "the owner of the cluster installs, configures and upgrades it"),
    }
    chosen, why = who[kueue.install]
    found = [
        Decision(subject=subject, what="Kueue", chosen=f"{kueue.version}, {chosen}", why=why),
        Decision(
            subject=subject,
            what="topology-aware scheduling",
            chosen="yes" if aware else "no",
            why="all pools have a fixed size and a device plugin"
            if aware
            else "queueing.topology"
            if queueing.topology is False
            else "Kueue counts nodes that exist, and " + ", ".join(unsuitable(pools)),
        ),
        Decision(
            subject=subject,
            what="ResourceQuotas of teams",
            chosen="nominal quota and borrowing limit together",
            why="with the nominal quota alone the API server would refuse pods that Kueue starts on borrowed "
            "quota",
        ),
    ]
    return tuple(found)


def queue_decisions(teams: Sequence[Team], queues: Sequence[TeamQueuePlan]) -> tuple[Decision, ...]:
    """Return the decision about each queue, and a warning where a team may borrow more than others lend."""
    by_name = {queue.namespace: queue for queue in queues}
    found = [
        Decision(
            subject=f"team {team.name}",
            what="queue",
            chosen=by_name[team.name].local_queue,
            why=_limits_text(by_name[team.name]),
        )
        for team in teams
        if team.name in by_name
    ]
    return (*found, *(warning for team in teams for warning in _warnings(team, teams)))


def _limits_text(queue: TeamQueuePlan) -> str:
    sums: dict[str, list[int]] = {}
    for flavor in queue.flavors:
        for limit in flavor.limits:
            if limit.resource in ("cpu", "memory"):
                continue
            total = sums.setdefault(limit.resource, [0, 0, 0])
            for index, units in enumerate((limit.nominal, limit.borrow, limit.lend)):
                total[index] += int(units)
    texts = [
        f"{nominal} of {name}, borrows at most {borrow}, lends at most {lend}"
        for name, (nominal, borrow, lend) in sums.items()
        if nominal or borrow
    ]
    return "; ".join(texts) + f" (cohort {queue.cohort})" if texts else "the team has no quota of GPUs"


def _warnings(team: Team, teams: Sequence[Team]) -> Iterator[Decision]:
    settings = queue_settings(team)
    if settings.borrow is None:
        return
    lent = _lent_by_others(team, teams)
    for name, units in quota_units(settings.borrow).items():
        if units > lent.get(name, 0):
            yield Decision(
                subject=f"team {team.name}",
                what="warning: borrow",
                chosen=f"{units} of {name}",
                why=f"other teams of cohort {settings.cohort} in this stack lend at most {lent.get(name, 0)}",
            )


def _lent_by_others(team: Team, teams: Sequence[Team]) -> Mapping[str, int]:
    lent: dict[str, int] = {}
    cohort = queue_settings(team).cohort
    for other in teams:
        settings = queue_settings(other)
        if other.name != team.name and settings.cohort == cohort:
            for name, units in quota_units(other.quota if settings.lend is None else settings.lend).items():
                lent[name] = lent.get(name, 0) + units
    return lent
