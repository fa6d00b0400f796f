"""Find the most valuable set of pods for one empty node, by the value of each kind: a knapsack in two steps.

First the best contents of one GPU for every amount of CPU, then the best GPUs side by side. CPU is in quanta.
Where these must be coarse, pods are rounded up and nodes down, so that what comes out fits, and they are such that
this costs least CPU. Memory is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_platform.planning.placement.shapes import WHOLE_GPU, NodeShape, PodShape

_QUANTA = 1280
"""CPU quanta of the largest node at most; finer costs time in proportion."""
_STEP_DOWN = -2
_EMPTY = -1

Contents = tuple[tuple[int, ...], ...]
"""What is on a node: for each GPU in use the kinds of its pods; a pod of several GPUs is listed once."""

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Priced:
    """Best value by GPUs and CPU quanta, with the pods that reach it."""

    value: tuple[_Floats, ...]
    _chosen: tuple[_Integers, ...]
    _on_gpu: _Integers
    _pricing: Pricing

    def worth(self, node: NodeShape) -> float:
        """Return the most that pods on an empty node of that shape can be worth, memory aside."""
        return float(self.value[node.gpus][self._pricing.quanta_of(node)])

    def contents(self, node: NodeShape) -> Contents:
        """Return the pods of that worth, GPU by GPU."""
        contents: list[tuple[int, ...]] = []
        gpus, cpu = node.gpus, self._pricing.quanta_of(node)
        while gpus > 0:
            chosen = int(self._chosen[gpus][cpu])
            if chosen < 0:
                kind = -chosen - 1
                contents.append((kind,))
                gpus -= self._pricing.kinds[kind].gpus
                cpu -= self._pricing.quanta[kind]
            else:
                contents.append(self._on_one_gpu(chosen))
                gpus, cpu = gpus - 1, cpu - chosen
        return tuple(sorted(pods for pods in contents if pods))

    def _on_one_gpu(self, cpu: int) -> tuple[int, ...]:
        pods: list[int] = []
        level = self._pricing.levels
        while level > 0:
            kind = int(self._on_gpu[level, cpu])
            if kind == _EMPTY:
                break
            if kind == _STEP_DOWN:
                level -= 1
                continue
            pods.append(kind)
            level -= self._pricing.milli[kind]
            cpu -= self._pricing.quanta[kind]
        return tuple(sorted(pods))


class Pricing:
    """Prices nodes for one set of kinds of pods; `best` is called again and again with other values."""

    def __init__(
        self, demand: Mapping[PodShape, int], supply: Mapping[NodeShape, int], *, relaxed: bool = False
    ) -> None:
        """`demand`: pods by kind, in the order of the values; `supply`: nodes by shape.

        `relaxed`: round CPU the other way, so that no set of pods can be worth more: for bounds.
        """
        self.kinds = tuple(demand)
        self.cells = 0
        """Cells of tables that were filled until now."""
        most_cpu = max((node.cpu_milli for node in supply), default=1)
        self._most_gpus = max((node.gpus for node in supply), default=0)
        exact = math.gcd(*(kind.cpu_milli for kind in demand), *(node.cpu_milli for node in supply)) or 1
        self._relaxed = relaxed
        self._quantum = exact if most_cpu <= exact * _QUANTA else self._coarse(demand, supply, most_cpu)
        self._size = -(-most_cpu // self._quantum) + 1
        self.quanta = [self._rounded(kind.cpu_milli, up=not relaxed) for kind in self.kinds]
        unit = math.gcd(WHOLE_GPU, *(kind.gpu_milli for kind in self.kinds if kind.gpus == 1))
        self.levels = WHOLE_GPU // unit
        self.milli = [kind.gpu_milli // unit for kind in self.kinds]

    def _coarse(self, demand: Mapping[PodShape, int], supply: Mapping[NodeShape, int], most_cpu: int) -> int:
        """Return the quantum, at most twice as large as it must be, that rounds all pods and nodes least."""
        pods = np.array([kind.cpu_milli for kind in demand])
        nodes = np.array([node.cpu_milli for node in supply])
        numbers, counts = np.array([*demand.values()]), np.array([*supply.values()])
        up, down = (nodes, pods) if self._relaxed else (pods, nodes)
        of_up, of_down = (counts, numbers) if self._relaxed else (numbers, counts)
        least = -(-most_cpu // _QUANTA)
        return min(
            range(least, 2 * least),
            key=lambda quantum: int((-up % quantum) @ of_up) + int((down % quantum) @ of_down),
        )

    def quanta_of(self, node: NodeShape) -> int:
        """Return the CPU quanta of a node."""
        return self._rounded(node.cpu_milli, up=self._relaxed)

    def _rounded(self, cpu_milli: int, *, up: bool) -> int:
        return -(-cpu_milli // self._quantum) if up else cpu_milli // self._quantum

    def best(self, values: _Floats) -> Priced:
        """Return the best sets of pods for every number of GPUs and CPU quanta. `values`: one for each kind."""
        worth, on_gpu = self._one_gpu(values)
        value, chosen = self._side_by_side(values, worth)
        return Priced(value, chosen, on_gpu, self)

    def _one_gpu(self, values: _Floats) -> tuple[_Floats, _Integers]:
        best: _Floats = np.zeros((self.levels + 1, self._size))
        chosen: _Integers = np.full((self.levels + 1, self._size), _EMPTY, dtype=np.int64)
        by_milli = self._undominated(values)
        for level in range(1, self.levels + 1):
            best[level] = best[level - 1]
            chosen[level] = _STEP_DOWN
            for milli, kinds in by_milli.items():
                if milli > level:
                    continue
                self.cells += len(kinds) * self._size
                for kind in kinds:
                    cpu = self.quanta[kind]
                    candidate = best[level - milli, : self._size - cpu] + values[kind]
                    better = candidate > best[level, cpu:] + 1e-12
                    best[level, cpu:][better] = candidate[better]
                    chosen[level, cpu:][better] = kind
        return best[self.levels], chosen

    def _undominated(self, values: _Floats) -> dict[int, list[int]]:
        """Return the kinds that take at most one GPU by their share of it, without those that another beats.

        A kind is beaten where one of the same share needs no more CPU and is worth no less.
        """
        by_milli: dict[int, list[int]] = {}
        best: dict[int, float] = {}
        for kind in sorted(range(len(self.kinds)), key=lambda kind: (self.quanta[kind], -values[kind])):
            milli, worth = self.milli[kind], float(values[kind])
            if self.kinds[kind].gpus == 1 and worth > best.get(milli, 0.0) and self.quanta[kind] < self._size:
                best[milli] = worth
                by_milli.setdefault(milli, []).append(kind)
        return by_milli

    def _side_by_side(
        self, values: _Floats, one_gpu: _Floats
    ) -> tuple[tuple[_Floats, ...], tuple[_Integers, ...]]:
        """Join GPUs one by one; pods of several GPUs take several at once (chosen: minus their kind, less one)."""
        cpu = np.arange(self._size)
        # One more quantum that adds no value to a GPU is of no use there.
        useful = np.flatnonzero(np.diff(one_gpu, prepend=-1.0))
        rest = cpu[:, np.newaxis] - useful[np.newaxis, :]
        possible, rest = rest >= 0, np.maximum(rest, 0)
        value: list[_Floats] = [np.zeros(self._size)]
        chosen: list[_Integers] = [np.zeros(self._size, dtype=np.int64)]
        several = [kind for kind, pod in enumerate(self.kinds) if pod.gpus > 1 and values[kind] > 0]
        for gpus in range(1, self._most_gpus + 1):
            joined = np.where(possible, value[gpus - 1][rest] + one_gpu[np.newaxis, useful], -1.0)
            self.cells += joined.size
            column = joined.argmax(axis=1)
            best, choice = joined[cpu, column], useful[column]
            for kind in several:
                wanted, needs = self.kinds[kind].gpus, self.quanta[kind]
                if wanted > gpus or needs >= self._size:
                    continue
                candidate = value[gpus - wanted][: self._size - needs] + values[kind]
                better = candidate > best[needs:] + 1e-12
                best[needs:][better] = candidate[better]
                choice[needs:][better] = -(kind + 1)
            value.append(best)
            chosen.append(choice)
        return tuple(value), tuple(chosen)
