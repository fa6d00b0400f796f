"""Kueue quotas: usage of ClusterQueues and cohorts, available quota, and dominant resource shares.

The code follows kubernetes-sigs/kueue v0.19.2: pkg/cache/scheduler/resource_node.go (localQuota, available,
potentialAvailable, addUsage, removeUsage) and fair_sharing.go (dominantResourceShare, CompareDRS). It covers only
cohorts without parents, because a plan has no others. Source read on 2026-11-23.

A cell is one resource of one pool (flavor). Its index is `pool * columns + column`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from extensions.capacity.rehearsal.model import CPU, MEMORY, Job, RehearsalQueue, Shape
from extensions.capacity.rehearsal.nodes import PoolNodes

Cells = tuple[tuple[int, int], ...]
"""A job's requests: the index and the requested amount of each cell."""
Share = tuple[int, float]
"""Dominant resource share, as a pair.

The first number is 1 if the queue borrows with weight 0, so that its share exceeds all others; otherwise 0. The
second number is the share itself.
"""

_ZERO: Final[Share] = (0, 0.0)


class Cohort:
    """Quota that the queues of a cohort lend to each other.

    A queue's excess is its usage above the quota that it does not lend. For each cell, `usage` is the sum of these
    excesses. A cell is one resource of one pool.
    """

    def __init__(self, cells: int) -> None:
        self.quota = [0] * cells
        self.usage = [0] * cells
        self.lendable: list[int] = []
        self.members: list[Queue] = []


class Queue:
    """A ClusterQueue with its usage and the jobs that hold its quota. The jobs are in the order of preemption."""

    def __init__(self, index: int, queue: RehearsalQueue, cohort: Cohort, cells: int, columns: int) -> None:
        self.index, self.queue, self.cohort, self.columns = index, queue, cohort, columns
        self.nominal = [0] * cells
        self.local = [0] * cells
        self.limit = [0] * cells
        self.usage = [0] * cells
        self.pools: list[int] = []
        self.running: dict[int, list[tuple[int, float, int, Job]]] = {}
        self.borrowing_cells = 0

    def potential(self, cell: int) -> int:
        """Return the maximum amount that is available when no quota is used."""
        return min(self.nominal[cell] + self.limit[cell], self.local[cell] + self.cohort.quota[cell])

    def available(self, cell: int) -> int:
        """Return the amount that is available now, including quota that can be borrowed."""
        local, usage = self.local[cell], self.usage[cell]
        above = usage - local
        parent = self.cohort.quota[cell] - self.cohort.usage[cell]
        most = self.nominal[cell] - local - max(0, above) + self.limit[cell]
        return max(0, max(0, -above) + min(parent, most))

    def add(self, cells: Cells, sign: int = 1) -> None:
        """Add a job's requests to the usage, or subtract them if `sign` is -1."""
        usage, local, shared = self.usage, self.local, self.cohort.usage
        for cell, amount in cells:
            before = usage[cell]
            after = before + sign * amount
            usage[cell] = after
            own = local[cell]
            shared[cell] += max(0, after - own) - max(0, before - own)

    def fits(self, cells: Cells) -> bool:
        """Return whether the requested amounts are available."""
        return all(amount <= self.available(cell) for cell, amount in cells)

    def borrows(self, cells: Cells) -> bool:
        """Return whether the queue borrows quota in at least one of the cells."""
        return any(self.usage[cell] > self.nominal[cell] for cell, _ in cells)

    def borrows_with(self, cell: int, amount: int) -> bool:
        """Return whether the queue would borrow quota if its usage increased by `amount`."""
        return self.usage[cell] + amount > self.nominal[cell]

    def share(self) -> Share | None:
        """Return the dominant resource share, or None if the queue does not borrow quota."""
        borrowed: dict[int, int] = {}
        usage, nominal, columns = self.usage, self.nominal, self.columns
        for pool in self.pools:
            for cell in range(pool * columns, pool * columns + columns):
                if usage[cell] > nominal[cell]:
                    column = cell - pool * columns
                    borrowed[column] = borrowed.get(column, 0) + usage[cell] - nominal[cell]
        if not borrowed:
            return None
        lendable = self.cohort.lendable
        ratio = max(
            (amount * 1000.0 / lendable[column] for column, amount in borrowed.items() if lendable[column]),
            default=0.0,
        )
        if not ratio:
            return _ZERO
        return (1, ratio) if not self.queue.weight else (0, ratio / self.queue.weight)

    def share_or_zero(self) -> Share:
        """Return the dominant resource share, or zero if the queue does not borrow quota."""
        return self.share() or _ZERO


class Requests:
    """Converts the requests of jobs to amounts by cell (one resource of one pool)."""

    def __init__(self, pools: Sequence[PoolNodes], columns: Mapping[str, int]) -> None:
        self._pools, self._columns = pools, columns
        self._known: dict[tuple[Shape, int], Cells] = {}

    def of(self, shape: Shape, pool: int) -> Cells:
        """Return the requests of a job on a pool, or an empty tuple if its pods do not fit on any node of the
        pool.
        """
        key = (shape, pool)
        if key not in self._known:
            self._known[key] = tuple(self._amounts(shape, pool))
        return self._known[key]

    def _amounts(self, shape: Shape, pool: int) -> Iterator[tuple[int, int]]:
        need = self._pools[pool].need(shape)
        if need is None:
            return
        first = pool * len(self._columns)
        # Kueue checks the resources in the order of their names.
        for name, amount in ((shape.resource, need[1]), (CPU, need[2]), (MEMORY, need[3])):
            if amount:
                yield first + self._columns[name], amount * shape.pods


def build_queues(
    queues: Sequence[RehearsalQueue],
    lent: Mapping[str, Mapping[str, Mapping[str, int]]],
    pools: Sequence[PoolNodes],
    columns: Mapping[str, int],
) -> list[Queue]:
    """Return the queues of all cohorts.

    `lent` is the quota that belongs to a cohort itself, not to its queues, by cohort, pool and resource. `columns`
    maps resources to their indices.
    """
    cells = len(pools) * len(columns)
    cohorts: dict[str, Cohort] = {}
    position = {one.pool.name: one.index for one in pools}
    found: list[Queue] = []
    for index, declared in enumerate(queues):
        cohort = cohorts.setdefault(declared.cohort, Cohort(cells))
        queue = Queue(index, declared, cohort, cells, len(columns))
        for pool, limits in declared.flavors.items():
            queue.pools.append(position[pool])
            queue.running[position[pool]] = []
            for resource, limit in limits.items():
                if resource not in columns:
                    continue
                cell = position[pool] * len(columns) + columns[resource]
                queue.nominal[cell] = limit.nominal
                queue.local[cell] = max(0, limit.nominal - limit.lend)
                queue.limit[cell] = limit.borrow
                cohort.quota[cell] += min(limit.nominal, limit.lend)
        cohort.members.append(queue)
        found.append(queue)
    for name, cohort in cohorts.items():
        for pool, amounts in lent.get(name, {}).items():
            for resource, amount in amounts.items():
                if resource in columns:
                    cohort.quota[position[pool] * len(columns) + columns[resource]] += amount
        cohort.lendable = [sum(cohort.quota[column :: len(columns)]) for column in range(len(columns))]
    return found
