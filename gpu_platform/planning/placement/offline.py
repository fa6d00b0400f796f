"""Packs a whole list of pods on nodes so that as much GPU as possible is in use, and bounds what is possible.

A linear program decides how many nodes of each shape get which contents; contents are made as they are worth it
(column generation, Gilmore and Gomory 1961), the prices smoothed so that they settle (Wentges 1997). What it says
in whole numbers is fixed, the rest decided anew, until every node has its contents. Pods that are left over, and
pods without GPUs, then go where they still fit. The bound is Lagrange's, with the best prices.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_platform.planning.placement.master import Master
from gpu_platform.planning.placement.pricing import Contents, Priced, Pricing
from gpu_platform.planning.placement.shapes import WHOLE_GPU, NodeShape, PodShape

_SMOOTHING = 0.7
_SHARE_OF_TIME_FOR_PRICES = 0.45
_CLOSE_ENOUGH = 1e-3
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """One pod of the list (its index) on one node (its index), and the indices of the GPUs that it holds there."""

    pod: int
    node: int
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """Every pod that was placed. GPU in thousandths; `bound_milli`: no packing can place more."""

    placed: tuple[PlacedPod, ...]
    allocated_milli: int
    capacity_milli: int
    bound_milli: int

    @property
    def share(self) -> float:
        """The share of all GPUs that is allocated."""
        return self.allocated_milli / self.capacity_milli if self.capacity_milli else 0.0


def pack(nodes: Sequence[NodeShape], pods: Sequence[PodShape], *, seconds: float = 50.0) -> Packing:
    """Return a packing of `pods` on `nodes`, found within about `seconds`."""
    deadline = time.monotonic() + seconds
    demand = Counter(pod for pod in pods if pod.gpus)
    supply = Counter(node for node in nodes if node.gpus)
    search = _Search(tuple(sorted(demand)), dict(supply), demand)
    chosen, bound = search.run(deadline, seconds)
    room = _Room(nodes)
    room.fill(chosen, search.kinds, pods)
    room.add_leftovers(pods)
    capacity = sum(node.gpus for node in nodes) * WHOLE_GPU
    allocated = sum(pods[one.pod].demand_milli for one in room.placed)
    wanted = sum(pod.demand_milli for pod in pods)
    return Packing(tuple(room.placed), allocated, capacity, min(bound, capacity, wanted))


class _Search:
    """Which contents the nodes of each shape get."""

    def __init__(
        self, kinds: tuple[PodShape, ...], supply: dict[NodeShape, int], demand: Mapping[PodShape, int]
    ) -> None:
        self.kinds = kinds
        self.shapes = tuple(sorted(supply))
        self._supply = supply
        self._demand: _Floats = np.array([demand[kind] for kind in kinds], dtype=np.float64)
        self._value: _Floats = np.array([kind.demand_milli for kind in kinds], dtype=np.float64)
        self._memory: _Floats = np.array([kind.memory_mib for kind in kinds], dtype=np.float64)
        self._pricing = Pricing(kinds, self.shapes)
        self._memory_price = dict.fromkeys(self.shapes, 0.0)
        self._runs_on = {
            shape.model: np.array([kind.will_run_on(shape.model) for kind in kinds]) for shape in self.shapes
        }
        self._prices: _Floats = np.zeros(len(kinds))

    def run(self, deadline: float, seconds: float) -> tuple[list[tuple[NodeShape, Contents]], int]:
        """Return the contents of every node that gets any, and the bound in thousandths of GPUs."""
        total = int(self._value @ self._demand)
        if not self.kinds or not self.shapes:
            return [], 0 if not self.shapes else total
        master = Master(self._supply, self._demand, self._value)
        self._seed(master)
        self._settle(master, time.monotonic() + seconds * _SHARE_OF_TIME_FOR_PRICES)
        bound = min(total, self._bound())
        chosen: list[tuple[NodeShape, Contents]] = []
        while True:
            fixed = master.take()
            if not fixed:
                return chosen, bound
            chosen.extend((shape, contents) for shape, contents, count in fixed for _ in range(count))
            master = master.rest(fixed)
            left = deadline - time.monotonic()
            if left > 0:
                self._settle(master, time.monotonic() + min(left, seconds * 0.1))

    def _settle(self, master: Master, until: float) -> None:
        """Make contents until none is worth more than the prices say, or time is over."""
        objective = master.solve()
        best, smoothing = np.inf, _SMOOTHING
        while time.monotonic() < until:
            prices = smoothing * self._prices + (1 - smoothing) * master.prices
            values = np.where(master.demand > 0, np.maximum(self._value - prices, 0), 0)
            priced: dict[tuple[str, float], Priced] = {}
            possible = float(prices @ master.demand)
            new = 0
            for shape, count in master.supply.items():
                if not count:
                    continue
                possible += count * self._priced(values, shape.model, 0.0, priced).worth(shape)
                contents = self._worthiest(values, shape, priced)
                new += contents is not None and master.add(shape, contents, only_if_worth=True)
            if possible < best:
                best, self._prices = possible, prices
            if new:
                objective, smoothing = master.solve(), _SMOOTHING
            elif smoothing > 0:
                smoothing = smoothing / 2 if smoothing > 0.05 else 0.0
            else:
                return
            if best - objective <= _CLOSE_ENOUGH * objective:
                return

    def _seed(self, master: Master) -> None:
        """Begin as a greedy packing would: fill node after node with the most valuable of what is left."""
        left = self._demand.copy()
        for shape in sorted(self.shapes, key=lambda shape: shape.cpu_milli / shape.gpus):
            nodes = self._supply[shape]
            while nodes > 0:
                values = np.where(left > 0, self._value, 0)
                contents = master.within(self._worthiest(values, shape, {}) or (), left)
                if not contents:
                    break
                master.add(shape, contents)
                counts = Counter(kind for pods in contents for kind in pods)
                times = max(1, min(nodes, *(int(left[kind] // count) for kind, count in counts.items())))
                nodes -= times
                for kind, count in counts.items():
                    left[kind] -= count * times

    def _priced(
        self, values: _Floats, model: str, memory_price: float, known: dict[tuple[str, float], Priced]
    ) -> Priced:
        key = (model if not self._runs_on[model].all() else "", memory_price)
        if key not in known:
            worth = np.where(self._runs_on[model], np.maximum(values - memory_price * self._memory, 0), 0)
            known[key] = self._pricing.best(worth)
        return known[key]

    def _worthiest(
        self, values: _Floats, shape: NodeShape, priced: dict[tuple[str, float], Priced]
    ) -> Contents | None:
        """Return the worthiest contents that fit in memory too: memory gets a price until they do."""
        for attempt in range(6):
            price = self._memory_price[shape]
            contents = self._priced(values, shape.model, price, priced).contents(shape)
            if sum(self._memory[kind] for pods in contents for kind in pods) <= shape.memory_mib:
                if attempt == 0:
                    self._memory_price[shape] = price * 0.8
                return contents
            self._memory_price[shape] = max(price * 1.5, 0.02 * float(values.max()) / float(self._memory.max()))
        return None

    def _bound(self) -> int:
        relaxed = Pricing(self.kinds, self.shapes, relaxed=True)
        bound = float(self._prices @ self._demand)
        for model in {shape.model for shape in self.shapes}:
            values = np.where(self._runs_on[model], np.maximum(self._value - self._prices, 0), 0)
            best = relaxed.best(values)
            bound += sum(best.worth(shape) * self._supply[shape] for shape in self.shapes if shape.model == model)
        return int(bound)


class _Room:
    """The nodes as they fill up."""

    def __init__(self, nodes: Sequence[NodeShape]) -> None:
        self.placed: list[PlacedPod] = []
        self._nodes = nodes
        self._cpu = [node.cpu_milli for node in nodes]
        self._memory = [node.memory_mib for node in nodes]
        self._free = [[WHOLE_GPU] * node.gpus for node in nodes]
        self._done: set[int] = set()

    def fill(
        self, chosen: Sequence[tuple[NodeShape, Contents]], kinds: Sequence[PodShape], pods: Sequence[PodShape]
    ) -> None:
        """Give the chosen contents to nodes of their shape, in the order of both lists."""
        waiting: dict[PodShape, list[int]] = {}
        for index in reversed(range(len(pods))):
            waiting.setdefault(pods[index], []).append(index)
        empty: dict[NodeShape, list[int]] = {}
        for index in reversed(range(len(self._nodes))):
            empty.setdefault(self._nodes[index], []).append(index)
        for shape, contents in chosen:
            node, gpu = empty[shape].pop(), 0
            for on_gpu in contents:
                width = kinds[on_gpu[0]].gpus
                for kind in on_gpu:
                    self._put(waiting[kinds[kind]].pop(), kinds[kind], node, tuple(range(gpu, gpu + width)))
                gpu += width

    def add_leftovers(self, pods: Sequence[PodShape]) -> None:
        """Put every pod that is still without a place where it fits tightest, the largest first."""
        rest = [index for index in range(len(pods)) if index not in self._done]
        for index in sorted(rest, key=lambda index: (-pods[index].demand_milli, -pods[index].cpu_milli, index)):
            pod = pods[index]
            best: tuple[int, int, tuple[int, ...]] | None = None
            for node, shape in enumerate(self._nodes):
                if (
                    self._cpu[node] < pod.cpu_milli
                    or self._memory[node] < pod.memory_mib
                    or not pod.will_run_on(shape.model)
                ):
                    continue
                gpus = self._gpus_for(pod, node)
                if gpus is None:
                    continue
                rank = min((self._free[node][gpu] for gpu in gpus), default=sum(self._free[node]))
                if best is None or rank < best[0]:
                    best = (rank, node, gpus)
            if best is not None:
                self._put(index, pod, best[1], best[2])

    def _gpus_for(self, pod: PodShape, node: int) -> tuple[int, ...] | None:
        free = self._free[node]
        enough = [gpu for gpu, milli in enumerate(free) if milli >= pod.gpu_milli]
        if len(enough) < pod.gpus:
            return None
        return tuple(sorted(enough, key=lambda gpu: free[gpu])[: pod.gpus])

    def _put(self, index: int, pod: PodShape, node: int, gpus: tuple[int, ...]) -> None:
        self._done.add(index)
        self._cpu[node] -= pod.cpu_milli
        self._memory[node] -= pod.memory_mib
        for gpu in gpus:
            self._free[node][gpu] -= pod.gpu_milli
        self.placed.append(PlacedPod(index, node, gpus))
