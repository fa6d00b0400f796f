"""Admission by Kueue in cycles. Each cycle tries the first job of every queue.

The code follows kubernetes-sigs/kueue v0.19.2: pkg/scheduler/scheduler.go (schedule, processEntry, getAssignments,
resourcesToReserve), fair_sharing_iterator.go, flavorassigner/flavorassigner.go (findFlavorForPodSets,
fitsResourceQuota, isPreferred, shouldTryNextFlavor), preemption/preemption_oracle.go,
pkg/cache/queue/cluster_queue.go (the order of a queue, BestEffortFIFO, equal jobs that wait together) and
inadmissible_workloads.go. Feature gates have their defaults. The plan's ClusterQueues try the next flavor before
they borrow or preempt. Source read on 2026-11-23.

The simulation differs from Kueue in these points:

- Kueue collects released quota for a second before it tries jobs again; the simulation does not wait.
- The quota and nodes of a stopped job are free at once, without the grace period of its pods.
- Admission checks, partial admission and nested cohorts are not simulated.
- If another job in the same cycle takes a job's nodes, the job is tried again in the next cycle.
- A job that could not run even on an empty stack is reported when it arrives. Kueue would let it wait forever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from extensions.capacity.rehearsal.model import Job, Shape, Wait
from extensions.capacity.rehearsal.nodes import PoolNodes, release_all
from extensions.capacity.rehearsal.quota import Cells, Queue, Requests
from extensions.capacity.rehearsal.victims import Victim, Victims, Wanted

_NO_FIT, _NO_CANDIDATES, _PREEMPT, _RECLAIM, _FIT = range(5)
_Mode = tuple[int, int]
"""A pair: how well a flavor suits a job (higher is better), and 1 if the queue would borrow quota, otherwise 0."""
_MOST_CYCLES = 100_000
_WORST: _Mode = (_NO_FIT, 2)
_BEST: _Mode = (_FIT, 0)


@dataclass(slots=True)
class _Entry:
    """The first job of a queue in a cycle, the flavor that it would use, and the jobs that it would preempt."""

    job: Job
    queue: Queue
    mode: int = _NO_FIT
    borrows: int = 0
    pool: int = -1
    cells: Cells = ()
    victims: list[Victim] = field(default_factory=list[Victim])
    nodes_lack: bool = False
    sticky: bool = False


class _Waiting:
    """A queue's waiting jobs by `Shape`, oldest first.

    If a job cannot start, all jobs of its shape wait until quota or nodes are released.
    """

    def __init__(self) -> None:
        self.jobs: dict[Shape, list[tuple[float, int, Job]]] = {}
        self.failed: set[Shape] = set()
        self.active: set[Shape] = set()
        self.sticky: Job | None = None

    def push(self, job: Job) -> None:
        heappush(self.jobs.setdefault(job.shape, []), (job.queued, job.order, job))
        if job.shape not in self.failed:
            self.active.add(job.shape)

    def first(self) -> Job | None:
        """Return the job to try next: the oldest job of the highest priority."""
        if self.sticky is not None:
            return self.sticky
        best: tuple[int, float, int, Job] | None = None
        for shape in self.active:
            queued, order, job = self.jobs[shape][0]
            key = (-shape.priority, queued, order, job)
            if best is None or key < best:
                best = key
        return best[3] if best is not None else None

    def remove(self, job: Job) -> None:
        """Remove a job from the queue: the first job of its shape, or the sticky job, which is tried before all
        others.
        """
        if job is self.sticky:
            self.sticky = None
        jobs = self.jobs[job.shape]
        if jobs[0][2] is job:
            heappop(jobs)
        else:
            jobs.remove((job.queued, job.order, job))
            jobs.sort()
        if not jobs:
            del self.jobs[job.shape]
            self.active.discard(job.shape)

    def fail(self, job: Job) -> None:
        """Make all jobs with the same shape as this job wait until quota or nodes are released."""
        if job is self.sticky:
            self.sticky = None
        self.failed.add(job.shape)
        self.active.discard(job.shape)

    def retry(self) -> None:
        """Allow all jobs to be tried again."""
        self.failed.clear()
        self.active.update(self.jobs)


class Kueue:
    """Starts and preempts jobs according to the quotas of their queues.

    `start` is called for a job that has received its quota, with the pool in `job.pool`. With a topology, the
    job's nodes have been assigned as well. `stop` is called for a job that is preempted.
    """

    def __init__(
        self,
        queues: Sequence[Queue],
        pools: list[PoolNodes],
        requests: Requests,
        *,
        fair: bool,
        topology: bool,
        start: Callable[[Job], None],
        stop: Callable[[Job], None],
    ) -> None:
        self._queues, self._pools, self._requests = queues, pools, requests
        self._fair, self._topology = fair, topology
        self._start, self._stop = start, stop
        self._waiting = [_Waiting() for _ in queues]
        self._victims = Victims(queues, pools, requests, fair=fair, nodes=topology)
        self._cycle = 0
        self.now = 0.0

    def can_ever_run(self, job: Job) -> bool:
        """Return whether a flavor of the job's queue would have enough quota and nodes for the job if nothing else
        ran.
        """
        queue = self._queues[job.team]
        for pool in queue.pools:
            cells = self._requests.of(job.shape, pool)
            need = self._pools[pool].need(job.shape)
            if need is None or any(amount > queue.potential(cell) for cell, amount in cells):
                continue
            if self._pools[pool].per_node(need) * self._pools[pool].pool.max >= job.shape.pods:
                return True
        return False

    def submit(self, job: Job) -> None:
        """Add a job to the queue of its team."""
        job.next_flavor = 0
        self._waiting[job.team].push(job)

    def release(self, job: Job) -> None:
        """Release the quota of a job that ended or was stopped. Its nodes have already been released."""
        queue = self._queues[job.team]
        self._victims.drop(job, queue)
        queue.add(self._requests.of(job.shape, job.pool), -1)
        self.retry(queue)

    def retry(self, queue: Queue) -> None:
        """Allow the jobs of all queues in the queue's cohort to be tried again."""
        for one in queue.cohort.members:
            self._waiting[one.index].retry()

    def run(self, now: float) -> None:
        """Try the first jobs of all queues until no job is left to try."""
        self.now = now
        # Without a limit, two queues could preempt each other's jobs forever at the same simulated time.
        for _ in range(_MOST_CYCLES):
            entries = [
                _Entry(job, queue, sticky=self._waiting[queue.index].sticky is job)
                for queue in self._queues
                if (job := self._waiting[queue.index].first()) is not None
            ]
            if not entries:
                return
            self._cycle += 1
            for entry in entries:
                self._nominate(entry)
            self._process(entries)

    # -- nomination ---------------------------------------------------------------------------------------

    def _nominate(self, entry: _Entry) -> None:
        """Choose a flavor for a job, and the jobs to preempt for it."""
        job, queue = entry.job, entry.queue
        first = job.next_flavor if self._cycle - job.next_cycle <= 1 else 0
        best, best_pool, best_needed, attempted = _WORST, -1, (), -1
        for attempted in range(first, len(queue.pools)):
            pool = queue.pools[attempted]
            cells = self._requests.of(job.shape, pool)
            if not cells:
                continue
            mode, needed = self._mode_of_flavor(job, queue, pool, cells)
            if mode == _BEST:
                best, best_pool, best_needed = mode, pool, needed
                break
            if _preferred(mode, best):
                best, best_pool, best_needed = mode, pool, needed
        job.next_flavor = 0 if attempted == len(queue.pools) - 1 or best_pool < 0 else attempted + 1
        job.next_cycle = self._cycle
        entry.mode, entry.borrows, entry.pool = best[0], best[1], best_pool
        if best_pool < 0:
            return
        entry.cells = self._requests.of(job.shape, best_pool)
        if entry.mode == _FIT and self._topology and not self._has_nodes(job, best_pool):
            # If the nodes lack capacity, Kueue searches for jobs to preempt, just as it does without enough quota.
            entry.mode, best_needed, entry.nodes_lack = _PREEMPT, entry.cells, True
        if entry.mode < _FIT:
            wanted = Wanted(job, queue, best_pool, entry.cells, best_needed, self._topology)
            entry.victims = self._victims.find(wanted)

    def _mode_of_flavor(self, job: Job, queue: Queue, pool: int, cells: Cells) -> tuple[_Mode, Cells]:
        mode: _Mode = _BEST
        needed: list[tuple[int, int]] = []
        for cell, amount in cells:
            found = self._mode_of_cell(job, queue, pool, cell, amount)
            if _preferred(mode, found):
                mode = found
            if mode[0] == _NO_FIT:
                return _WORST, ()
            if found[0] < _FIT:
                needed.append((cell, amount))
        return mode, tuple(needed)

    def _mode_of_cell(self, job: Job, queue: Queue, pool: int, cell: int, amount: int) -> _Mode:
        if amount > queue.potential(cell):
            return _WORST
        borrow = int(queue.borrows_with(cell, amount))
        if amount <= queue.available(cell):
            return (_FIT, borrow)
        reclaims = self._fair and queue.queue.reclaim != "Never"
        if queue.nominal[cell] < amount and borrow and not reclaims:
            return _WORST
        one = ((cell, amount),)
        victims = self._victims.find(Wanted(job, queue, pool, one, one, nodes=False))
        if not victims:
            return (_NO_CANDIDATES, borrow)
        for victim in victims:
            victim.queue.add(self._requests.of(victim.job.shape, victim.job.pool), -1)
        after = int(queue.borrows_with(cell, amount))
        for victim in victims:
            victim.queue.add(self._requests.of(victim.job.shape, victim.job.pool))
        own = any(victim.queue is queue for victim in victims)
        return (_PREEMPT if own else _RECLAIM, after)

    def _has_nodes(self, job: Job, pool: int) -> bool:
        need = self._pools[pool].need(job.shape)
        return need is not None and self._pools[pool].assign(need, job.shape.pods) is not None

    # -- a cycle ------------------------------------------------------------------------------------------

    def _process(self, entries: list[_Entry]) -> None:
        reserved: list[tuple[Queue, Cells]] = []
        held: list[tuple[PoolNodes, Job, int, int]] = []
        stopped: dict[Job, Victim] = {}
        left = [one for one in entries if one.mode == _FIT or one.victims]
        for entry in entries:
            if entry.mode == _FIT or entry.victims:
                continue
            self._reject(entry)
            if entry.mode > _NO_FIT and entry.queue.queue.reclaim != "Any":
                left.append(entry)
        while left:
            entry = self._next(left)
            left.remove(entry)
            if entry.mode != _FIT and not entry.victims:
                cells = self._to_reserve(entry)
                entry.queue.add(cells)
                reserved.append((entry.queue, cells))
            elif not any(victim.job in stopped for victim in entry.victims):
                self._try(entry, stopped, reserved, held)
        for queue, cells in reserved:
            queue.add(cells, -1)
        for pool, job, node, pods in held:
            pool.lift(job, node, pods)
        for victim in stopped.values():
            self._evict(victim)

    def _try(
        self,
        entry: _Entry,
        stopped: dict[Job, Victim],
        reserved: list[tuple[Queue, Cells]],
        held: list[tuple[PoolNodes, Job, int, int]],
    ) -> None:
        """Start a job, or choose the jobs to preempt for it.

        If neither is possible, the job is tried again in the next cycle.
        """
        job, queue, pool = entry.job, entry.queue, self._pools[entry.pool]
        need = pool.need(job.shape)
        assert need is not None  # noqa: S101 - it was nominated
        places: dict[int, int] | None = {}
        if self._topology and entry.mode == _FIT:
            places = pool.assign(need, job.shape.pods)
        before = [(one, self._victims.remove(one)) for one in (*stopped.values(), *entry.victims)]
        if self._topology and entry.mode != _FIT:
            places = pool.assign(need, job.shape.pods)
        fits = queue.fits(entry.cells)
        for victim, where in before:
            self._victims.restore(victim, where)
        if not fits or places is None:
            return
        queue.add(entry.cells)
        if entry.mode == _FIT:
            self._waiting[queue.index].remove(job)
            job.pool, job.admitted = entry.pool, self.now
            for node, pods in places.items():
                pool.take(job, node, pods)
            self._victims.hold(job, queue)
            self._start(job)
            return
        reserved.append((queue, entry.cells))
        for node, pods in places.items():
            if (free := min(pods, pool.room(node, need))) > 0:
                pool.hold(job, node, free)
                held.append((pool, job, node, free))
        stopped.update({victim.job: victim for victim in entry.victims})
        self._waiting[queue.index].sticky = job
        job.next_flavor = 0

    def _next(self, left: list[_Entry]) -> _Entry:
        """Return the next entry. With fair sharing, the queue with the smallest share after adding its job comes
        first.
        """
        if not self._fair:
            return min(left, key=lambda one: (one.borrows, -one.job.shape.priority, one.job.queued, one.job.order))
        if len(left) == 1:
            return left[0]

        def key(entry: _Entry) -> tuple[bool, tuple[int, float], int, float, int]:
            entry.queue.add(entry.cells)
            borrows = entry.queue.borrows(entry.cells)
            share = entry.queue.share_or_zero()
            entry.queue.add(entry.cells, -1)
            return (borrows, share, -entry.job.shape.priority, entry.job.queued, entry.job.order)

        return min(left, key=key)

    def _to_reserve(self, entry: _Entry) -> Cells:
        """Return the free quota that a job reserves in this cycle if no job can be preempted for it."""
        queue = entry.queue
        found: list[tuple[int, int]] = []
        for cell, amount in entry.cells:
            most = queue.nominal[cell] - queue.usage[cell] + (queue.limit[cell] if entry.borrows else 0)
            found.append((cell, max(0, min(amount, most))))
        return tuple(found)

    def _reject(self, entry: _Entry) -> None:
        job = entry.job
        reason: Wait = "nodes" if entry.nodes_lack else "quota"
        if job.next_flavor:
            return  # the next flavor is tried immediately
        job.reason = reason
        self._waiting[entry.queue.index].fail(job)

    def _evict(self, victim: Victim) -> None:
        job = victim.job
        release_all(self._pools, job, self.now)
        self.release(job)
        self._stop(job)


def _preferred(left: _Mode, right: _Mode) -> bool:
    """Return whether `left` is better than `right`, as Kueue's isPreferred does without a declared preference."""
    if left[0] == _NO_FIT or right[0] == _NO_FIT:
        return left[0] != _NO_FIT
    if (left[0] == _NO_CANDIDATES) != (right[0] == _NO_CANDIDATES):
        return left[0] != _NO_CANDIDATES
    return left[0] > right[0] if left[0] != right[0] else left[1] < right[1]
