"""Place pods one by one, each where it fragments GPUs least for the pods expected next.

The measure is fragmentation: of a node's free GPU thousandths, those that an expected pod could not use, averaged
over what is expected. A pod goes where that grows least: fragmentation gradient descent (FGD; Weng et al., "Beware
of Fragmentation", USENIX ATC 2023). Two differences, both measured on the openb trace: kinds of pods weigh by a
root of their number, so that rare kinds are not forgotten, and a little less the more GPU they ask for; and among
nodes that are equally good the fullest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_platform.planning.placement.shapes import WHOLE_GPU, NodeShape, PodShape

_NUMBER_EXPONENT = 0.15
_DEMAND_EXPONENT = -0.25
"""Of a kind's number and of its GPU demand in its weight; FGD has 1 and 0. Found by trying on the openb trace."""
_EQUAL = 1e-6
_NOWHERE = np.inf

_Integers = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod went: the node's index, and the indices of its GPUs there."""

    node: int
    gpus: tuple[int, ...]


class OnlinePlacer:
    """The free resources of all nodes, and for each kind of expected pod the price of every node.

    A price is computed anew only for the node that a pod was placed on.
    """

    def __init__(self, nodes: Sequence[NodeShape], expected: Mapping[PodShape, float]) -> None:
        """`expected`: kinds of pods, how many of each (only proportions count); other kinds have no price."""
        self._models = [node.model for node in nodes]
        self._cpu: _Integers = np.array([node.cpu_milli for node in nodes], dtype=np.int64)
        self._memory: _Integers = np.array([node.memory_mib for node in nodes], dtype=np.int64)
        width = max((node.gpus for node in nodes), default=0)
        self._free: _Integers = np.zeros((len(nodes), max(width, 1)), dtype=np.int64)
        for index, node in enumerate(nodes):
            self._free[index, : node.gpus] = WHOLE_GPU
        self._kinds = tuple(expected)
        self._index = {kind: index for index, kind in enumerate(self._kinds)}
        self._kind_cpu: _Integers = np.array([kind.cpu_milli for kind in self._kinds], dtype=np.int64)
        self._kind_memory: _Integers = np.array([kind.memory_mib for kind in self._kinds], dtype=np.int64)
        self._kind_gpus: _Integers = np.array([kind.gpus for kind in self._kinds], dtype=np.int64)
        self._kind_milli: _Integers = np.array([kind.gpu_milli for kind in self._kinds], dtype=np.int64)
        numbers: _Floats = np.array(
            [expected[kind] if kind.gpus else 0.0 for kind in self._kinds], dtype=np.float64
        )
        demand: _Floats = np.array([max(kind.demand_milli, 1) for kind in self._kinds], dtype=np.float64)
        weights: _Floats = np.where(numbers > 0, numbers**_NUMBER_EXPONENT * demand**_DEMAND_EXPONENT, 0.0)
        self._weights: _Floats = weights / max(float(weights.sum()), 1e-12)
        self._runs_on = {
            model: np.array([kind.accepts(model) for kind in self._kinds], dtype=np.bool_)
            for model in set(self._models)
        }
        self._price: _Floats = np.full((len(nodes), len(self._kinds)), _NOWHERE)
        self._gpu: _Integers = np.zeros((len(nodes), len(self._kinds)), dtype=np.int64)
        priced: dict[NodeShape, int] = {}
        for index, node in enumerate(nodes):
            same = priced.setdefault(node, index)
            if same == index:
                self._refresh(index)
            else:
                self._price[index], self._gpu[index] = self._price[same], self._gpu[same]

    def place(self, pod: PodShape) -> Place | None:
        """Place a pod and return where, or None where it fits no node. Raises KeyError for an unexpected kind."""
        kind = self._index[pod]
        prices = self._price[:, kind]
        least = prices.min(initial=_NOWHERE)
        if least == _NOWHERE:
            return None
        best = np.nonzero(prices <= least + _EQUAL)[0]
        fullest = np.lexsort((self._cpu[best], self._free[best].sum(axis=1)))[0]
        return self._take(int(best[fullest]), kind)

    def _take(self, node: int, kind: int) -> Place:
        pod = self._kinds[kind]
        self._cpu[node] -= pod.cpu_milli
        self._memory[node] -= pod.memory_mib
        if pod.is_share:
            gpus: tuple[int, ...] = (int(self._gpu[node, kind]),)
        else:
            gpus = tuple(int(gpu) for gpu in np.nonzero(self._free[node] == WHOLE_GPU)[0][: pod.gpus])
        self._free[node, list(gpus)] -= pod.gpu_milli
        self._refresh(node)
        return Place(node, gpus)

    def _refresh(self, node: int) -> None:
        """Compute what each kind of pod would cost on a node: one trial for each way to place it there."""
        free = self._free[node]
        whole = np.nonzero(free == WHOLE_GPU)[0]
        levels: list[int] = free.tolist()
        first_of_free = {milli: levels.index(milli) for milli in levels}
        enough = (self._kind_cpu <= self._cpu[node]) & (self._kind_memory <= self._memory[node])
        trials: list[tuple[int, int]] = []
        left: list[_Integers] = []
        for kind in np.nonzero(enough & self._runs_on[self._models[node]])[0]:
            pod = self._kinds[kind]
            if pod.is_share:
                gpus = [gpu for milli, gpu in first_of_free.items() if milli >= pod.gpu_milli]
            else:
                gpus = [0] if len(whole) >= pod.gpus else []
            for gpu in gpus:
                after = free.copy()
                after[gpu if pod.is_share else whole[: pod.gpus]] -= pod.gpu_milli
                trials.append((int(kind), gpu))
                left.append(after)
        self._price[node] = _NOWHERE
        if not trials:
            return
        kinds = np.array([kind for kind, _ in trials])
        before = self._fragments(node, self._cpu[[node]], self._memory[[node]], free[np.newaxis])[0]
        costs = (
            self._fragments(
                node,
                self._cpu[node] - self._kind_cpu[kinds],
                self._memory[node] - self._kind_memory[kinds],
                np.array(left),
            )
            - before
        )
        for (kind, gpu), cost in zip(trials, costs, strict=True):
            if cost < self._price[node, kind] - _EQUAL:
                self._price[node, kind], self._gpu[node, kind] = cost, gpu

    def _fragments(self, node: int, cpu: _Integers, memory: _Integers, free: _Integers) -> _Floats:
        """Return the GPU thousandths that expected pods cannot use, one for each state (`free`: states x GPUs)."""
        whole: _Integers = (free == WHOLE_GPU).sum(axis=1)
        largest: _Integers = free.max(axis=1)
        share_fits: _Bools = largest[:, np.newaxis] >= self._kind_milli
        whole_fit: _Bools = whole[:, np.newaxis] >= self._kind_gpus
        enough: _Bools = (cpu[:, np.newaxis] >= self._kind_cpu) & (memory[:, np.newaxis] >= self._kind_memory)
        is_share: _Bools = self._kind_milli < WHOLE_GPU
        fits = enough & self._runs_on[self._models[node]] & ((is_share & share_fits) | (~is_share & whole_fit))
        of_each = free[:, np.newaxis, :]
        too_small: _Integers = (of_each * (of_each < self._kind_milli[np.newaxis, :, np.newaxis])).sum(axis=2)
        free_in_all: _Integers = free.sum(axis=1)
        unusable: _Integers = np.where(fits, too_small, free_in_all[:, np.newaxis])
        return unusable @ self._weights
