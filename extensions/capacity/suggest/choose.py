"""Searches for the cheapest mix of pools for all demands, with a lower bound on its cost.

For each pool, a placement of all its pods proves that they fit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, fsum
from typing import Any

from extensions.capacity.suggest.options import Option, PodRequest, Reservation
from gpu_platform.api.capacity import NodeCapacity, PodGroup, Proof, prove
from gpu_platform.base.solver import new_solver

_MONEY = 1_000_000
"""Factor that converts USD to millionths of a USD, because the solver needs whole numbers."""
_ROUNDS = 40
_RANK = {"none": 0, "mig": 1, "mps": 2, "time-slicing": 2}
"""Ranks of the sharing modes. Among mixes with the same cost, fewer pools and lower ranks are preferred."""
_MENU_RANK = 3  # MIG with different layouts on the GPUs of a node


@dataclass(frozen=True, slots=True)
class ChosenPool:
    """A pool of the mix. `pods` contains the number of pods by demand index and slot kind."""

    option: Option
    nodes: int
    pods: Mapping[tuple[int, str], int]

    @property
    def usd_per_hour(self) -> float:
        """Cost of the pool in USD/h."""
        return self.nodes * self.option.usd_per_hour

    def requests(self, every: Sequence[PodRequest]) -> list[PodRequest]:
        """Return the demands with pods in this pool. Their `count` is the number of pods in this pool."""
        held: dict[int, int] = {}
        for (number, _), count in self.pods.items():
            held[number] = held.get(number, 0) + count
        return [replace(every[number], count=count) for number, count in held.items()]


@dataclass(frozen=True, slots=True)
class Mix:
    """Pools for all demands.

    `bound` is a lower bound on the cost of any mix of the options, in USD/h. `timed_out` is true if the search
    ended early. If `pools` is a mix of fewer pools that costs slightly more, `cheapest` contains the cheapest
    pools found; otherwise it is empty.
    """

    pools: tuple[ChosenPool, ...]
    bound: float
    timed_out: bool
    cheapest: tuple[ChosenPool, ...]

    @property
    def usd_per_hour(self) -> float:
        """Cost of the mix in USD/h."""
        return fsum(pool.usd_per_hour for pool in self.pools)

    @property
    def optimal(self) -> bool:
        """Whether the bound proves that no mix of the options is cheaper than the cheapest mix found."""
        pools = self.cheapest or self.pools
        return _cost(pools) <= self.bound + 0.5 / _MONEY * max(1, len(pools))


def cheapest_mix(
    requests: Sequence[PodRequest], options: Sequence[Option], *, seconds: float = 20.0, within: float = 0.0
) -> Mix | None:
    """Return the cheapest mix found within about `seconds`, or None if a demand does not fit any option.

    OR-tools CP-SAT chooses pools by the total resources of their nodes. The planner's proof then assigns every pod
    to a node. If a pool has too few nodes for its pods, CP-SAT excludes this choice and chooses again. At the time
    limit, the best mix so far is returned. In the worst case, it contains a separate pool of the cheapest nodes
    for each demand. A mix of fewer pools is preferred if it costs at most the fraction `within` more.
    """
    if unfit(requests, options):
        return None
    deadline = time.monotonic() + seconds
    model = _Model(requests, options)
    best, bound = plain_mix(requests, options)
    # The model also excludes pools with the verdict `unknown`, although their pods may fit.
    # Lower bounds that are found after such an exclusion are not valid.
    timed_out, is_sound = False, True
    for _ in range(_ROUNDS):
        found = model.solve(max(0.0, deadline - time.monotonic()))
        if found is None:
            timed_out = True
            break
        pools, lower = found
        bound = max(bound, lower) if is_sound else bound
        verdicts = [prove_pool(pool, requests).verdict for pool in pools]
        short = [pool for pool, verdict in zip(pools, verdicts, strict=True) if verdict != "placed"]
        is_sound = is_sound and "unknown" not in verdicts
        grown = [_grown(pool, requests) for pool in pools]
        if _is_there(grown):
            best = min(best, grown, key=_cost)
        if not short:
            break
        for pool in short:
            model.learn(pool)
    bound = min(bound, _cost(best))
    simpler = model.simplest(best, within, deadline) if within and not timed_out else None
    mix = Mix(
        tuple(_tight(pool, requests) for pool in simpler or best),
        bound,
        timed_out,
        tuple(_tight(pool, requests) for pool in best) if simpler else (),
    )
    return replace(mix, timed_out=(timed_out or model.timed_out) and not mix.optimal)


def unfit(requests: Sequence[PodRequest], options: Sequence[Option]) -> tuple[str, ...]:
    """Return the names of demands that no option can hold.

    All other demands fit, because the number of nodes is not limited.
    """
    return tuple(request.name for request in requests if not any(option.slots_for(request) for option in options))


def _cost(pools: Sequence[ChosenPool]) -> float:
    return fsum(pool.usd_per_hour for pool in pools)


def plain_mix(requests: Sequence[PodRequest], options: Sequence[Option]) -> tuple[list[ChosenPool], float]:
    """Return a mix that buys separate nodes for each demand, and a lower bound on the cost of any mix in USD/h.

    The bound assumes that a node never holds more pods of one demand than it would hold
    without other demands.
    """
    every = [
        [
            (option, slot, pods)
            for option in options
            if not option.menu  # for pods of a single demand, the same layout on all GPUs is best
            for slot in option.slots_for(request)
            if (pods := _pods_on_node(option, slot, request))
        ]
        for request in requests
    ]
    bound = max(
        request.count * min(option.usd_per_hour / all_pods_on_node(option, request) for option, _, _ in of_one)
        for request, of_one in zip(requests, every, strict=True)
    )
    ways = [[one for one in of_one if one[0].reservation is None] for of_one in every]
    mixes: list[list[ChosenPool]] = []
    for domain in {option.domain: None for option in options} or {None: None}:
        chosen: dict[Option, ChosenPool] = {}
        for number, (request, of_one) in enumerate(zip(requests, ways, strict=True)):
            allowed = [one for one in of_one if one[0].domain in (None, domain)]
            option, slot, pods = min(allowed, key=lambda one: -(-request.count // one[2]) * one[0].usd_per_hour)
            nodes, before = -(-request.count // pods), chosen.get(option)
            held = {**(before.pods if before else {}), (number, slot): request.count}
            chosen[option] = ChosenPool(option, nodes + (before.nodes if before else 0), held)
        mixes.append(list(chosen.values()))
    return min(mixes, key=_cost), bound


def _pods_on_node(option: Option, slot: str, request: PodRequest) -> int:
    """Return how many pods of a demand fit on a node if they use only slots of one kind."""
    return min(option.slots[slot] // request.gpus, _pods_by_resources(option, request))


def all_pods_on_node(option: Option, request: PodRequest) -> int:
    """Return how many pods of a demand fit on a node if they may use all slots."""
    fitting = set(option.slots_for(request))
    if option.menu:
        most = max(sum(count for name, count in layout if name in fitting) for layout in option.menu)
        slots = most * option.machine.gpu_count
    else:
        slots = sum(option.slots[slot] // request.gpus for slot in fitting)
    return min(slots, _pods_by_resources(option, request))


def _pods_by_resources(option: Option, request: PodRequest) -> int:
    resources, pod = option.allocatable, request.pod
    by_cpu = resources.cpu_millicores // pod.cpu_millicores if pod.cpu_millicores else request.count
    by_memory = resources.memory_mib // pod.memory_mib if pod.memory_mib else request.count
    return min(by_cpu, by_memory, option.pods)


def _grown(pool: ChosenPool, requests: Sequence[PodRequest]) -> ChosenPool:
    """Return the pool with as many additional nodes as its pods need."""
    while prove_pool(pool, requests).verdict != "placed":
        pool = ChosenPool(pool.option, pool.nodes + 1, pool.pods)
    return pool


def _is_there(pools: Sequence[ChosenPool]) -> bool:
    """Return whether each reservation has enough machines for all pools that use the reservation."""
    taken: dict[Reservation, int] = {}
    for pool in pools:
        if pool.option.reservation is not None:
            taken[pool.option.reservation] = taken.get(pool.option.reservation, 0) + pool.nodes
    return all(nodes <= reservation.count for reservation, nodes in taken.items())


def _tight(pool: ChosenPool, requests: Sequence[PodRequest]) -> ChosenPool:
    """Reduce the number of replicas per GPU to what the pods need, so that each replica gets a larger share."""
    if pool.option.mode not in ("mps", "time-slicing"):
        return pool
    pods, gpus = sum(pool.pods.values()), pool.nodes * pool.option.machine.gpu_count
    for replicas in range(max(2, -(-pods // gpus)), pool.option.replicas):
        tighter = ChosenPool(replace(pool.option, replicas=replicas), pool.nodes, pool.pods)
        if prove_pool(tighter, requests).verdict == "placed":
            return tighter
    return pool


def split(pool: ChosenPool, requests: Sequence[PodRequest], most: int) -> list[ChosenPool]:
    """Split a pool into pools of at most `most` nodes, each with the pods that the proof places on these nodes."""
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
            pods=pool.option.pods,
            numa=pool.option.numa,
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
    """Solver model. Its variables are the number of nodes of each option, and the number of each demand's pods by
    kind of slot.
    """

    def __init__(self, requests: Sequence[PodRequest], options: Sequence[Option]) -> None:
        # Importing OR-tools takes half a second, and only this class needs it.
        from ortools.sat.python import cp_model

        self._cp = cp_model
        self._model = cp_model.CpModel()
        self.timed_out = False
        self._requests = requests
        self._options = [option for option in options if any(option.slots_for(request) for request in requests)]
        self._pods: list[dict[tuple[int, str], Any]] = []
        self._nodes: list[Any] = []
        # Number of a node's GPUs with each layout, for each option that has a menu of layouts.
        self._chosen: dict[int, list[Any]] = {}
        self._index = {option: index for index, option in enumerate(self._options)}
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
        self._keep_to_reservations()
        self._cost = sum(
            nodes * round(option.usd_per_hour * _MONEY)
            for nodes, option in zip(self._nodes, self._options, strict=True)
        )

    def _share_in_one_domain(self) -> None:
        """Allow only the pods of one trust domain to share GPUs by time-slicing or MPS.

        A quota of shares is valid on every pool that offers shares. The rule sharing-across-tenants refuses such
        quotas for teams that do not trust each other.
        """
        shares = {option.domain: self._model.new_bool_var("") for option in self._options if option.domain}
        for option, nodes in zip(self._options, self._nodes, strict=True):
            if option.domain is not None:
                self._model.add(nodes == 0).only_enforce_if(~shares[option.domain])
        self._model.add_at_most_one(shares.values())

    def _keep_to_reservations(self) -> None:
        """Limit the total number of machines that all pools use from each reservation."""
        taken: dict[Reservation, list[Any]] = {}
        for option, nodes in zip(self._options, self._nodes, strict=True):
            if option.reservation is not None:
                taken.setdefault(option.reservation, []).append(nodes)
        for reservation, nodes in taken.items():
            self._model.add(sum(nodes) <= reservation.count)

    def _limit(self, option: Option, pods: Mapping[tuple[int, str], Any], nodes: Any) -> None:  # noqa: ANN401
        """Limit all pods by the nodes' total resources, and each demand's pods by how many fit on a node."""
        requests, resources = self._requests, option.allocatable
        there = {slot: nodes * count for slot, count in option.slots.items()}
        if option.menu:
            there = self._choose(option, nodes, max(request.count for request in requests))
        for slot, offered in there.items():
            taken = [count * requests[number].gpus for (number, name), count in pods.items() if name == slot]
            self._model.add(sum(taken) <= offered)
        cpu = sum(count * requests[number].pod.cpu_millicores for (number, _), count in pods.items())
        memory = sum(count * requests[number].pod.memory_mib for (number, _), count in pods.items())
        self._model.add(cpu <= nodes * resources.cpu_millicores)
        self._model.add(memory <= nodes * resources.memory_mib)
        self._model.add(sum(pods.values()) <= nodes * option.pods)
        for number in dict.fromkeys(number for number, _ in pods):
            request = requests[number]
            held = sum(count for (other, _), count in pods.items() if other == number)
            self._model.add(held <= nodes * all_pods_on_node(option, request))

    def _choose(self, option: Option, nodes: Any, most: int) -> dict[str, Any]:  # noqa: ANN401
        """Choose a layout from the option's menu for each GPU of a node. Return the number of MIG instances by
        profile.
        """
        gpus = option.machine.gpu_count
        # The same layout on all GPUs is a separate option.
        chosen = [self._model.new_int_var(0, gpus - 1, "") for _ in option.menu]
        self._model.add(sum(chosen) == gpus)
        self._chosen[self._index[option]] = chosen
        on_all: list[Any] = []
        for of_node in chosen:
            of_pool = self._model.new_int_var(0, gpus * most * len(self._requests), "")
            self._model.add_multiplication_equality(of_pool, [nodes, of_node])
            on_all.append(of_pool)
        self._model.add(sum(on_all) == gpus * nodes)
        return {
            name: sum(
                of_pool * dict(layout).get(name, 0) for of_pool, layout in zip(on_all, option.menu, strict=True)
            )
            for name in option.profiles
        }

    def _place_of(self, option: Option) -> int:
        """Return the index of an option.

        If its layouts were chosen from a menu, return the index of the option with the menu.
        """
        if option in self._index:
            return self._index[option]
        return next(
            index
            for index in self._chosen
            if replace(self._options[index], menu=(), layouts=option.layouts) == option
        )

    def learn(self, pool: ChosenPool) -> None:
        """Exclude a pool whose pods do not fit on its nodes.

        Later solutions must have more nodes, fewer pods or other layouts.
        """
        index = self._place_of(pool.option)
        ways: list[Any] = []
        numbers: Sequence[Any] = self._chosen.get(index, ())
        for layout, of_node in zip(self._options[index].menu, numbers, strict=True):
            other = self._model.new_bool_var("")
            self._model.add(of_node > pool.option.layouts.count(layout)).only_enforce_if(other)
            ways.append(other)
        for key, count in pool.pods.items():
            less = self._model.new_bool_var("")
            self._model.add(self._pods[index][key] < count).only_enforce_if(less)
            ways.append(less)
        more = self._model.new_bool_var("")
        self._model.add(self._nodes[index] > pool.nodes).only_enforce_if(more)
        self._model.add_bool_or([*ways, more])

    def solve(self, seconds: float) -> tuple[list[ChosenPool], float] | None:
        """Return the cheapest mix and a lower bound on its cost, or None if no mix was found in time.

        If several mixes have the same cost, the simplest one is returned. Afterwards, `timed_out` is true if a
        cheaper mix may exist.
        """
        self._model.clear_hints()
        self._model.minimize(self._cost)
        solver = new_solver(seconds * 0.7)
        status = solver.solve(self._model)
        self.timed_out = status != self._cp.OPTIMAL
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return None
        bound, cost = solver.best_objective_bound / _MONEY, solver.value(self._cost)
        plainest = self._plainest(solver, cost, seconds * 0.3)
        return self._read(plainest), bound

    def _plainest(self, cheapest: Any, cost: int, seconds: float) -> Any:  # noqa: ANN401 - ortools has no types
        """Solve again for fewer pools and less sharing at the same cost."""
        model = self._model.clone()
        used: list[Any] = []
        for nodes, option in zip(self._nodes, self._options, strict=True):
            there = model.new_bool_var("")
            model.add(nodes == 0).only_enforce_if(~there)
            used.append(there * (10 + (_MENU_RANK if option.menu else _RANK[option.mode])))
        model.add(self._cost <= cost)
        model.minimize(sum(used))
        for variable in (*self._nodes, *(count for pods in self._pods for count in pods.values())):
            model.add_hint(variable, cheapest.value(variable))
        solver = new_solver(seconds)
        return solver if solver.solve(model) in (self._cp.OPTIMAL, self._cp.FEASIBLE) else cheapest

    def simplest(self, best: Sequence[ChosenPool], within: float, deadline: float) -> list[ChosenPool] | None:
        """Return a mix of fewer pools that costs at most the fraction `within` more than `best`, or None.

        The mix has the fewest possible pools. It is the cheapest of these mixes that was found before `deadline`.
        """
        budget = floor(_cost(best) * (1 + within) * _MONEY)
        for pools in range(1, len(best)):
            for _ in range(_ROUNDS):
                model = self._model.clone()
                used: list[Any] = []
                for nodes in self._nodes:
                    there = model.new_bool_var("")
                    model.add(nodes == 0).only_enforce_if(~there)
                    used.append(there)
                model.add(sum(used) <= pools)
                model.add(self._cost <= budget)
                model.minimize(self._cost)
                solver = new_solver(max(0.0, deadline - time.monotonic()))
                if solver.solve(model) not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
                    break
                found = self._read(solver)
                short = [pool for pool in found if prove_pool(pool, self._requests).verdict != "placed"]
                if not short:
                    return found
                for pool in short:
                    self.learn(pool)
        return None

    def _read(self, solver: Any) -> list[ChosenPool]:  # noqa: ANN401 - ortools has no types
        return [
            ChosenPool(
                self._with_layouts(index, solver),
                solver.value(nodes),
                {key: solver.value(count) for key, count in pods.items() if solver.value(count)},
            )
            for index, (nodes, pods) in enumerate(zip(self._nodes, self._pods, strict=True))
            if solver.value(nodes)
        ]

    def _with_layouts(self, index: int, solver: Any) -> Option:  # noqa: ANN401 - ortools has no types
        """Return an option with the layouts that were chosen from its menu, or unchanged if it has no menu."""
        option = self._options[index]
        if not option.menu:
            return option
        counts = [solver.value(of_node) for of_node in self._chosen[index]]
        chosen = [layout for layout, count in zip(option.menu, counts, strict=True) for _ in range(count)]
        return replace(option, menu=(), layouts=tuple(chosen))
