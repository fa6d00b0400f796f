"""Simulator that replays jobs on a platform, event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from extensions.capacity.rehearsal.kueue import Kueue
from extensions.capacity.rehearsal.model import CPU, MEMORY, Assumptions, Job, Platform, TraceJob
from extensions.capacity.rehearsal.nodes import PoolNodes, all_gpus, release_all
from extensions.capacity.rehearsal.quota import Requests, build_queues
from extensions.capacity.rehearsal.scheduler import PodScheduler

_RETRY_SECONDS = 60.0
_MOST_RETRY_SECONDS = 3600.0


@dataclass(slots=True)
class Recorded:
    """Record of a rehearsal: runs of jobs, and GPU time by pool and team.

    Each entry of `changes` is a tuple: time, team, change in GPUs of running jobs, and change in GPUs of waiting
    jobs. Each entry of `capacity` is a pair: a time, and the number of GPUs on all nodes from then on. Three
    fields contain seconds by pool: `node_seconds` of nodes, `gpu_seconds` of GPUs that pods hold, and
    `stranded_seconds` of free GPUs on nodes with pods. `team_seconds` contains the GPU seconds of running jobs, by
    team and pool. Each entry of `runs` is a job with the start and end of one run. A job that was stopped can have
    several entries.
    """

    jobs: list[Job]
    changes: list[tuple[float, int, float, float]] = field(default_factory=list[tuple[float, int, float, float]])
    node_seconds: list[float] = field(default_factory=list[float])
    gpu_seconds: list[float] = field(default_factory=list[float])
    stranded_seconds: list[float] = field(default_factory=list[float])
    capacity: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    team_seconds: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    runs: list[tuple[Job, float, float]] = field(default_factory=list[tuple[Job, float, float]])
    start: float = 0.0
    end: float = 0.0


class Admission(Protocol):
    """Decides which jobs start, and which jobs are stopped for others.

    `can_ever_run` returns whether a job could start if nothing else ran. `submit` adds a job to the waiting jobs,
    for the first time or again. `release` reports that a job has ended and its nodes are free. `run` starts and
    stops jobs.
    """

    def can_ever_run(self, job: Job, /) -> bool: ...
    def submit(self, job: Job, /) -> None: ...
    def release(self, job: Job, /) -> None: ...
    def run(self, now: float, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """Functions for an `Admission` that is defined outside this package.

    `start` runs a waiting job after all its pods have been assigned to nodes of `job.pool`. `stop` returns a
    running job to the waiting jobs after its nodes have been released.
    """

    pools: list[PoolNodes]
    start: Callable[[Job], None]
    stop: Callable[[Job], None]


def rehearse(
    platform: Platform,
    trace: Sequence[TraceJob],
    assumptions: Assumptions | None = None,
    advance: Callable[[], None] | None = None,
    admission: Callable[[Actions], Admission] | None = None,
) -> Recorded:
    """Rehearse a trace on a platform and return the record. The teams of the jobs must be teams of the platform.

    `advance` is called once for each job that has ended. `admission` replaces the queues or quotas of the
    platform. If it is given, the number of nodes in each pool stays constant.
    """
    return _Simulation(platform, trace, assumptions or Assumptions(), advance or _nothing, admission).run()


def _nothing() -> None:
    pass


class _Simulation:
    def __init__(
        self,
        platform: Platform,
        trace: Sequence[TraceJob],
        assumptions: Assumptions,
        advance: Callable[[], None],
        admission: Callable[[Actions], Admission] | None,
    ) -> None:
        self._platform, self._assumptions, self._advance = platform, assumptions, advance
        self._pools = [PoolNodes(index, pool, packs=platform.packs) for index, pool in enumerate(platform.pools)]
        names = dict.fromkeys(name for pool in platform.pools for name in pool.offers)
        columns = {name: index for index, name in enumerate((*names, CPU, MEMORY))}
        team = {name: index for index, name in enumerate(platform.teams)}
        arriving = sorted(trace, key=lambda one: one.arrival)
        self._jobs = [Job(one, order, team[one.team]) for order, one in enumerate(arriving)]
        self._events: list[tuple[float, int, int, Job | None, int]] = []
        self._count = 0
        self._woken: set[float] = set()
        self._scheduler = PodScheduler(
            self._pools, assumptions, started=self._run_job, stop=self._lose_pod, wake=self._wake
        )
        self._queues: Admission | None = None
        self._quotas: _Quotas | None = None
        self._whole = admission is not None or platform.topology  # queues assign all nodes of a job at once
        if admission is not None:
            self._queues = admission(Actions(pools=self._pools, start=self._admit, stop=self._stop))
        elif platform.queues:
            requests = Requests(self._pools, columns)
            by_team = {one.team: one for one in platform.queues}
            queues = build_queues(
                [by_team[name] for name in platform.teams], platform.cohorts, self._pools, columns
            )
            self._queues = Kueue(
                queues,
                self._pools,
                requests,
                fair=platform.fair_sharing,
                topology=platform.topology,
                start=self._admit,
                stop=self._stop,
            )
        else:
            self._quotas = _Quotas([dict(platform.quotas.get(name, {})) for name in platform.teams], self._pools)
        self._now = 0.0
        self._open = 0  # jobs that have arrived but not ended
        self._changes = 0
        self._recorded = Recorded(self._jobs)
        self._recorded.node_seconds = [0.0] * len(self._pools)
        self._recorded.gpu_seconds = [0.0] * len(self._pools)
        self._recorded.stranded_seconds = [0.0] * len(self._pools)

    def run(self) -> Recorded:
        jobs, events, at = self._jobs, self._events, 0
        if not jobs:
            return self._recorded
        self._now = self._recorded.start = self._recorded.end = jobs[0].job.arrival
        self._wake(self._now)
        while events or at < len(jobs):
            now = jobs[at].job.arrival if at < len(jobs) else events[0][0]
            if events and events[0][0] < now:
                now = events[0][0]
            self._integrate(now)
            while events and events[0][0] <= now:
                _, kind, _, job, epoch = heappop(events)
                if job is None:
                    self._woken.discard(now)
                elif job.epoch == epoch:
                    if kind == _END:
                        self._end(job)
                    elif kind == _TIMEOUT and job.state == "placing":
                        self._time_out(job)
                    elif kind == _RETRY:
                        self._submit(job)
            while at < len(jobs) and jobs[at].job.arrival <= now:
                self._arrive(jobs[at])
                at += 1
            self._settle()
            if at >= len(jobs) and not self._open:
                break
        return self._recorded

    # -- time ---------------------------------------------------------------------------------------------

    def _integrate(self, now: float) -> None:
        seconds = now - self._now
        if seconds > 0:
            recorded = self._recorded
            for index, pool in enumerate(self._pools):
                recorded.node_seconds[index] += pool.count * seconds
                recorded.gpu_seconds[index] += pool.used_gpus * seconds
                recorded.stranded_seconds[index] += pool.stranded * seconds
            gpus = all_gpus(self._pools)
            if not recorded.capacity or recorded.capacity[-1][1] != gpus:
                recorded.capacity.append((self._now, gpus))
            self._now = recorded.end = now

    def _schedule(self, time: float, kind: int, job: Job | None, epoch: int) -> None:
        self._count += 1
        heappush(self._events, (time, kind, self._count, job, epoch))

    def _wake(self, time: float) -> None:
        if time not in self._woken:
            self._woken.add(time)
            self._schedule(time, _WAKE, None, 0)

    def _settle(self) -> None:
        """Run the queues and the scheduler until nothing more changes at the current time."""
        while True:
            before = (self._changes, len(self._scheduler.waiting))
            if self._queues is not None:
                self._queues.run(self._now)
            if self._quotas is not None:
                self._quotas.create_pods(self._scheduler)
            if not self._whole or self._queues is None:
                self._scheduler.run(self._now)
            if (self._changes, len(self._scheduler.waiting)) == before:
                return

    # -- jobs ---------------------------------------------------------------------------------------------

    def _arrive(self, job: Job) -> None:
        queues, quotas = self._queues, self._quotas
        possible = (
            queues.can_ever_run(job) if queues is not None else quotas is not None and quotas.can_ever_run(job)
        )
        if not possible:
            job.state = "impossible"
            self._advance()
            return
        self._open += 1
        job.since = self._now
        self._record(job, 0, 1)
        self._submit(job)

    def _submit(self, job: Job) -> None:
        job.state = "queued"
        self._changes += 1
        if self._queues is not None:
            self._queues.submit(job)
        elif self._quotas is not None:
            job.admitted = self._now
            job.missing = job.shape.pods
            job.state = "placing"
            self._quotas.submit(job)
            self._scheduler.add(job)

    def _admit(self, job: Job) -> None:
        """Handle a job that its queue admitted. The job runs, or its pods wait for nodes."""
        self._changes += 1
        if self._whole:
            self._run_job(job)
            return
        job.state = "placing"
        job.epoch += 1
        job.missing = job.held = job.shape.pods
        self._scheduler.add(job)
        self._schedule(self._now + self._platform.pods_ready_timeout, _TIMEOUT, job, job.epoch)

    def _run_job(self, job: Job) -> None:
        self._changes += 1
        job.state = "running"
        job.waited += self._now - job.since
        job.since = self._now
        if job.first_start is None:
            job.first_start = self._now
        job.epoch += 1
        self._record(job, 1, -1)
        self._schedule(self._now + job.left, _END, job, job.epoch)

    def _end(self, job: Job) -> None:
        job.state = "ended"
        job.ended = self._now
        job.left = 0.0
        self._record(job, -1, 0)
        self._count_seconds(job)
        self._open -= 1
        release_all(self._pools, job, self._now)
        if self._queues is not None:
            self._queues.release(job)
        elif self._quotas is not None:
            self._quotas.release(job)
        self._advance()

    def _stop(self, job: Job) -> None:
        """Requeue a job that its queue preempted. Its quota and nodes have already been released."""
        self._count_stop(job)
        self._scheduler.drop(job)
        self._submit(job)

    def _count_stop(self, job: Job) -> None:
        self._changes += 1
        job.epoch += 1
        if job.state == "running":
            job.preemptions += 1
            self._count_seconds(job)
            every = self._assumptions.checkpoint
            if every:
                done = self._now - job.since
                job.left -= done // every * every
            job.since = self._now
            self._record(job, -1, 1)

    def _lose_pod(self, job: Job) -> None:
        """Stop a job that loses a pod to kube-scheduler's preemption. All its pods wait for nodes again."""
        self._count_stop(job)
        release_all(self._pools, job, self._now)
        job.missing = job.shape.pods
        if self._queues is not None:
            job.state = "placing"
            self._schedule(self._now + self._platform.pods_ready_timeout, _TIMEOUT, job, job.epoch)
        else:
            job.state = "placing"
        self._scheduler.add(job)

    def _time_out(self, job: Job) -> None:
        """Requeue a job whose pods were not ready in time. Kueue tries it again after a delay."""
        queues = self._queues
        assert queues is not None  # noqa: S101 - there is no timeout without them
        self._scheduler.drop(job)
        release_all(self._pools, job, self._now)
        queues.release(job)
        job.state = "queued"
        job.epoch += 1
        job.timeouts += 1
        job.queued = self._now
        wait = min(_MOST_RETRY_SECONDS, _RETRY_SECONDS * 2.0 ** (job.timeouts - 1))
        self._schedule(self._now + wait, _RETRY, job, job.epoch)

    def _count_seconds(self, job: Job) -> None:
        """Add the GPU time of a job from its last start until now."""
        shape, found = job.shape, self._recorded.team_seconds
        self._recorded.runs.append((job, job.since, self._now))
        pods = {job.pool: shape.pods} if job.pool >= 0 else Counter[int]()
        if job.pool < 0:
            for (pool, _), count in job.places.items():
                pods[pool] += count
        for pool, count in pods.items():
            gpus = self._pools[pool].pool.gpus[shape.resource] * shape.units * count
            key = (job.team, pool)
            found[key] = found.get(key, 0.0) + gpus * (self._now - job.since)

    def _record(self, job: Job, used: int, waiting: int) -> None:
        gpus = job.gpus = job.gpus or self._gpus(job)
        self._recorded.changes.append((self._now, job.team, used * gpus, waiting * gpus))

    def _gpus(self, job: Job) -> float:
        shape = job.shape
        for pool in self._pools:
            if shape.resource in pool.pool.gpus and shape.pool in (None, pool.pool.name):
                return pool.pool.gpus[shape.resource] * shape.units * shape.pods
        return 0.0


_END, _TIMEOUT, _RETRY, _WAKE = range(4)


class _Quotas:
    """ResourceQuotas of teams. Pods are created in the order of their jobs, as long as the quotas allow it."""

    def __init__(self, left: list[dict[str, int]], pools: list[PoolNodes]) -> None:
        self._left, self._pools = left, pools
        self._most = [dict(one) for one in left]
        self._jobs: list[dict[Job, None]] = [{} for _ in left]
        self._open = [True] * len(left)

    def _request(self, job: Job) -> Iterator[tuple[str, int]]:
        """Yield the usage of one pod, by ResourceQuota key."""
        shape = job.shape
        need = next((found for pool in self._pools if (found := pool.need(shape)) is not None), None)
        cpu, memory = (0, 0) if need is None else need[2:]
        yield shape.resource, shape.units
        yield CPU, cpu
        yield MEMORY, memory
        yield "pods", 1

    def can_ever_run(self, job: Job) -> bool:
        """Return whether all pods of a job fit within the quota and on the nodes when nothing else runs."""
        most = self._most[job.team]
        for name, amount in self._request(job):
            if name in most and amount * job.shape.pods > most[name]:
                return False
        room = 0
        for pool in self._pools:
            need = pool.need(job.shape)
            room += pool.per_node(need) * max(pool.pool.max, pool.pool.desired) if need is not None else 0
        return room >= job.shape.pods

    def submit(self, job: Job) -> None:
        """Queue the pods of a job for creation. Pods that already exist still use quota."""
        self._jobs[job.team][job] = None
        self._open[job.team] = True

    def release(self, job: Job) -> None:
        """Release the quota that the pods of an ended job used."""
        left = self._left[job.team]
        for name, amount in self._request(job):
            if name in left:
                left[name] += amount * job.held
        job.held = 0
        self._open[job.team] = True

    def create_pods(self, scheduler: PodScheduler) -> None:
        """Create the pods that the quotas allow."""
        for team, jobs in enumerate(self._jobs):
            if not jobs or not self._open[team]:
                continue
            self._open[team] = False
            left = self._left[team]
            for job in list(jobs):
                request = [(name, amount) for name, amount in self._request(job) if name in left and amount]
                more = min([job.shape.pods - job.held, *(left[name] // amount for name, amount in request)])
                for name, amount in request:
                    left[name] -= amount * more
                job.held += more
                if job.held == job.shape.pods:
                    del jobs[job]
                else:
                    job.reason = "quota"
                if more:
                    scheduler.add(job)
