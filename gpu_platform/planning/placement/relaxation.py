"""Bound by a relaxation: all nodes of a shape are one node with their sums, and pods can be split.

A small linear program. It sees what decides a fleet with pods that accept some models of GPU alone: which kinds of
pods share which shapes. Its dual prices bound every packing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gpu_platform.planning.placement.shapes import WHOLE_GPU, NodeShape, PodShape

_Floats = NDArray[np.float64]


def pools_bound(supply: Mapping[NodeShape, int], demand: Mapping[PodShape, int]) -> float:
    """Return GPU thousandths that no packing exceeds. `supply`: nodes by shape; `demand`: pods by kind."""
    # The import takes a tenth of a second, and only a packing needs it.
    from ortools.linear_solver import pywraplp

    # pyrefly: ignore[partially-unknown-type] - OR-tools has no types here
    make_solver = cast("Any", pywraplp.Solver.CreateSolver)
    solver: Any = make_solver("GLOP")
    least = -solver.infinity()
    kinds = tuple(demand)
    wanted = [solver.Constraint(least, float(count)) for count in demand.values()]
    pools = {
        shape: [solver.Constraint(least, float(count * amount)) for amount in _amounts(shape)]
        for shape, count in supply.items()
    }
    objective: Any = solver.Objective()
    objective.SetMaximization()
    variables: dict[tuple[int, NodeShape], Any] = {}
    for index, kind in enumerate(kinds):
        for shape, rows in pools.items():
            if not _fits(kind, shape):
                continue
            variable = variables[index, shape] = solver.NumVar(0, solver.infinity(), "")
            objective.SetCoefficient(variable, kind.demand_milli)
            wanted[index].SetCoefficient(variable, 1)
            for row, amount in zip(rows, _needs(kind), strict=True):
                row.SetCoefficient(variable, amount)
    solver.Solve()
    of_pool: dict[NodeShape, _Floats] = {
        shape: np.maximum([row.dual_value() for row in rows], 0.0) for shape, rows in pools.items()
    }
    # Prices from those of the pools, not the solver's own: whatever its tolerance, their sum is then a bound.
    prices = np.zeros(len(kinds))
    for index, shape in variables:
        above = kinds[index].demand_milli - float(of_pool[shape] @ _needs(kinds[index]))
        prices[index] = max(prices[index], above)
    of_pods = float(prices @ [float(count) for count in demand.values()])
    return of_pods + sum(count * float(of_pool[shape] @ _amounts(shape)) for shape, count in supply.items())


def _amounts(shape: NodeShape) -> list[int]:
    return [shape.gpus * WHOLE_GPU, shape.cpu_milli, shape.memory_mib]


def _needs(kind: PodShape) -> list[int]:
    return [kind.demand_milli, kind.cpu_milli, kind.memory_mib]


def _fits(kind: PodShape, shape: NodeShape) -> bool:
    enough = all(need <= amount for need, amount in zip(_needs(kind), _amounts(shape), strict=True))
    return enough and kind.accepts(shape.model)
