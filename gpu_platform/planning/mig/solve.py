"""Finds the minimum number of GPUs that can hold the requested MIG instances, and a lower bound on this number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gpu_platform.base import names
from gpu_platform.base.solver import new_solver
from gpu_platform.catalog.models import Mig
from gpu_platform.planning.mig.geometry import GpuInstance, place
from gpu_platform.planning.mig.layouts import largest_multisets


@dataclass(frozen=True, slots=True)
class MigSolution:
    """GPUs that hold the requested instances.

    `gpus` contains the placed instances of each GPU. GPUs with the same layout are adjacent. `bound` is a lower
    bound on the number of GPUs.
    """

    gpus: tuple[tuple[GpuInstance, ...], ...]
    bound: int

    @property
    def optimal(self) -> bool:
        """Whether the bound proves that fewer GPUs are not enough."""
        return len(self.gpus) == self.bound


def solve_mig(mig: Mig, demand: Mapping[str, int], *, seconds: float = 10.0) -> MigSolution:
    """Return the minimum number of GPUs for `demand` (profile name to count), with every instance placed.

    This is a covering problem that asks how many GPUs get each maximal layout. OR-tools CP-SAT solves it on one
    thread, so that the same demand always has the same solution. Instances beyond the demand are then removed.
    `seconds` limits the search. If the time is too short, the solution is still legal, and the bound shows how far
    from optimal it may be. Raises KeyError for a profile that the GPU does not have.
    """
    wanted = {name: count for name, count in demand.items() if count > 0}
    for name in wanted:
        if mig.profile(name) is None:
            raise KeyError(name)
    if not wanted:
        return MigSolution((), 0)
    layouts = sorted({tuple((n, c) for n, c in layout if n in wanted) for layout in largest_multisets(mig)} - {()})
    counts, bound = _cover(layouts, wanted, seconds)
    return MigSolution(_placed(mig, layouts, counts, wanted), bound)


def _cover(
    layouts: list[tuple[tuple[str, int], ...]], wanted: Mapping[str, int], seconds: float
) -> tuple[list[int], int]:
    """Return how many GPUs use each layout, and a lower bound on the number of GPUs."""
    # Import OR-tools only here, because its import takes half a second.
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    most = sum(wanted.values())
    uses = [model.new_int_var(0, most, f"layout-{index}") for index in range(len(layouts))]
    for name, count in wanted.items():
        model.add(sum(dict(layout).get(name, 0) * use for layout, use in zip(layouts, uses, strict=True)) >= count)
    model.minimize(sum(uses))
    solver = new_solver(seconds)
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        # If no solution is found in time, use one GPU for each instance, which is always legal.
        return _one_each(layouts, wanted), 1
    return [solver.value(use) for use in uses], round(solver.best_objective_bound)


def _one_each(layouts: list[tuple[tuple[str, int], ...]], wanted: Mapping[str, int]) -> list[int]:
    counts = [0] * len(layouts)
    for name, count in wanted.items():
        counts[next(index for index, layout in enumerate(layouts) if name in dict(layout))] += count
    return counts


def _placed(
    mig: Mig, layouts: list[tuple[tuple[str, int], ...]], counts: list[int], wanted: Mapping[str, int]
) -> tuple[tuple[GpuInstance, ...], ...]:
    left = dict(wanted)
    gpus: list[tuple[GpuInstance, ...]] = []
    known: dict[tuple[tuple[str, int], ...], tuple[GpuInstance, ...] | None] = {}
    for layout, count in zip(layouts, counts, strict=True):
        for _ in range(count):
            kept = {name: min(number, left[name]) for name, number in layout if left[name]}
            for name, number in kept.items():
                left[name] -= number
            # Most GPUs have the same layout, so a hundred thousand instances need only a few placements.
            key = tuple(kept.items())
            if key not in known:
                known[key] = place(mig, kept)
            placement = known[key]
            assert placement is not None  # noqa: S101 - part of a legal layout is legal
            if placement:
                gpus.append(placement)
    return tuple(gpus)


def mig_parted_document(
    gpus: tuple[tuple[GpuInstance, ...], ...], gpus_per_node: int, name: str
) -> dict[str, Any]:
    """Return the solution as a mig-parted config, with one entry in `mig-configs` per node of `gpus_per_node`
    GPUs.

    On the last node, GPUs that are not needed stay whole. The config contains only counts, because
    mig-parted finds the start positions itself.
    """
    nodes = [gpus[first : first + gpus_per_node] for first in range(0, len(gpus), gpus_per_node)]
    configs: dict[str, Any] = {}
    for number, node in enumerate(nodes):
        entries: list[dict[str, Any]] = []
        for layout, devices in groupby(range(len(node)), key=lambda device: _layout(node[device])):
            entries.append({"devices": list(devices), "mig-enabled": True, "mig-devices": dict(layout)})
        rest = list(range(len(node), gpus_per_node))
        if rest:
            entries.append({"devices": rest, "mig-enabled": False})
        configs[f"{name}-{number}"] = entries
    configs[names.MIG_ALL_DISABLED] = [{"devices": "all", "mig-enabled": False}]
    return {"version": "v1", "mig-configs": configs}


def _layout(instances: tuple[GpuInstance, ...]) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for instance in instances:
        counts[instance.profile] = counts.get(instance.profile, 0) + 1
    return tuple(sorted(counts.items()))
