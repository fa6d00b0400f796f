"""Find the cheapest mix of pools for all demands, with a bound, each pool proven by a placement."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_platform.planning.capacity.nodes import NodeCapacity, PodGroup
from gpu_platform.planning.capacity.proof import Proof, prove
from gpu_platform.planning.suggest.options import Option, PodRequest

_MONEY = 1_000_000
"""Whole numbers for the solver: millionths of a USD."""
_ROUNDS = 40
_RANK = {"none": 0, "mig": 1, "mps": 2, "time-slicing": 2}
"""Of two mixes that cost the same, the one that shares less."""


@dataclass(frozen=True, slots=True)
class ChosenPool:
    """A pool of the mix: `pods` by demand (its index) and slot."""

    option: Option
    nodes: int
    pods: Mapping[tuple[int, str], int]

    @property
    def usd_per_hour(self) -> float:
        """What the pool costs."""
        return self.nodes * self.option.usd_per_hour


@dataclass(frozen=True, slots=True)
class Mix:
    """Pools for all demands. `bound`: no mix of the options costs less, USD/h."""

    pools: tuple[ChosenPool, ...]
    bound: float

    @property
    def usd_per_hour(self) -> float:
        """What the mix costs."""
        return sum(pool.usd_per_hour for pool in self.pools)

    @property
    def optimal(self) -> bool:
        """Whether the bound proves that no mix of the options is cheaper."""
        return self.usd_per_hour <= self.bound + 0.5 / _MONEY * max(1, len(self.pools))


def cheapest_mix(
    requests: Sequence[PodRequest], options: Sequence[Option], *, seconds: float = 20.0
) -> Mix | None:
    """Return the cheapest mix found within about `seconds`; None where the options do not suffice.

    OR-tools CP-SAT chooses by what the nodes of a pool have in all. The planner's own proof then places every pod
    node by node; where that shows too few nodes, the model learns it and chooses again.
    """
    deadline = time.monotonic() + seconds
    model = _Model(requests, options)
    bound, pools = 0.0, list[ChosenPool]()
    for _ in range(_ROUNDS):
        found = model.solve(max(1.0, deadline - time.monotonic()))
        if found is None:
            return None
        pools, lower = found
        bound = max(bound, lower)
        short = [pool for pool in pools if prove_pool(pool, requests).verdict != "placed"]
        if not short:
            cost = sum(pool.usd_per_hour for pool in pools)
            return Mix(tuple(_tight(pool, requests) for pool in pools), min(bound, cost))
        if time.monotonic() >= deadline:
            break
        for pool in short:
            model.learn(pool)
    grown = tuple(_grown(pool, requests) for pool in pools)
    return Mix(grown, bound)


def _grown(pool: ChosenPool, requests: Sequence[PodRequest]) -> ChosenPool:
    """Add nodes until the pool's pods fit."""
    while prove_pool(pool, requests).verdict != "placed":
        pool = ChosenPool(pool.option, pool.nodes + 1, pool.pods)
    return pool


def _tight(pool: ChosenPool, requests: Sequence[PodRequest]) -> ChosenPool:
    """Share a GPU among no more than its pods need: each replica then has more of it."""
    if pool.option.mode not in ("mps", "time-slicing"):
        return pool
    pods, gpus = sum(pool.pods.values()), pool.nodes * pool.option.machine.gpu_count
    for replicas in range(max(2, -(-pods // gpus)), pool.option.replicas):
        tighter = ChosenPool(replace(pool.option, replicas=replicas), pool.nodes, pool.pods)
        if prove_pool(tighter, requests).verdict == "placed":
            return tighter
    return pool


def split(pool: ChosenPool, requests: Sequence[PodRequest], most: int) -> list[ChosenPool]:
    """Return a pool as pools of at most `most` nodes, each with the pods that the proof places on its nodes."""
    if pool.nodes <= most:
        return [pool]
    numbers = {requests[number].name: number for number, _ in pool.pods}
    parts: list[dict[tuple[int, str], int]] = [{} for _ in range(-(-pool.nodes // most))]
    for place in prove_pool(pool, requests).pods:
        part, key = parts[place.node // most], (numbers[place.group.owner], place.group.resource)
        part[key] = part.get(key, 0) + place.pods
    return [
        ChosenPool(pool.option, min(most, pool.nodes - index * most), part) for index, part in enumerate(parts)
    ]


def prove_pool(pool: ChosenPool, requests: Sequence[PodRequest]) -> Proof:
    """Return the planner's proof that the pods of a pool fit on its nodes."""
    resources = pool.option.allocatable
    capacities = [
        NodeCapacity(
            pool="pool",
            count=pool.nodes,
            units=pool.option.slots,
            gpus_each={},
            cpu_millicores=resources.cpu_millicores,
            memory_mib=resources.memory_mib,
        )
    ]
    groups = [
        PodGroup(
            owner=requests[number].name,
            name=requests[number].name,
            resource=slot,
            units=requests[number].gpus,
            count=count,
            needs={"pool": requests[number].pod},
        )
        for (number, slot), count in pool.pods.items()
    ]
    return prove(capacities, groups, seconds=5.0)


class _Model:
    """Solver model: nodes of each option, and pods of each demand in its slots."""

    def __init__(self, requests: Sequence[PodRequest], options: Sequence[Option]) -> None:
        # The import takes half a second, and only this class needs it.
        from ortools.sat.python import cp_model

        self._cp = cp_model
        self._model = cp_model.CpModel()
        self._requests = requests
        self._options = [option for option in options if any(option.slots_for(request) for request in requests)]
        self._pods: list[dict[tuple[int, str], Any]] = []
        self._nodes: list[Any] = []
        placed: list[list[Any]] = [[] for _ in requests]
        for option in self._options:
            slots = [
                (number, slot) for number, request in enumerate(requests) for slot in option.slots_for(request)
            ]
            pods = {key: self._model.new_int_var(0, requests[key[0]].count, "") for key in slots}
            most = sum(requests[number].count for number in {number for number, _ in slots})
            nodes = self._model.new_int_var(0, most, "")
            for (number, _), count in pods.items():
                placed[number].append(count)
            self._pods.append(pods)
            self._nodes.append(nodes)
            self._limit(option, pods, nodes)
        for request, counts in zip(requests, placed, strict=True):
            self._model.add(sum(counts) == request.count)
        self._share_in_one_domain()
        self._cost = sum(
            nodes * round(option.usd_per_hour * _MONEY)
            for nodes, option in zip(self._nodes, self._options, strict=True)
        )

    def _share_in_one_domain(self) -> None:
        """Let pods of one trust domain share by replicas: a quota of shares is good on every pool that has them.

        The rule sharing-across-tenants refuses such quotas for teams that do not trust each other.
        """
        shares = {option.domain: self._model.new_bool_var("") for option in self._options if option.domain}
        for option, nodes in zip(self._options, self._nodes, strict=True):
            if option.domain is not None:
                self._model.add(nodes == 0).only_enforce_if(~shares[option.domain])
        self._model.add_at_most_one(shares.values())

    def _limit(self, option: Option, pods: Mapping[tuple[int, str], Any], nodes: Any) -> None:  # noqa: ANN401
        """Keep within what the nodes have in all, and within the pods of one demand that fit one node."""
        requests, resources = self._requests, option.allocatable
        for slot, there in option.slots.items():
            taken = [count * requests[number].gpus for (number, name), count in pods.items() if name == slot]
            self._model.add(sum(taken) <= nodes * there)
        cpu = sum(count * requests[number].pod.cpu_millicores for (number, _), count in pods.items())
        memory = sum(count * requests[number].pod.memory_mib for (number, _), count in pods.items())
        self._model.add(cpu <= nodes * resources.cpu_millicores)
        self._model.add(memory <= nodes * resources.memory_mib)
        for number in dict.fromkeys(number for number, _ in pods):
            request = requests[number]
            slots = sum(option.slots[name] // request.gpus for other, name in pods if other == number)
            by_cpu = (
                resources.cpu_millicores // request.pod.cpu_millicores if request.pod.cpu_millicores else slots
            )
            by_memory = resources.memory_mib // request.pod.memory_mib if request.pod.memory_mib else slots
            held = sum(count for (other, _), count in pods.items() if other == number)
            self._model.add(held <= nodes * min(slots, by_cpu, by_memory))

    def learn(self, pool: ChosenPool) -> None:
        """Rule out so few nodes for so many pods: a pod less of some kind, or a node more."""
        index = self._options.index(pool.option)
        ways: list[Any] = []
        for key, count in pool.pods.items():
            less = self._model.new_bool_var("")
            self._model.add(self._pods[index][key] < count).only_enforce_if(less)
            ways.append(less)
        more = self._model.new_bool_var("")
        self._model.add(self._nodes[index] > pool.nodes).only_enforce_if(more)
        self._model.add_bool_or([*ways, more])

    def solve(self, seconds: float) -> tuple[list[ChosenPool], float] | None:
        """Return the cheapest mix and the bound on its cost; of mixes that cost the same the plainest."""
        self._model.clear_hints()
        self._model.minimize(self._cost)
        solver = self._solver(seconds * 0.7)
        status = solver.solve(self._model)
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return None
        bound, cost = solver.best_objective_bound / _MONEY, solver.value(self._cost)
        plainest = self._plainest(solver, cost, seconds * 0.3)
        return self._read(plainest), bound

    def _plainest(self, cheapest: Any, cost: int, seconds: float) -> Any:  # noqa: ANN401 - ortools has no types
        """Choose again at the same cost: few pools, and little sharing."""
        model = self._model.clone()
        used: list[Any] = []
        for nodes, option in zip(self._nodes, self._options, strict=True):
            there = model.new_bool_var("")
            model.add(nodes == 0).only_enforce_if(~there)
            used.append(there * (10 + _RANK[option.mode]))
        model.add(self._cost <= cost)
        model.minimize(sum(used))
        for variable in (*self._nodes, *(count for pods in self._pods for count in pods.values())):
            model.add_hint(variable, cheapest.value(variable))
        solver = self._solver(seconds)
        return solver if solver.solve(model) in (self._cp.OPTIMAL, self._cp.FEASIBLE) else cheapest

    def _solver(self, seconds: float) -> Any:  # noqa: ANN401 - ortools has no types
        solver = self._cp.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 1
        return solver

    def _read(self, solver: Any) -> list[ChosenPool]:  # noqa: ANN401 - ortools has no types
        return [
            ChosenPool(
                option,
                solver.value(nodes),
                {key: solver.value(count) for key, count in pods.items() if solver.value(count)},
            )
            for option, nodes, pods in zip(self._options, self._nodes, self._pods, strict=True)
            if solver.value(nodes)
        ]
