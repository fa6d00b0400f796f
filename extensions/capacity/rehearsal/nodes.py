"""Free capacity of the pools' nodes, and the two methods that place pods on nodes.

- Kueue with a topology assigns nodes to all pods of a job at once. It chooses the node with the least free
  capacity that has room for all pods. If no node has room for all pods, it uses several nodes, starting with
  those that have the least free capacity. Source: kubernetes-sigs/kueue v0.19.2,
  pkg/cache/scheduler/tas_flavor_snapshot.go (findLevelWithFitDomains, sortedDomains) and TASProfileMixed, which is
  on by default; read 2026-11-23.
- kube-scheduler places pods one by one, each on the node with the largest fraction of free CPU and memory
  (NodeResourcesFit, LeastAllocated), as `place` does. With `packs`, it chooses the node with the smallest fraction
  of free CPU, memory and GPUs (MostAllocated).

The simulation does not place a pod on a node whose kubelet would refuse the pod. A kubelet refuses a pod if the
free units are spread over more NUMA nodes than necessary (see `numa.py`). On a cluster, Kueue and kube-scheduler
do not check NUMA nodes. They bind the pod, the pod fails, and its Job creates another one.
"""

from __future__ import annotations

from collections.abc import Iterable

from extensions.capacity.rehearsal.model import Job, RehearsalPool, Shape
from extensions.capacity.rehearsal.numa import NumaUnits

Need = tuple[int, int, int, int]
"""A tuple: the index of the GPU resource, then the GPU units, CPU and memory that one pod requests."""


class PoolNodes:
    """The nodes of one pool. `exists` contains, for each node index, whether the node exists."""

    def __init__(self, index: int, pool: RehearsalPool, *, packs: bool = False) -> None:
        self.index, self.pool = index, pool
        self._packs = packs
        self.resources = list(pool.offers)
        size = max(pool.max, pool.desired)
        self.exists = [number < pool.desired for number in range(size)]
        self.count = pool.desired
        self.free_cpu = [pool.cpu] * size
        self.free_memory = [pool.memory] * size
        self.free_pods = [pool.pods] * size
        self.free = [[units] * size for units in pool.offers.values()]
        # Nodes by resource and number of free units. Most nodes are full and need not be searched.
        self.by_free: list[list[set[int]]] = []
        for units in pool.offers.values():
            found: list[set[int]] = [set() for _ in range(units + 1)]
            found[units].update(number for number in range(size) if self.exists[number])
            self.by_free.append(found)
        self.used_gpus = 0.0
        self.stranded = 0.0
        self.version = 0  # incremented when capacity is released
        self.jobs_on: list[dict[Job, int]] = [{} for _ in range(size)]
        self.idle_since = [0.0] * size
        self._needs: dict[Shape, Need | None] = {}
        self._numa = [
            NumaUnits(pool.numa[name], size, single=pool.single_numa) if name in pool.numa else None
            for name in pool.offers
        ]

    def need(self, shape: Shape) -> Need | None:
        """Return the resources that one pod of a shape uses on a node, or None if the pod fits on no node of the
        pool.
        """
        if shape not in self._needs:
            self._needs[shape] = self._need(shape)
        return self._needs[shape]

    def _need(self, shape: Shape) -> Need | None:
        pool = self.pool
        if shape.resource not in pool.offers or shape.pool not in (None, pool.name):
            return None
        cpu, memory = pool.parts[shape.resource]
        need = (
            self.resources.index(shape.resource),
            shape.units,
            cpu * shape.units if shape.cpu is None else shape.cpu,
            memory * shape.units if shape.memory is None else shape.memory,
        )
        fits = need[1] <= pool.offers[shape.resource] and need[2] <= pool.cpu and need[3] <= pool.memory
        numa = self._numa[need[0]]
        return need if fits and (numa is None or numa.most(need[1])) else None

    def per_node(self, need: Need) -> int:
        """Return how many pods with these requests fit on an empty node."""
        column, units, cpu, memory = need
        numa = self._numa[column]
        whole = self.pool.offers[self.resources[column]] // units
        found = [whole if numa is None else numa.most(units), self.pool.pods]
        found += [self.pool.cpu // cpu] if cpu else []
        found += [self.pool.memory // memory] if memory else []
        return min(found)

    def room(self, node: int, need: Need) -> int:
        """Return how many pods with these requests fit on a node now."""
        column, units, cpu, memory = need
        room = self.free[column][node] // units
        if cpu:
            room = min(room, self.free_cpu[node] // cpu)
        if memory:
            room = min(room, self.free_memory[node] // memory)
        numa = self._numa[column]
        if numa is not None and room:
            room = min(room, numa.room(node, units))
        return min(room, self.free_pods[node])

    def assign(self, need: Need, pods: int) -> dict[int, int] | None:
        """Return the number of pods by node, as Kueue's topology-aware scheduling assigns them, or None if not all
        pods fit.
        """
        rooms: list[tuple[int, int]] = []
        best: tuple[int, int] | None = None
        column, units = need[0], need[1]
        for nodes in self.by_free[column][units:]:
            for node in nodes:
                room = self.room(node, need)
                if room >= pods:
                    if best is None or (room, node) < best:
                        best = (room, node)
                elif room:
                    rooms.append((room, node))
        if best is not None:
            return {best[1]: pods}
        found: dict[int, int] = {}
        for room, node in sorted(rooms):
            taken = min(room, pods)
            found[node] = taken
            pods -= taken
            if not pods:
                return found
        return None

    def best_node(self, need: Need) -> tuple[float, int] | None:
        """Return the score and the index of the node that kube-scheduler prefers for a pod, or None if no node
        fits.
        """
        found: tuple[float, int] | None = None
        _, units, cpu, memory = need
        numa = self._numa[need[0]]
        whole_cpu, whole_memory = self.pool.cpu, self.pool.memory
        whole_units = self.pool.offers[self.resources[need[0]]]
        for nodes in self.by_free[need[0]][units:]:
            for node in nodes:
                if self.free_cpu[node] < cpu or self.free_memory[node] < memory or not self.free_pods[node]:
                    continue
                score = (self.free_cpu[node] - cpu) / whole_cpu + (self.free_memory[node] - memory) / whole_memory
                if self._packs:
                    score = -score - (self.free[need[0]][node] - units) / whole_units
                if found is None or score > found[0] or (score == found[0] and node < found[1]):
                    if numa is not None and not numa.fits(node, units):
                        continue
                    found = (score, node)
        return found

    def take(self, job: Job, node: int, pods: int) -> None:
        """Put pods of a job on a node."""
        self.hold(job, node, pods)
        key = (self.index, node)
        job.places[key] = job.places.get(key, 0) + pods
        on = self.jobs_on[node]
        on[job] = on.get(job, 0) + pods

    def release(self, job: Job, node: int, now: float) -> None:
        """Remove all pods of a job from a node."""
        pods = job.places.pop((self.index, node))
        self.lift(job, node, pods)
        del self.jobs_on[node][job]
        if not self.jobs_on[node]:
            self.idle_since[node] = now
        self.version += 1

    def hold(self, job: Job, node: int, pods: int) -> None:
        """Reserve capacity on a node for pods of a job, without placing the pods."""
        column, units, _, _ = self._change(job.shape, node, pods)
        numa = self._numa[column]
        if numa is not None:
            numa.take(job, node, units, pods)

    def lift(self, job: Job, node: int, pods: int) -> None:
        """Release the capacity of all pods of a job on a node.

        Pods that return to the node receive the same units if the units are still free.
        """
        numa = self._numa[self._change(job.shape, node, -pods)[0]]
        if numa is not None:
            numa.give_back(job, node)

    def _change(self, shape: Shape, node: int, pods: int) -> Need:
        need = self.need(shape)
        assert need is not None  # noqa: S101 - it was placed
        column, units, cpu, memory = need
        free = self.free[column]
        before = free[node]
        free[node] = after = before - units * pods
        self.by_free[column][before].discard(node)
        self.by_free[column][after].add(node)
        self.free_cpu[node] -= cpu * pods
        self.free_memory[node] -= memory * pods
        self.free_pods[node] -= pods
        gpus = self.pool.gpus[shape.resource]
        whole = self.pool.offers[shape.resource]
        self.used_gpus += gpus * units * pods
        self.stranded += gpus * ((after if after < whole else 0) - (before if before < whole else 0))
        return need

    def add_node(self, now: float) -> int:
        """Add a node and return its index."""
        node = self.exists.index(False)
        self.exists[node] = True
        self.count += 1
        for column, units in enumerate(self.pool.offers.values()):
            self.by_free[column][units].add(node)
        self.idle_since[node] = now
        self.version += 1
        return node

    def remove_node(self, node: int) -> None:
        """Remove a node without pods."""
        self.exists[node] = False
        self.count -= 1
        for column, units in enumerate(self.pool.offers.values()):
            self.by_free[column][units].discard(node)


def all_gpus(pools: Iterable[PoolNodes]) -> float:
    """Return the number of GPUs on all existing nodes."""
    return float(sum(one.count * one.pool.gpus_per_node for one in pools))


def release_all(pools: list[PoolNodes], job: Job, now: float) -> dict[tuple[int, int], int]:
    """Remove all pods of a job and return the number of its pods by pool and node."""
    before = dict(job.places)
    for pool, node in before:
        pools[pool].release(job, node, now)
    return before


def take_all(pools: list[PoolNodes], job: Job, places: dict[tuple[int, int], int]) -> None:
    """Put the pods of a job back on nodes."""
    for (pool, node), pods in places.items():
        pools[pool].take(job, node, pods)
