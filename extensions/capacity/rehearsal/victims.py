"""Searches for the jobs that Kueue would preempt so that a waiting job can start.

The code follows kubernetes-sigs/kueue v0.19.2: pkg/scheduler/preemption/preemption.go (fairPreemptions with the
strategy LessThanOrEqualToFinalShare, classicalPreemptions, fillBackWorkloads), fairsharing/ordering.go,
classical/candidate_generator.go, classical/hierarchical_preemption.go and common/ordering.go. It covers cohorts
without parents and without borrowWithinCohort, which no plan sets. FairSharingPreemptWithinNominal is on by
default. Source read on 2026-11-23.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from extensions.capacity.rehearsal.model import Job
from extensions.capacity.rehearsal.nodes import PoolNodes, release_all, take_all
from extensions.capacity.rehearsal.quota import Cells, Queue, Requests, Share


class Victim(NamedTuple):
    """A job to preempt, and the queue whose quota it holds."""

    job: Job
    queue: Queue


class Wanted(NamedTuple):
    """A waiting job, and the pool that it would use.

    `cells` contains its requests, and `needed` the requests for which quota is missing. `nodes` is true if the
    search also considers free capacity on nodes.
    """

    job: Job
    queue: Queue
    pool: int
    cells: Cells
    needed: Cells
    nodes: bool


class Victims:
    """Searches for jobs to preempt. A search leaves the state unchanged."""

    def __init__(
        self, queues: Sequence[Queue], pools: list[PoolNodes], requests: Requests, *, fair: bool, nodes: bool
    ) -> None:
        self._queues, self._pools, self._requests = queues, pools, requests
        self._fair, self._nodes = fair, nodes

    def hold(self, job: Job, queue: Queue) -> None:
        """Record that a job has held quota from a queue since `job.admitted`."""
        insort(queue.running[job.pool], _entry(job))

    def drop(self, job: Job, queue: Queue) -> None:
        """Record that a job no longer holds quota."""
        running = queue.running[job.pool]
        at = bisect_left(running, _entry(job))
        del running[at]

    def find(self, wanted: Wanted) -> list[Victim]:
        """Return the jobs to preempt, or an empty list if preemption would not let the waiting job start."""
        if not self._may_find(wanted):
            return []
        return self._fair_search(wanted) if self._fair else self._classical_search(wanted)

    # -- candidates ---------------------------------------------------------------------------------------

    def _may_find(self, wanted: Wanted) -> bool:
        """Return whether the preemption rules allow any candidate. This check is faster than a search."""
        queue, job = wanted.queue, wanted.job
        running = queue.running[wanted.pool]
        if queue.queue.within_queue == "LowerPriority" and running and running[0][0] < job.shape.priority:
            return True
        if queue.queue.reclaim == "Never":
            return False
        others = [
            one for one in queue.cohort.members
            if one is not queue and one.running.get(wanted.pool) and one.borrows(wanted.needed)
        ]  # fmt: skip
        if queue.queue.reclaim == "LowerPriority":
            others = [one for one in others if one.running[wanted.pool][0][0] < job.shape.priority]
        if not others or not self._fair:
            return bool(others)
        queue.add(wanted.cells)
        within = not queue.borrows(wanted.needed)
        share = queue.share_or_zero()
        queue.add(wanted.cells, -1)
        # The strategy requires that the other queue's share is at least the new share of this queue.
        return within or any(share <= one.share_or_zero() for one in others)

    def _candidates(self, wanted: Wanted, queue: Queue) -> Iterator[Job]:
        """Yield the jobs of a queue that can be preempted: lower priorities first, then the jobs that started
        last.
        """
        own = queue is wanted.queue
        policy = queue.queue.within_queue if own else wanted.queue.queue.reclaim
        if policy == "Never" or (not own and not queue.borrows(wanted.needed)):
            return
        needed = {cell for cell, _ in wanted.needed}
        below = wanted.job.shape.priority if policy == "LowerPriority" else None
        for entry in queue.running.get(wanted.pool, ()):
            if below is not None and entry[0] >= below:
                return
            if any(cell in needed for cell, _ in self._requests.of(entry[3].shape, wanted.pool)):
                yield entry[3]

    # -- fair sharing -------------------------------------------------------------------------------------

    def _fair_search(self, wanted: Wanted) -> list[Victim]:
        queue = wanted.queue
        lists = {one: list(self._candidates(wanted, one)) for one in queue.cohort.members}
        search = _Search(self, wanted)
        queue.add(wanted.cells)
        found = self._fair_strategy(wanted, search, lists)
        queue.add(wanted.cells, -1)
        if found:
            search.fill_back(borrow=True)
        return search.end(found=found)

    def _fair_strategy(self, wanted: Wanted, search: _Search, lists: dict[Queue, list[Job]]) -> bool:
        queue = wanted.queue
        within = not queue.borrows(wanted.needed)
        pruned: set[Queue] = set()
        at = dict.fromkeys(lists, 0)
        while (target := _next_target(queue, lists, at, pruned)) is not None:
            if target is queue or within:
                search.remove(lists[target][at[target]], target)
                at[target] += 1
                if search.fits_with_request_added():
                    return True
                continue
            new, old = queue.share_or_zero(), target.share_or_zero()
            if new[0] and not old[0]:
                at[target] = len(lists[target])
                continue
            while at[target] < len(lists[target]):
                job = lists[target][at[target]]
                at[target] += 1
                cells = self._requests.of(job.shape, job.pool)
                target.add(cells, -1)
                after = target.share_or_zero()
                target.add(cells)
                if new <= after:
                    search.remove(job, target)
                    if search.fits_with_request_added():
                        return True
                    break
        return False

    # -- without fair sharing -----------------------------------------------------------------------------

    def _classical_search(self, wanted: Wanted) -> list[Victim]:
        queue = wanted.queue
        advantage = all(not queue.borrows_with(cell, amount) for cell, amount in wanted.cells)
        others = sorted(
            (_entry(job), Victim(job, one))
            for one in queue.cohort.members
            if one is not queue
            for job in self._candidates(wanted, one)
        )
        same = [Victim(job, queue) for job in self._candidates(wanted, queue)]
        under = all(queue.usage[cell] < queue.nominal[cell] for cell, _ in wanted.needed)
        attempts = [True] if not others or not under else [True, False] if advantage else [False, True]
        for borrow in attempts:
            search = _Search(self, wanted)
            for victim in (*(one for _, one in others), *same):
                if victim.queue is not queue:
                    # A queue below its nominal quota may preempt jobs of other queues only to use this quota.
                    if borrow and not advantage:
                        continue
                    if not victim.queue.borrows(wanted.needed):
                        continue
                search.remove(victim.job, victim.queue)
                if search.fits(borrow=borrow):
                    search.fill_back(borrow=borrow)
                    return search.end(found=True)
            search.end(found=False)
        return []

    # -- the state while a search runs --------------------------------------------------------------------

    def remove(self, victim: Victim) -> dict[tuple[int, int], int]:
        """Remove the usage of a job and return the number of its pods by pool and node."""
        victim.queue.add(self._requests.of(victim.job.shape, victim.job.pool), -1)
        return release_all(self._pools, victim.job, 0.0) if self._nodes else {}

    def restore(self, victim: Victim, places: dict[tuple[int, int], int]) -> None:
        """Restore the usage and pods of a job after `remove`."""
        victim.queue.add(self._requests.of(victim.job.shape, victim.job.pool))
        if self._nodes:
            take_all(self._pools, victim.job, places)

    def has_nodes(self, wanted: Wanted) -> bool:
        """Return whether the job fits on the nodes now."""
        need = self._pools[wanted.pool].need(wanted.job.shape)
        return need is not None and self._pools[wanted.pool].assign(need, wanted.job.shape.pods) is not None


class _Search:
    """Tracks the jobs that a search has removed."""

    def __init__(self, victims: Victims, wanted: Wanted) -> None:
        self._victims, self._wanted = victims, wanted
        self._removed: list[tuple[Victim, dict[tuple[int, int], int]]] = []

    def remove(self, job: Job, queue: Queue) -> None:
        victim = Victim(job, queue)
        self._removed.append((victim, self._victims.remove(victim)))

    def fits(self, *, borrow: bool) -> bool:
        queue, wanted = self._wanted.queue, self._wanted
        if not borrow and any(queue.borrows_with(cell, amount) for cell, amount in wanted.cells):
            return False
        return queue.fits(wanted.cells) and (not wanted.nodes or self._victims.has_nodes(wanted))

    def fits_with_request_added(self) -> bool:
        """Return whether the job fits, given that its request is already counted as usage.

        Fair sharing compares shares with the request included.
        """
        self._wanted.queue.add(self._wanted.cells, -1)
        found = self.fits(borrow=True)
        self._wanted.queue.add(self._wanted.cells)
        return found

    def fill_back(self, *, borrow: bool) -> None:
        """Restore jobs that need not be preempted after all, starting with the job that was chosen last."""
        removed = self._removed
        for index in range(len(removed) - 2, -1, -1):
            self._victims.restore(*removed[index])
            if self.fits(borrow=borrow):
                removed[index] = removed[-1]
                removed.pop()
            else:
                victim = removed[index][0]
                removed[index] = (victim, self._victims.remove(victim))

    def end(self, *, found: bool) -> list[Victim]:
        for victim, places in self._removed:
            self._victims.restore(victim, places)
        return [victim for victim, _ in self._removed] if found else []


def _entry(job: Job) -> tuple[int, float, int, Job]:
    """Return a candidate's sort key: lower priority first, then later admission, then order."""
    return (job.shape.priority, -job.admitted, job.order, job)


def _next_target(
    queue: Queue, lists: dict[Queue, list[Job]], at: dict[Queue, int], pruned: set[Queue]
) -> Queue | None:
    """Return the queue with the highest share, whose next job is the next candidate for preemption.

    Only queues that still have candidates and borrow quota are considered. The waiting job's own queue is
    considered even if it does not borrow quota.
    """
    best: Queue | None = None
    best_share: Share = (-1, 0.0)
    for one, jobs in lists.items():
        if one in pruned:
            continue
        if at[one] >= len(jobs):
            pruned.add(one)
            continue
        share = one.share()
        if share is None and one is not queue:
            pruned.add(one)
            continue
        value = share or (0, 0.0)
        if value > best_share:
            best, best_share = one, value
        elif (
            value == best_share
            and best is not None
            and _before(queue, one, jobs[at[one]], best, lists[best][at[best]])
        ):
            best = one
    return best


def _before(queue: Queue, left: Queue, job: Job, right: Queue, other: Job) -> bool:
    """Return whether one candidate is preempted before another: jobs of other queues first, then the order of
    `_entry`.
    """
    return ((left is queue), _entry(job)[:3]) < ((right is queue), _entry(other)[:3])
