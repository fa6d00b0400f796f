"""Place pods one by one, each where it leaves least GPU without use for the pods expected next.

Two things make free GPU useless, both in thousandths of GPUs and added up:

- Fragments: free thousandths of a node that an expected pod cannot use, averaged over what is expected. A pod goes
  where that grows least: fragmentation gradient descent (FGD; Weng et al., "Beware of Fragmentation", USENIX ATC
  2023). Kinds of pods weigh by a root of their number here, so that rare kinds are not forgotten, and a little
  less the more GPU they ask for.
- Want of CPU: free thousandths beyond those for which the node has as much CPU left as the expected pods take for
  each. FGD asks what one more pod could use, and so does not see that eight free GPUs share CPU for one. What
  pods without GPUs take is counted the more, the less CPU all nodes together have beyond what pods with GPUs take:
  where there is plenty, such pods run beside GPUs that need little, and no GPU has to wait for their CPU.

Among nodes that are equally good the fullest is taken.
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
_SCARCITY_EXPONENT = 4
"""Of the part of spare CPU that pods without GPUs take, in how much of their CPU counts; found by trying, too."""
_EQUAL = 1e-6
_LEAST_CPU = 1e-6
"""Millicores for a thousandth of a GPU, where no pod asks for CPU: such a node wants for none."""
_NOWHERE = np.inf

_Integers = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod went: the node's index, and the indices of its GPUs there."""

    node: int
    gpus: tuple[int, ...]


class OnlinePlacer:
    """The free resources of all nodes, and for each kind of expected pod the price of every node.

    A price is computed anew only for the node that a pod was placed on.
    """

    def __init__(
        self, nodes: Sequence[NodeShape], expected: Mapping[PodShape, float], *, spare_cpu: bool = True
    ) -> None:
        """`expected`: kinds of pods, how many of each (only proportions count); other kinds have no price.

        `spare_cpu`: whether pods without GPUs are thought to use what CPU the others leave; else all of their CPU
        is counted, which is better where large pods come first.
        """
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
        self._requests = _Requests(self._kinds)
        self._cpu_of_thousandth = _cpu_of_thousandth(nodes if spare_cpu else (), expected)
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
        before = self._useless(node, self._cpu[[node]], self._memory[[node]], free[np.newaxis])[0]
        costs = (
            self._useless(
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

    def _useless(self, node: int, cpu: _Integers, memory: _Integers, free: _Integers) -> _Floats:
        """Return the GPU thousandths without use, one for each state of a node (`free`: states x GPUs)."""
        requests = self._requests
        kinds = requests.kinds
        weights = np.where(self._runs_on[self._models[node]], self._weights, 0.0)[kinds]
        enough = (cpu[:, np.newaxis] >= self._kind_cpu[kinds]) & (
            memory[:, np.newaxis] >= self._kind_memory[kinds]
        )
        # Kinds with one request differ only in whether the node has CPU and memory for them.
        weight: _Floats = np.add.reduceat(enough * weights, requests.firsts, axis=1)
        of_each = free[:, np.newaxis, :]
        usable: _Integers = (of_each * (of_each >= requests.milli[:, np.newaxis])).sum(axis=2)
        whole: _Integers = (free == WHOLE_GPU).sum(axis=1)
        too_few = (requests.milli == WHOLE_GPU) & (whole[:, np.newaxis] < requests.gpus)
        in_all: _Integers = free.sum(axis=1)
        fragments = in_all - (weight * np.where(too_few, 0, usable)).sum(axis=1)
        return fragments + np.maximum(in_all - cpu / self._cpu_of_thousandth, 0.0)


class _Requests:
    """Different requests of GPUs, and the kinds of pods with each: `kinds` from one of `firsts` to the next."""

    def __init__(self, kinds: Sequence[PodShape]) -> None:
        of_kind = {index: (kind.gpu_milli, kind.gpus) for index, kind in enumerate(kinds) if kind.gpus}
        ordered = sorted(of_kind, key=lambda index: of_kind[index])
        different = sorted(set(of_kind.values()))
        first = {of_kind[index]: place for place, index in reversed(list(enumerate(ordered)))}
        self.kinds: _Integers = np.array(ordered, dtype=np.int64)
        self.firsts: _Integers = np.array([first[one] for one in different], dtype=np.int64)
        self.milli: _Integers = np.array([milli for milli, _ in different], dtype=np.int64)
        self.gpus: _Integers = np.array([gpus for _, gpus in different], dtype=np.int64)


def _cpu_of_thousandth(nodes: Sequence[NodeShape], expected: Mapping[PodShape, float]) -> float:
    """Return the millicores to keep for each thousandth of a GPU, were all GPUs in use by expected pods.

    `nodes`: those that may have CPU to spare for pods without GPUs.
    """
    demand = sum(kind.demand_milli * number for kind, number in expected.items())
    if not demand:
        return _LEAST_CPU
    with_gpus = sum(kind.cpu_milli * number for kind, number in expected.items() if kind.gpus) / demand
    without = sum(kind.cpu_milli * number for kind, number in expected.items() if not kind.gpus) / demand
    gpus = max(1, sum(node.gpus for node in nodes)) * WHOLE_GPU
    spare = sum(node.cpu_milli for node in nodes) / gpus - with_gpus
    scarcity = without / spare if without < spare else 1.0
    return max(with_gpus + without * scarcity**_SCARCITY_EXPONENT, _LEAST_CPU)
