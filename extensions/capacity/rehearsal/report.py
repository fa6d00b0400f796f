"""Result of a rehearsal: waiting times, use, preemptions, fragmentation and cost, by team and by pool.

All figures cover the time from the first arrival to the end of the last job. Waiting times are for jobs that
started. They include all the time between arrival and end in which the job did not run, for example after a
preemption. Percentiles use the nearest rank.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from extensions.capacity.rehearsal.model import Job, Platform
from extensions.capacity.rehearsal.simulator import Recorded

_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Waiting times in seconds."""

    median: float
    p95: float
    worst: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamReport:
    """Results for the jobs of a team, or for all jobs if `team` is None.

    `unfinished` jobs never received all their pods. `impossible` jobs do not fit on empty nodes, or exceed the
    total quota. `waited_for` contains the number of jobs by what they waited for last. `gpu_hours` are the GPU
    hours of running jobs. `lost_gpu_hours` are the GPU hours spent on repeating work after a preemption.
    `utilisation` is `gpu_hours` divided by the GPU hours of all nodes. `usd` is the cost of `gpu_hours`, or None
    if a price is unknown.
    """

    team: str | None
    jobs: int
    ended: int
    unfinished: int
    impossible: int
    wait: Waits | None
    completion: Waits | None
    waited_for: Mapping[str, int]
    preemptions: int
    gpu_hours: float
    lost_gpu_hours: float
    utilisation: float
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    """Results for a pool over the whole rehearsal.

    `held` is the fraction of the pool's GPUs that pods held, including pods that waited for other pods of their
    job. `fragmented` is the fraction of the pool's GPUs that was free on nodes with pods. Both are None if the
    pool never had a node.
    """

    pool: str
    nodes: float
    gpu_hours: float
    held: float | None
    fragmented: float | None
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLine:
    """Average number of GPUs in equal time intervals of `step` seconds. `used` and `waiting` contain the numbers
    by team.
    """

    step: float
    capacity: Sequence[float]
    used: Mapping[str, Sequence[float]]
    waiting: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Results of a rehearsal.

    `seconds` is the time from the first arrival until the last job ends, and `arrivals` the time from the first to
    the last arrival. `idle_while_waiting` is the fraction of all GPU hours in which a GPU was idle although a
    waiting job needed one. If more GPUs are idle than the waiting jobs request, only the requested number is
    counted.
    """

    seconds: float
    arrivals: float
    total: TeamReport
    teams: Sequence[TeamReport]
    pools: Sequence[PoolReport]
    fragmented: float
    idle_while_waiting: float
    usd: float | None
    line: TimeLine


def report(platform: Platform, recorded: Recorded, steps: int = 240) -> Report:
    """Return the report on a rehearsal. `steps` is the number of intervals on its time line."""
    jobs = recorded.jobs
    seconds = recorded.end - recorded.start
    pools = [_pool(platform, recorded, index, seconds) for index in range(len(platform.pools))]
    all_hours = sum(pool.gpu_hours for pool in pools)
    line = _line(platform, recorded, steps)
    teams = [
        _team(platform, recorded, [job for job in jobs if job.team == index], name, index, all_hours)
        for index, name in enumerate(platform.teams)
    ]
    return Report(
        seconds=seconds,
        arrivals=max((job.job.arrival for job in jobs), default=0.0) - recorded.start if jobs else 0.0,
        total=_team(platform, recorded, jobs, None, None, all_hours),
        teams=teams,
        pools=pools,
        fragmented=sum(recorded.stranded_seconds) / _HOUR / all_hours if all_hours else 0.0,
        idle_while_waiting=_idle_while_waiting(recorded) / _HOUR / all_hours if all_hours else 0.0,
        usd=_sum(pool.usd for pool in pools),
        line=line,
    )


def waits(values: Iterable[float]) -> Waits | None:
    """Return the median, 95th percentile, maximum and mean, or None if there are no values."""
    found = sorted(values)
    if not found:
        return None
    middle = len(found) // 2
    return Waits(
        median=found[middle] if len(found) % 2 else (found[middle - 1] + found[middle]) / 2,
        p95=found[math.ceil(0.95 * len(found)) - 1],
        worst=found[-1],
        mean=sum(found) / len(found),
    )


def _team(
    platform: Platform, recorded: Recorded, jobs: Sequence[Job], name: str | None, index: int | None, hours: float
) -> TeamReport:
    ran: dict[int, float] = {}
    for (team, pool), value in recorded.team_seconds.items():
        if index is None or team == index:
            ran[pool] = ran.get(pool, 0.0) + value
    done = sum(job.job.duration * job.gpus for job in jobs if job.ended is not None)
    used = sum(ran.values())
    return TeamReport(
        team=name,
        jobs=len(jobs),
        ended=sum(job.ended is not None for job in jobs),
        unfinished=sum(job.state not in ("ended", "impossible") for job in jobs),
        impossible=sum(job.state == "impossible" for job in jobs),
        wait=waits(job.waited for job in jobs if job.first_start is not None),
        completion=waits(job.ended - job.job.arrival for job in jobs if job.ended is not None),
        waited_for=dict(Counter[str](job.reason for job in jobs if job.reason is not None)),
        preemptions=sum(job.preemptions for job in jobs),
        gpu_hours=used / _HOUR,
        lost_gpu_hours=max(0.0, used - done) / _HOUR,
        utilisation=used / _HOUR / hours if hours else 0.0,
        usd=_sum(_price(platform, pool, value) for pool, value in ran.items()),
    )


def _price(platform: Platform, index: int, gpu_seconds: float) -> float | None:
    pool = platform.pools[index]
    return None if pool.usd_per_hour is None else gpu_seconds / _HOUR / pool.gpus_per_node * pool.usd_per_hour


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _pool(platform: Platform, recorded: Recorded, index: int, seconds: float) -> PoolReport:
    pool, node_seconds = platform.pools[index], recorded.node_seconds[index]
    gpus = node_seconds * pool.gpus_per_node
    return PoolReport(
        pool=pool.name,
        nodes=node_seconds / seconds if seconds else float(pool.desired),
        gpu_hours=gpus / _HOUR,
        held=recorded.gpu_seconds[index] / gpus if gpus else None,
        fragmented=recorded.stranded_seconds[index] / gpus if gpus else None,
        usd=_price(platform, index, gpus),
    )


# -- over time --------------------------------------------------------------------------------------------


def _line(platform: Platform, recorded: Recorded, steps: int) -> TimeLine:
    seconds = recorded.end - recorded.start
    step = seconds / steps if seconds else 1.0
    teams = platform.teams
    used = [_Steps(recorded.start, step, steps) for _ in teams]
    waiting = [_Steps(recorded.start, step, steps) for _ in teams]
    for time, team, running, waits in recorded.changes:
        if running:
            used[team].change(time, running)
        if waits:
            waiting[team].change(time, waits)
    capacity = _Steps(recorded.start, step, steps)
    before = 0.0
    for time, gpus in recorded.capacity:
        capacity.change(time, gpus - before)
        before = gpus
    return TimeLine(
        step=step,
        capacity=capacity.means(),
        used={name: used[index].means() for index, name in enumerate(teams)},
        waiting={name: waiting[index].means() for index, name in enumerate(teams)},
    )


class _Steps:
    """Computes the averages of a step function over equal time intervals. Changes are added in order of time."""

    def __init__(self, start: float, step: float, steps: int) -> None:
        self._start, self._step = start, step
        self._sums = [0.0] * steps
        self._value, self._time = 0.0, start

    def change(self, time: float, by: float) -> None:
        self._advance(time)
        self._value += by

    def means(self) -> list[float]:
        self._advance(self._start + self._step * len(self._sums))
        return [round(value / self._step, 3) + 0.0 for value in self._sums]

    def _advance(self, time: float) -> None:
        at, value, step, last = self._time, self._value, self._step, len(self._sums) - 1
        if value:
            index = min(last, int((at - self._start) / step))
            while at < time:
                end = time if index >= last else min(time, self._start + step * (index + 1))
                self._sums[index] += value * (end - at)
                at = end
                index = min(last, index + 1)
        self._time = time


def _idle_while_waiting(recorded: Recorded) -> float:
    """Return the GPU seconds in which GPUs were idle although waiting jobs needed them.

    If more GPUs are idle than the waiting jobs request, only the requested number is counted.
    """
    events = [(time, running, waits, 0.0) for time, _, running, waits in recorded.changes]
    before = 0.0
    for time, gpus in recorded.capacity:
        events.append((time, 0.0, 0.0, gpus - before))
        before = gpus
    events.sort(key=lambda one: one[0])
    total = running = waiting = capacity = 0.0
    last = recorded.start
    for time, more_running, more_waiting, more_capacity in [*events, (recorded.end, 0.0, 0.0, 0.0)]:
        total += (time - last) * max(0.0, min(capacity - running, waiting))
        last = time
        running += more_running
        waiting += more_waiting
        capacity += more_capacity
    return total
