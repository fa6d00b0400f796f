"""The linear program of `offline`: how many nodes of each shape get which contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gpu_platform.planning.placement.pricing import Contents
from gpu_platform.planning.placement.shapes import NodeShape

_EPSILON = 1e-6
_LIKELY = 0.3
_Floats = NDArray[np.float64]


class Master:
    """Nodes left by shape, pods left by kind, contents known so far.

    `prices`: what one more pod of each kind would be worth, 0 or more.
    """

    def __init__(self, supply: Mapping[NodeShape, int], demand: _Floats, value: _Floats) -> None:
        # The import takes a tenth of a second, and only this class needs it.
        from ortools.linear_solver import pywraplp

        # pyrefly: ignore[partially-unknown-type] - OR-tools has no types here
        make_solver = cast("Any", pywraplp.Solver.CreateSolver)

        self.supply = dict(supply)
        self.demand = demand
        self.prices: _Floats = np.zeros(len(demand))
        self._value = value
        solver: Any = make_solver("GLOP")
        self._solver = solver
        # Without a lower limit: that of a range has a dual of its own, which makes a price negative.
        least = -solver.infinity()
        self._nodes: dict[NodeShape, Any] = {
            shape: solver.Constraint(least, count) for shape, count in supply.items()
        }
        self._pods: list[Any] = [solver.Constraint(least, float(count)) for count in demand]
        self._objective: Any = solver.Objective()
        self._objective.SetMaximization()
        self._columns: list[tuple[NodeShape, Contents]] = []
        self._variables: list[Any] = []
        self._known: set[tuple[NodeShape, Contents]] = set()
        self._node_prices = dict.fromkeys(supply, 0.0)

    def within(self, contents: Contents, left: _Floats) -> Contents:
        """Return the contents without pods that are already placed."""
        counts: Counter[int] = Counter()
        kept: list[tuple[int, ...]] = []
        for pods in contents:
            stay: list[int] = []
            for kind in pods:
                if counts[kind] < left[kind]:
                    counts[kind] += 1
                    stay.append(kind)
            if stay:
                kept.append(tuple(stay))
        return tuple(sorted(kept))

    def add(
        self, shape: NodeShape, contents: Contents, *, only_if_worth: bool = False, in_parts: bool = False
    ) -> bool:
        """Offer contents to the nodes of a shape; returns whether they are new, and worth more than the prices.

        They are offered without the pods that there are not. `in_parts`: where these are not worth it, as they
        are; the program can take a part of them, and only so do rare kinds of pods get their price.
        """
        possible = self.within(contents, self.demand)
        added = self._add(shape, possible, only_if_worth=only_if_worth)
        return added or (in_parts and self._add(shape, contents, only_if_worth=only_if_worth))

    def _add(self, shape: NodeShape, contents: Contents, *, only_if_worth: bool) -> bool:
        counts = Counter(kind for pods in contents for kind in pods)
        worth = sum((self._value[kind] - self.prices[kind]) * count for kind, count in counts.items())
        if not counts or (shape, contents) in self._known:
            return False
        if only_if_worth and worth <= self._node_prices[shape] + _EPSILON:
            return False
        self._known.add((shape, contents))
        variable: Any = self._solver.NumVar(0, self._solver.infinity(), "")
        self._columns.append((shape, contents))
        self._variables.append(variable)
        self._objective.SetCoefficient(
            variable, float(sum(self._value[kind] * count for kind, count in counts.items()))
        )
        self._nodes[shape].SetCoefficient(variable, 1)
        for kind, count in counts.items():
            self._pods[kind].SetCoefficient(variable, count)
        return True

    @property
    def work(self) -> int:
        """Return the work of one `solve`: cells of its table."""
        return len(self._columns) * (len(self.demand) + len(self.supply))

    def solve(self) -> float:
        """Solve with the contents known so far; returns the objective in thousandths of GPUs."""
        self._solver.Solve()
        # The solver's tolerance leaves prices just below zero.
        self.prices = np.maximum([row.dual_value() for row in self._pods], 0.0)
        self._node_prices = {shape: row.dual_value() for shape, row in self._nodes.items()}
        return float(self._objective.Value())

    def take(self) -> list[tuple[NodeShape, Contents, int]]:
        """Return contents to fix, and the number of nodes: integral parts of the solution, else the likeliest."""
        amounts = [float(variable.solution_value()) for variable in self._variables]
        wanted = [(index, int(amount + _EPSILON)) for index, amount in enumerate(amounts)]
        if not any(count for _, count in wanted):
            likely = sorted(range(len(amounts)), key=lambda index: -amounts[index])
            few = [index for index in likely[: max(1, len(likely) // 20)] if amounts[index] > _LIKELY]
            wanted = [(index, 1) for index in few or [one for one in likely[:1] if amounts[one] > _EPSILON]]
        nodes, pods = dict(self.supply), self.demand.copy()
        fixed: list[tuple[NodeShape, Contents, int]] = []
        for index, count in wanted:
            shape, contents = self._columns[index]
            counts = Counter(kind for group in contents for kind in group)
            fitting = min(count, nodes[shape], *(int(pods[kind] // number) for kind, number in counts.items()))
            if fitting > 0:
                fixed.append((shape, contents, fitting))
                nodes[shape] -= fitting
                for kind, number in counts.items():
                    pods[kind] -= number * fitting
        return fixed

    def rest(
        self,
        fixed: Sequence[tuple[NodeShape, Contents, int]],
        without: Collection[tuple[NodeShape, Contents]] = (),
    ) -> Master:
        """Return the solved program of the remaining nodes and pods, with contents that may be used there."""
        supply, demand = dict(self.supply), self.demand.copy()
        for shape, contents, count in fixed:
            supply[shape] -= count
            for kind, number in Counter(kind for group in contents for kind in group).items():
                demand[kind] -= number * count
        rest = Master(supply, demand, self._value)
        for shape, contents in self._columns:
            if supply[shape] and (shape, contents) not in without:
                rest.add(shape, contents)
        rest.solve()
        return rest
