"""GPU units on the NUMA nodes of a pool's nodes, as the kubelet's Topology Manager assigns them to pods.

A pod's units come from the smallest number of NUMA nodes that could hold them on an empty node. The first NUMA
nodes with enough free units are used. If there are none, the kubelet refuses the pod. With the policy
`single-numa-node`, all units must be on one NUMA node (see `pools/numa.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from extensions.capacity.rehearsal.model import Job
from gpu_platform.api.capacity import fewest

_Units = list[int]


class NumaUnits:
    """Units of one resource on the NUMA nodes of a pool's nodes: free units, and units that jobs hold.

    `whole` contains the number of units on each NUMA node of an empty node. `size` is the pool's maximum number of
    nodes. With `single`, a pod may use only one NUMA node.
    """

    def __init__(self, whole: Sequence[int], size: int, *, single: bool) -> None:
        self._whole = tuple(whole)
        self._single = single
        self._free = [list(whole) for _ in range(size)]
        self._held: dict[tuple[int, Job], _Units] = {}
        self._had: dict[tuple[int, Job], _Units] = {}

    def most(self, units: int) -> int:
        """Return how many pods fit on an empty node if each pod requests `units` units of the resource."""
        return self._room(list(self._whole), units)

    def room(self, node: int, units: int) -> int:
        """Return how many more pods fit on a node now if each pod requests `units` units of the resource."""
        free = self._free[node]
        return sum(free) if units == 1 else self._room(list(free), units)

    def fits(self, node: int, units: int) -> bool:
        """Return whether one more pod fits on a node now."""
        return self._choice(self._free[node], units) is not None

    def take(self, job: Job, node: int, units: int, pods: int) -> None:
        """Assign units to pods of a job. If possible, the pods receive the units that they had on this node
        before.
        """
        free, key = self._free[node], (node, job)
        had = self._had.pop(key, None)
        again = had is not None and key not in self._held and sum(had) == units * pods
        if had is not None and again and all(one <= left for one, left in zip(had, free, strict=True)):
            chosen = had
            for index, one in enumerate(had):
                free[index] -= one
        else:
            chosen = [0] * len(free)
            for _ in range(pods):
                self._take_one(free, units, chosen)
        held = self._held.setdefault(key, [0] * len(free))
        for index, one in enumerate(chosen):
            held[index] += one

    def give_back(self, job: Job, node: int) -> None:
        """Free all units that a job has on a node."""
        had = self._had[node, job] = self._held.pop((node, job))
        for index, one in enumerate(had):
            self._free[node][index] += one

    def _room(self, free: _Units, units: int) -> int:
        taken, room = [0] * len(free), 0
        while self._choice(free, units) is not None:
            self._take_one(free, units, taken)
            room += 1
        return room

    def _take_one(self, free: _Units, units: int, taken: _Units) -> None:
        chosen = self._choice(free, units)
        # If no NUMA nodes can be chosen, the pod was admitted by other rules and uses any free units.
        for index in sorted(chosen if chosen is not None else range(len(free)), key=lambda one: (free[one], one)):
            part = min(units, free[index])
            free[index] -= part
            taken[index] += part
            units -= part

    def _choice(self, free: _Units, units: int) -> tuple[int, ...] | None:
        """Return the NUMA nodes on which the kubelet puts a pod, or None if it refuses the pod."""
        needed = fewest(units, self._whole)
        if needed is None or (self._single and needed > 1):
            return None
        for nodes in combinations(range(len(free)), needed):
            if sum(free[node] for node in nodes) >= units:
                return nodes
        return None
