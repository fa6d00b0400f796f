"""Free resources of a node while pods are placed, and the score that kube-scheduler uses to compare nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final

from extensions.capacity.scheduling.model import CPU, MEMORY, Amounts, Lack, Node, PodGroup, ProfileName, free_of
from extensions.capacity.scheduling.profiles import BALANCE_WEIGHT, scored_by_amount
from gpu_platform.api.capacity import fewest

_MOST: Final = 100
_TAINT_WEIGHT: Final = 3


class NodeState:
    """Free resources of a node, and the free units of each of its GPUs."""

    def __init__(self, index: int, node: Node) -> None:
        self.index = index
        self.node = node
        self.free: dict[str, int] = dict(node.allocatable)
        self.gpus: list[dict[str, int]] = [dict(gpu) for gpu in node.gpus]
        self._scored: dict[str, int] = {CPU: 0, MEMORY: 0}

    def copy(self) -> NodeState:
        """Return a copy on which changes can be tried."""
        found = NodeState(self.index, self.node)
        found.free, found.gpus = dict(self.free), [dict(gpu) for gpu in self.gpus]
        found._scored = dict(self._scored)
        return found

    def fits(self, needs: Amounts) -> bool:
        """Return whether a pod with these requests fits on the node, in addition to its current pods."""
        for name, amount in needs.items():
            free = free_of(name, self.free)
            if free is not None and free < amount:
                return False
        return not self._misaligned(needs)

    def lack(self, needs: Amounts) -> Lack:
        """Return the resources that the node lacks for these requests."""
        short = [
            name
            for name, amount in needs.items()
            if (free := free_of(name, self.free)) is not None and free < amount
        ]
        misaligned = () if short else self._misaligned(needs)
        return Lack(
            node=self.index,
            resources=(*short, *misaligned),
            misaligned=bool(misaligned),
            free={name: free_of(name, self.free) or 0 for name in needs},
            total={name: free_of(name, self.node.allocatable) or 0 for name in needs},
        )

    def take(self, group: PodGroup) -> tuple[int, ...]:
        """Place a pod and return the index of a GPU for each of its units.

        Each unit comes from the GPU with the fewest units in use, because the device plugin prefers this GPU
        (NVIDIA/k8s-device-plugin, internal/rm/allocate.go, policy `distributed`, read 2026-11-23). The kubelet
        chooses the MIG instance of a pod; the simulation uses the same rule for MIG instances.
        """
        needs = group.needs()
        for name, amount in needs.items():
            if name in self.free:
                self.free[name] -= amount
        for name in self._scored:
            self._scored[name] += group.scored.get(name, group.requests.get(name, 0))
        taken: list[int] = []
        for name, amount in needs.items():
            # Pods on a live node may hold GPUs that the kubelet would not assign with its current settings.
            among = self._aligned(name, amount) or range(len(self.gpus))
            for _ in range(amount if any(name in gpu for gpu in self.node.gpus) else 0):
                gpu = self._emptiest(name, among)
                if gpu is None:
                    break  # a live node may have fewer units than its pods hold
                self.gpus[gpu][name] -= 1
                taken.append(gpu)
        return tuple(taken)

    def release(self, group: PodGroup, gpus: tuple[int, ...]) -> None:
        """Remove a pod that was placed by `take`."""
        left = list(gpus)
        for name, amount in group.needs().items():
            if name in self.free:
                self.free[name] += amount
            if any(name in gpu for gpu in self.node.gpus):
                for gpu in left[:amount]:
                    self.gpus[gpu][name] += 1
                left = left[amount:]
        for name in self._scored:
            self._scored[name] -= group.scored.get(name, group.requests.get(name, 0))

    def score(self, group: PodGroup, disliked: int, most_disliked: int, profile: ProfileName = "default") -> int:
        """Return a node's score for a pod that fits, with a kube-scheduler profile.

        The default profile uses NodeResourcesFit with LeastAllocated, NodeResourcesBalancedAllocation and
        TaintToleration. Source: kubernetes v1.36.3, pkg/scheduler/framework/plugins/noderesources
        (least_allocated.go, balanced_allocation.go) and apis/config/v1/default_plugins.go (weights 1, 1 and 3),
        read 2026-11-23.
        """
        gpus = [name for name in self.node.gpu_resources if group.requests.get(name) and scored_by_amount(name)]
        if profile == "packed" and gpus:
            total_score = self._packed(group, gpus)
        else:
            total_score = self._most(group, gpus) if profile == "most-allocated" else self._least(group)
        if most_disliked:
            total_score += _TAINT_WEIGHT * (_MOST - _MOST * disliked // most_disliked)
        return total_score

    def _least(self, group: PodGroup) -> int:
        least: list[int] = []
        for name in (CPU, MEMORY):
            total = self.node.allocatable.get(name, 0)
            if total:
                used = self._scored[name] + group.scored.get(name, group.requests.get(name, 0))
                least.append((total - used) * _MOST // total if used <= total else 0)
        total_score = sum(least) // len(least) if least else 0
        if any(group.requests.get(name) for name in (CPU, MEMORY)):
            total_score += self._evenness(group.requests, (CPU, MEMORY))
        return total_score

    def _most(self, group: PodGroup, gpus: Sequence[str]) -> int:
        """Return the sum of two scores: NodeResourcesFit with MostAllocated, and the default balance score.

        Source: kubernetes v1.36.3, pkg/scheduler/framework/plugins/noderesources/most_allocated.go; read
        2026-11-28.
        """
        most: list[int] = []
        for name in (CPU, MEMORY, *gpus):
            total = self.node.allocatable.get(name, 0)
            if total:
                used = (
                    total - self.free[name] + group.requests[name]
                    if name in gpus
                    else self._scored[name] + group.scored.get(name, group.requests.get(name, 0))
                )
                most.append(min(used, total) * _MOST // total)
        total_score = sum(most) // len(most) if most else 0
        if any(group.requests.get(name) for name in (CPU, MEMORY)):
            total_score += self._evenness(group.requests, (CPU, MEMORY))
        return total_score

    def _packed(self, group: PodGroup, gpus: Sequence[str]) -> int:
        most = [
            (total - self.free[name] + group.requests[name]) * _MOST // total
            for name in gpus
            if (total := self.node.allocatable.get(name, 0))
        ]
        in_use = sum(most) // len(most) if most else 0
        return in_use + BALANCE_WEIGHT * self._evenness(group.requests, (CPU, MEMORY, *gpus))

    def idle_gpus(self) -> list[int]:
        """Return the indices of GPUs that no pod uses."""
        return [index for index, gpu in enumerate(self.gpus) if gpu == self.node.gpus[index]]

    def _misaligned(self, needs: Amounts) -> tuple[str, ...]:
        """Return the resources that have enough free units, but on more NUMA nodes than the kubelet accepts."""
        if not self.node.numa:
            return ()
        return tuple(name for name, amount in needs.items() if self._aligned(name, amount) == ())

    def _aligned(self, name: str, amount: int) -> tuple[int, ...] | None:
        """Return the GPUs of the NUMA nodes that the kubelet would use, or None if alignment does not matter.

        The kubelet uses the smallest number of NUMA nodes that could hold the units on an empty node. It takes the
        first NUMA nodes with enough free units (`planning/pools/numa.py`). The result is empty if there are none.
        """
        if not self.node.numa or amount < 2 or not any(gpu.get(name) for gpu in self.node.gpus):
            return None
        nodes = sorted(set(self.node.numa))
        of = {node: [index for index, one in enumerate(self.node.numa) if one == node] for node in nodes}
        totals = [sum(self.node.gpus[index].get(name, 0) for index in of[node]) for node in nodes]
        least = fewest(amount, totals)
        if least is None:
            return None  # not even an empty node has that many units
        if self.node.single_numa and least > 1:
            return ()
        for chosen in combinations(nodes, least):
            gpus = tuple(index for node in chosen for index in of[node])
            if sum(self.gpus[index].get(name, 0) for index in gpus) >= amount:
                return gpus
        return ()

    def _emptiest(self, name: str, among: Iterable[int]) -> int | None:
        offering = [index for index in among if self.gpus[index].get(name)]
        used = {index: self.node.gpus[index][name] - self.gpus[index][name] for index in offering}
        return min(offering, key=lambda index: used[index]) if offering else None

    def _evenness(self, requests: Amounts, resources: Sequence[str]) -> int:
        """Return the score of NodeResourcesBalancedAllocation: how much more evenly the node's resources are used
        with a pod.
        """
        after, before = self._balance(requests, resources), self._balance({}, resources)
        return _MOST // 2 + (_MOST // 2 + after - before) // 2

    def _balance(self, more: Amounts, resources: Sequence[str]) -> int:
        parts = [
            min(1.0, (total - self.free[name] + more.get(name, 0)) / total)
            for name in resources
            if (total := self.node.allocatable.get(name, 0))
        ]
        mean = sum(parts) / len(parts) if parts else 0.0
        deviation = (
            abs(parts[0] - parts[1]) / 2
            if len(parts) == 2
            else math.sqrt(sum((part - mean) ** 2 for part in parts) / len(parts))
            if len(parts) > 2
            else 0.0
        )
        return int((1 - deviation) * _MOST)
