"""FIFO, SJF and SRTF job orders of published schedulers, for simulations of virtual clusters.

Each team has a separate pool (a virtual cluster), and a job with n GPUs consists of n pods with one GPU each. All
GPUs of a job are placed at once and consolidated. If a job fits on one node, it runs on the node with the fewest
free GPUs among the nodes that have enough. A larger job fills empty nodes and places its remaining GPUs on one
more node: the node with the most free GPUs.

The code follows S-Lab-System-Group/HeliosArtifact (Hu et al., "Characterization and Prediction of Deep Learning
Workloads in Large-Scale GPU Datacenters", SC 2021) at commit bdaae10, framework/QSSF Service: policies/fifo.py,
sjf.py and srtf.py, policies/placer/consolidate.py. Read 2026-11-26. That code uses whole seconds, so all times
must be whole seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush, nsmallest

from extensions.capacity.rehearsal.model import Job
from extensions.capacity.rehearsal.nodes import PoolNodes, release_all
from extensions.capacity.rehearsal.simulator import Actions, Admission


def consolidated(cluster: PoolNodes, gpus: int) -> dict[int, int] | None:
    """Return how many GPUs of a job each node would hold, or None if the job has to wait."""
    free = cluster.by_free[0]
    whole = len(free) - 1
    if gpus <= whole:
        return next(({min(nodes): gpus} for nodes in free[gpus:] if nodes), None)
    count, rest = divmod(gpus, whole)
    found = dict.fromkeys(nsmallest(count, free[whole]), whole)
    if len(found) < count:
        return None
    if not rest:
        return found
    others = (nodes - found.keys() for nodes in reversed(free[rest:]))
    return next((found | {min(nodes): rest} for nodes in others if nodes), None)


def restart_seconds(gpus: int) -> float:
    """Return how many seconds each preemption adds to a job's run time (policies/policy.py, ckpt_overhead)."""
    return 7.0 if gpus == 1 else 30.0 if gpus <= 8 else 60.0


class _Clusters:
    """Schedules the jobs of the virtual clusters that have changed, at most once per point in time."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions
        self._pools = {cluster.pool.name: cluster for cluster in actions.pools}
        self._changed: dict[str, None] = {}

    def can_ever_run(self, job: Job) -> bool:
        cluster = self._pools[job.job.team]
        return job.shape.pods <= cluster.count * cluster.pool.gpus_per_node

    def submit(self, job: Job) -> None:
        self._changed[job.job.team] = None

    def release(self, job: Job) -> None:
        self._changed[job.job.team] = None

    def _place(self, job: Job, now: float) -> bool:
        """Start a job if its pods can be placed now; return whether it started."""
        cluster = self._pools[job.job.team]
        places = consolidated(cluster, job.shape.pods)
        if places is None:
            job.reason = "nodes"
            return False
        job.pool, job.admitted = cluster.index, now
        for node, gpus in places.items():
            cluster.take(job, node, gpus)
        self._actions.start(job)
        return True


class InOrder(_Clusters):
    """Starts the jobs of each cluster in a fixed order. A job that does not fit blocks all jobs behind it."""

    def __init__(self, actions: Actions, key: Callable[[Job], float]) -> None:
        super().__init__(actions)
        self._key = key
        self._waiting: dict[str, list[tuple[float, int, Job]]] = {name: [] for name in self._pools}

    def submit(self, job: Job) -> None:
        super().submit(job)
        heappush(self._waiting[job.job.team], (self._key(job), job.order, job))

    def run(self, now: float) -> None:
        for name in self._changed:
            waiting = self._waiting[name]
            while waiting and self._place(waiting[0][2], now):
                heappop(waiting)
        self._changed.clear()


class ShortestRemaining(_Clusters):
    """Starts the jobs with the shortest remaining time, up to the number of GPUs in the cluster, and stops all
    other jobs.

    A chosen job waits if the free GPUs are scattered over too many nodes. No other job may use these GPUs. The
    choice of jobs changes only when a job arrives or ends.
    """

    def __init__(self, actions: Actions) -> None:
        super().__init__(actions)
        self._waiting: dict[str, dict[Job, None]] = {name: {} for name in self._pools}
        self._running: dict[str, dict[Job, None]] = {name: {} for name in self._pools}

    def submit(self, job: Job) -> None:
        super().submit(job)
        self._waiting[job.job.team][job] = None

    def release(self, job: Job) -> None:
        super().release(job)
        del self._running[job.job.team][job]

    def run(self, now: float) -> None:
        for name in self._changed.copy():
            self._choose(name, now)
        self._changed.clear()

    def _choose(self, name: str, now: float) -> None:
        waiting, running = self._waiting[name], self._running[name]

        def left(job: Job) -> float:
            return job.left - (now - job.since) if job in running else job.left

        gpus = self._pools[name].count * self._pools[name].pool.gpus_per_node
        chosen: list[Job] = []
        stopped: list[Job] = []
        for job in sorted((*waiting, *running), key=left):
            if job.shape.pods <= gpus:
                gpus -= job.shape.pods
                if job in waiting:
                    chosen.append(job)
            elif job in running:
                stopped.append(job)
        for job in stopped:
            del running[job]
            release_all(self._actions.pools, job, now)
            self._actions.stop(job)
            job.left += restart_seconds(job.shape.pods)
        for job in chosen:
            if self._place(job, now):
                del waiting[job]
                running[job] = None


def _arrival(job: Job) -> float:
    return job.job.arrival


def _duration(job: Job) -> float:
    return job.job.duration


def fifo(actions: Actions) -> Admission:
    """Admit jobs in the order of their arrival."""
    return InOrder(actions, _arrival)


def sjf(actions: Actions) -> Admission:
    """Admit the job with the shortest duration first. Running jobs are never stopped."""
    return InOrder(actions, _duration)


def srtf(actions: Actions) -> Admission:
    """Run the jobs with the shortest remaining time."""
    return ShortestRemaining(actions)
