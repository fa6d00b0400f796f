"""Placement of pods that Kueue does not assign to nodes: kube-scheduler, its preemption, and autoscalers.

Pods are placed one by one: higher priorities first, then older pods. A pod that fits on no node does not block the
pods behind it. A pending pod preempts pods of lower priority on one node if this makes room. The scheduler
compares nodes by the highest priority among their victims, then by the sum of priorities, then by the number of
victims. The lowest value wins. A job that loses a pod is stopped as a whole, because distributed training cannot
continue without a worker.

The simulation leaves out disruption budgets, although kube-scheduler prefers victims whose eviction does not
violate one. It also leaves out the start times of victims as the last criterion, the back-off of failed pods, and
all scores except those of `PoolNodes.best_node`. If nodes have equal scores, kube-scheduler chooses a random node;
the simulation chooses the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from extensions.capacity.rehearsal.model import Assumptions, Job, Shape
from extensions.capacity.rehearsal.nodes import Need, PoolNodes


class PodScheduler:
    """Assigns the pods of jobs to nodes.

    `started` is called when the last pod of a job gets its node, and `stop` when a job loses a pod. `wake(time)`
    requests another call of `run` at that time.
    """

    def __init__(
        self,
        pools: list[PoolNodes],
        assumptions: Assumptions,
        *,
        started: Callable[[Job], None],
        stop: Callable[[Job], None],
        wake: Callable[[float], None],
    ) -> None:
        self._pools, self._assumptions = pools, assumptions
        self._started, self._stop, self._wake = started, stop, wake
        self.waiting: dict[Job, None] = {}
        self._failed: dict[tuple[Shape, int], int] = {}
        self._coming: list[list[float]] = [[] for _ in pools]
        self._version = 0

    def add(self, job: Job) -> None:
        """Add the `missing` pods of a job to the pending pods. If `job.pool` is -1, they may run on any pool."""
        self.waiting[job] = None
        self._version += 1

    def drop(self, job: Job) -> None:
        """Remove a job whose pods are waiting for nodes."""
        self.waiting.pop(job, None)

    def run(self, now: float) -> None:
        """Place pods, preempt other pods for them, and request nodes from autoscalers."""
        self._nodes_arrive(now)
        for job in sorted(self.waiting, key=lambda one: (-one.shape.priority, one.admitted, one.order)):
            if job in self.waiting:
                self._place(job)
        for pool in self._pools:
            if pool.pool.scaled:
                self._scale_up(pool, now)
                self._scale_down(pool, now)

    # -- pods ---------------------------------------------------------------------------------------------

    def _place(self, job: Job) -> None:
        while job.missing and job.held > sum(job.places.values()):
            if not self._place_one(job) and not self._preempt(job):
                job.reason = "nodes"
                return
        if not job.missing:
            del self.waiting[job]
            self._started(job)

    def _allowed(self, job: Job) -> Iterator[tuple[PoolNodes, Need]]:
        for pool in self._pools if job.pool < 0 else (self._pools[job.pool],):
            need = pool.need(job.shape)
            if need is not None:
                yield pool, need

    def _place_one(self, job: Job) -> bool:
        version = sum(pool.version for pool in self._pools)
        key = (job.shape, job.pool)
        if self._failed.get(key) == version:
            return False
        best: tuple[float, int, PoolNodes] | None = None
        for pool, need in self._allowed(job):
            found = pool.best_node(need)
            if found is not None and (best is None or found[0] > best[0]):
                best = (*found, pool)
        if best is None:
            self._failed[key] = version
            return False
        best[2].take(job, best[1], 1)
        job.missing -= 1
        return True

    def _preempt(self, job: Job) -> bool:
        """Preempt the jobs that the scheduler chooses to make room for one pod. Return whether any jobs were
        preempted.
        """
        best: tuple[tuple[int, int, int], list[Job]] | None = None
        for pool, need in self._allowed(job):
            for node, on in enumerate(pool.jobs_on):
                lower = [one for one in on if one.shape.priority < job.shape.priority]
                if not lower or not pool.exists[node]:
                    continue
                victims = _on_node(pool, node, need, lower)
                if victims is None:
                    continue
                priorities = [one.shape.priority for one in victims]
                rank = (max(priorities), sum(priorities), len(victims))
                if best is None or rank < best[0]:
                    best = (rank, victims)
        if best is None:
            return False
        for one in best[1]:
            self._stop(one)
        return True

    # -- autoscalers --------------------------------------------------------------------------------------

    def _nodes_arrive(self, now: float) -> None:
        for pool, coming in zip(self._pools, self._coming, strict=True):
            while coming and coming[0] <= now:
                coming.pop(0)
                pool.add_node(now)
                self._wake(now + self._assumptions.node_idle)

    def _scale_up(self, pool: PoolNodes, now: float) -> None:
        """Request the nodes that pending pods need, in addition to the nodes that are already starting."""
        coming = self._coming[pool.index]
        if pool.count + len(coming) >= pool.pool.max:
            return
        parts = 0.0
        for job in self.waiting:
            need = pool.need(job.shape)
            without = min(job.missing, job.held - sum(job.places.values()))
            if need is not None and without and job.pool in (-1, pool.index):
                first = next(one for one, _ in self._allowed(job) if one.pool.scaled or one is pool)
                if first is pool:
                    parts += without / pool.per_node(need)
        wanted = min(-int(-parts // 1) - len(coming), pool.pool.max - pool.count - len(coming))
        for _ in range(wanted):
            coming.append(now + self._assumptions.node_start)
            self._wake(coming[-1])

    def _scale_down(self, pool: PoolNodes, now: float) -> None:
        idle = self._assumptions.node_idle
        for node, on in enumerate(pool.jobs_on):
            if pool.count <= pool.pool.min:
                return
            if pool.exists[node] and not on:
                if now - pool.idle_since[node] >= idle:
                    pool.remove_node(node)
                else:
                    self._wake(pool.idle_since[node] + idle)


def _on_node(pool: PoolNodes, node: int, need: Need, lower: list[Job]) -> list[Job] | None:
    """Return the jobs whose pods must leave a node to make room for one pod, or None if the pod cannot fit on the
    node.

    Only jobs in `lower`, which have a lower priority, may be chosen.
    """
    for one in lower:
        pool.lift(one, node, pool.jobs_on[node][one])
    fits = pool.room(node, need) > 0
    victims: list[Job] = []
    for one in sorted(lower, key=lambda job: (-job.shape.priority, job.admitted, job.order)):
        pods = pool.jobs_on[node][one]
        pool.hold(one, node, pods)
        # A job's pods stay if the new pod fits on the node together with them.
        if fits and (min(_free(pool, node)) < 0 or pool.room(node, need) <= 0):
            pool.lift(one, node, pods)
            victims.append(one)
    for one in victims:
        pool.hold(one, node, pool.jobs_on[node][one])
    return victims if fits and victims else None


def _free(pool: PoolNodes, node: int) -> list[int]:
    return [pool.free_cpu[node], pool.free_memory[node], pool.free_pods[node], *(one[node] for one in pool.free)]
