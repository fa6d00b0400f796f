"""Find changes to the stack file that reduce the cost, and prove each one with a plan of the changed file.

A candidate is a list of edits. It is accepted only if the changed file is planned without a problem, its nodes
have room for all quotas and declared workloads at once, and it costs less.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, cast

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, Gpu, MachineType
from gpu_platform.planning.capacity import prove
from gpu_platform.planning.capacity.nodes import groups_of, node_capacities
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.workloads import workloads_of

Replan = Callable[[Mapping[str, Any]], "EnvironmentPlan | None"]
"""A function that plans the changed platform object of a stack file. It returns None if the change is refused."""

# Capacity types that are paid for whether nodes run or not.
_PAID: Final = ("capacity-block", "reservation")
_OTHER_TYPES: Final = 3
_OFFICE_HOURS: Final = {"start": "07:00", "stop": "20:00"}  # the default days of a schedule are Monday to Friday
_HALF: Final = 0.5
_LEAST_USD: Final = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change to one value in the stack file.

    `path` looks like `pools[0].count.desired`. `before` is None if the value is not set.
    """

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """One change and its saving in USD/h. The saving is None if no price list contains the price of the changed
    nodes.

    `proof` explains why the nodes still have room for every workload.
    """

    what: str
    usd_per_hour: float | None
    edits: tuple[Edit, ...]
    proof: str


def apply(platform: Mapping[str, Any], edits: Sequence[Edit]) -> dict[str, Any]:
    """Return the platform object of a stack file with the edits applied."""
    changed = deepcopy(dict(platform))
    for edit in edits:
        *parents, last = _parts(edit.path)
        place: Any = changed
        for part in parents:
            if isinstance(part, str) and isinstance(place, dict):
                place = cast("dict[str, Any]", place).setdefault(part, {})
            else:
                place = place[part]
        if edit.after is None:
            place.pop(last, None)
        else:
            place[last] = edit.after
    return changed


def savings(
    platform: Mapping[str, Any],
    plan: EnvironmentPlan,
    catalog: Catalog,
    replan: Replan,
    *,
    measured: Mapping[str, float] | None = None,
    held: Mapping[str, float] | None = None,
    seconds: float = 5.0,
) -> tuple[Saving, ...]:
    """Return changes that save money. The largest saving comes first, and changes without a known price come last.

    `plan` is the plan of the platform object `platform`. `measured` is the utilisation by pool. `held` is the
    maximum number of GPUs that each team has used. `seconds` limits the search for a placement of all workloads of
    one changed file.
    """
    trial = _Trial(platform, plan, catalog, replan, seconds)
    found = [
        saving
        for pool in plan.pools
        if pool.has_gpus and pool.nodes.desired and re.fullmatch(r"pools\[\d+\]", pool.path)
        for saving in (
            *_fewer_nodes(pool, trial),
            *_shared(pool, trial, (measured or {}).get(pool.name, pool.utilisation)),
            *_other_types(pool, trial),
            *_spot(pool, trial),
            *_lower_quotas(pool, trial, held),
            *_off_at_night(pool, trial),
        )
    ]
    return tuple(sorted(found, key=lambda each: (each.usd_per_hour is None, -(each.usd_per_hour or 0.0))))


class _Trial:
    """A planner of edited stack files. It compares the cost of each edited file with the cost of the unchanged
    file.
    """

    def __init__(
        self, platform: Mapping[str, Any], plan: EnvironmentPlan, catalog: Catalog, replan: Replan, seconds: float
    ) -> None:
        self.platform, self.plan, self.catalog = platform, plan, catalog
        self._replan, self._seconds = replan, seconds

    def edit(self, path: str, after: object) -> Edit:
        """Return an edit, with the current value in the stack file as `before`."""
        place: Any = self.platform
        for part in _parts(path):
            try:
                place = place[part]
            except (KeyError, IndexError, TypeError):
                place = None
                break
        return Edit(path=path, before=place, after=after)

    def saves(self, edits: Sequence[Edit]) -> float | None:
        """Return the saving of edits in USD/h, or None if they save nothing.

        The result is also None if the edits are refused, if the nodes lack room for a quota or workload, or if a
        price is unknown.
        """
        changed = self._replan(apply(self.platform, edits))
        if changed is None or changed.cost.unknown != self.plan.cost.unknown or not self.fits(changed):
            return None
        before, after = self.plan.cost.usd_per_hour, changed.cost.usd_per_hour
        return None if before is None or after is None or before - after < _LEAST_USD else before - after

    def is_possible(self, edits: Sequence[Edit]) -> bool:
        """Return whether the edits are accepted and the nodes then have room for all quotas and declared
        workloads.
        """
        changed = self._replan(apply(self.platform, edits))
        return changed is not None and self.fits(changed)

    def fits(self, plan: EnvironmentPlan) -> bool:
        """Return whether the pools have room for all quotas and declared workloads at the same time."""
        groups = groups_of(plan, self.catalog)
        return prove(node_capacities(plan.pools, self.catalog), groups, seconds=self._seconds).verdict == "placed"

    def fewest(self, pool: PoolPlan, edits: Sequence[Edit], most: int) -> tuple[int, float] | None:
        """Return the minimum number of nodes with room for all quotas and workloads, and the saving. Return None
        if even `most` nodes do not have enough room, or if nothing is saved.
        """
        low, high = 0, most + 1
        while low < high:
            nodes = (low + high) // 2
            if self.is_possible([*edits, *self.count(pool, nodes)]):
                high = nodes
            else:
                low = nodes + 1
        saved = self.saves([*edits, *self.count(pool, low)]) if low <= most else None
        return None if saved is None else (low, saved)

    def count(self, pool: PoolPlan, nodes: int) -> list[Edit]:
        """Return edits that set a pool's number of nodes.

        They lower `min` or raise `max` if the number requires it.
        """
        edits = [self.edit(f"{pool.path}.count.desired", nodes)]
        if pool.nodes.min > nodes:
            edits.append(self.edit(f"{pool.path}.count.min", nodes))
        if pool.nodes.max < nodes:
            edits.append(self.edit(f"{pool.path}.count.max", nodes))
        return edits


def _parts(path: str) -> list[str | int]:
    """Return the keys and indices of a path. For `pools[0].count`, these are pools, 0 and count."""
    return [int(index) if index else name for index, name in re.findall(r"\[(\d+)\]|([^.\[\]]+)", path)]


def _placed(nodes: int) -> str:
    return f"all quotas and declared workloads fit on {counted(nodes, 'node')} of it"


def _is_paid(pool: PoolPlan) -> bool:
    return pool.capacity.get("type") in _PAID


def _fewer_nodes(pool: PoolPlan, trial: _Trial) -> Iterator[Saving]:
    """Yield the saving from fewer nodes in a pool, if quotas and workloads do not need all of its nodes."""
    if _is_paid(pool):
        return
    found = trial.fewest(pool, (), pool.nodes.desired - 1)
    if found is not None:
        nodes, saved = found
        yield Saving(
            what=f"pool {pool.name}: {counted(nodes, 'node')} instead of {pool.nodes.desired}",
            usd_per_hour=saved,
            edits=tuple(trial.count(pool, nodes)),
            proof=_placed(nodes),
        )


def _shared(pool: PoolPlan, trial: _Trial, used: float | None) -> Iterator[Saving]:
    """Yield the saving from running two pods on each GPU, for services and notebooks that use at most half of a
    GPU.

    This applies only if no other pool has whole GPUs, so that every GPU quota becomes a quota of shares.
    """
    alone = sum(1 for each in trial.plan.pools if each.has_gpus and each.sharing.mode == "none") == 1
    if pool.sharing.mode != "none" or not alone or pool.workload == "training" or used is None or used > _HALF:
        return
    if _is_paid(pool):
        return
    edits = [trial.edit(f"{pool.path}.sharing", {"mode": "time-slicing", "replicas": 2})]
    for index, team in enumerate(trial.platform.get("teams") or ()):
        gpus = _on_all_pools(team, "gpus")
        if gpus:
            edits += [
                trial.edit(f"teams[{index}].quota.gpus", 0),
                trial.edit(f"teams[{index}].quota.shared", gpus + _on_all_pools(team, "shared")),
            ]
    found = trial.fewest(pool, edits, pool.nodes.desired - 1)
    if found is not None:
        nodes, saved = found
        yield Saving(
            what=f"pool {pool.name}: two pods share a GPU ({used:.0%} in use); {counted(nodes, 'node')}",
            usd_per_hour=saved,
            edits=(*edits, *trial.count(pool, nodes)),
            proof=_placed(nodes),
        )


def _other_types(pool: PoolPlan, trial: _Trial) -> Iterator[Saving]:
    """Yield the savings from cheaper machine types. They have the same GPU or, except for training, a GPU with at
    least as much memory.
    """
    if _is_paid(pool) or pool.price.declared or pool.price_usd_per_hour is None:
        return
    catalog = trial.catalog
    now = catalog.machine_types[pool.machine_type]
    own = pool.price_usd_per_hour / pool.gpus_per_node
    cheaper: list[tuple[float, MachineType]] = []
    for machine in catalog.machine_types.values():
        if machine.gpu is None or machine.vendor != now.vendor or machine.name == now.name:
            continue
        price = catalog.price(machine, pool.price.region)
        if price is None or not _can_replace(catalog.gpus[machine.gpu], catalog.gpu_of(now), pool):
            continue
        each = price.usd_per_hour / machine.gpu_count
        if each < own and machine.arch == now.arch:
            cheaper.append((each, machine))
    for _, machine in sorted(cheaper, key=lambda found: (found[0], found[1].name))[:_OTHER_TYPES]:
        edits = [trial.edit(f"{pool.path}.machine_type", machine.name)]
        found = trial.fewest(pool, edits, -(-pool.nodes.desired * pool.gpus_per_node // machine.gpu_count))
        if found is not None:
            nodes, saved = found
            yield Saving(
                what=f"pool {pool.name}: {nodes} x {machine.name} instead of {pool.nodes.desired} x {now.name}",
                usd_per_hour=saved,
                edits=(*edits, *trial.count(pool, nodes)),
                proof=_placed(nodes),
            )


def _can_replace(gpu: Gpu, now: Gpu, pool: PoolPlan) -> bool:
    if gpu.model == now.model:
        return True
    return pool.workload != "training" and pool.sharing.mode == "none" and gpu.memory_mib >= now.memory_mib


def _spot(pool: PoolPlan, trial: _Trial) -> Iterator[Saving]:
    """Yield the saving from spot capacity for training that resumes from checkpoints. No price list contains the
    price of spot capacity.
    """
    on_demand = pool.capacity.get("type", "on-demand") == "on-demand"
    if not on_demand or pool.workload != "training" or pool.cloud is None:
        return
    edits = (trial.edit(f"{pool.path}.capacity", {"type": "spot"}),)
    jobs = [
        job
        for team in trial.platform.get("teams") or ()
        for job in team.get("training_jobs") or ()
        if job.get("pool") == pool.name
    ]
    if jobs and all("checkpoints" in job for job in jobs) and trial.is_possible(edits):
        yield Saving(
            what=f"pool {pool.name}: spot capacity, because all of its training jobs have checkpoints",
            usd_per_hour=None,
            edits=edits,
            proof=f"{_placed(pool.nodes.desired)}; a job on a reclaimed spot node resumes from a checkpoint",
        )


def _off_at_night(pool: PoolPlan, trial: _Trial) -> Iterator[Saving]:
    """Yield the saving from adding a schedule to a development pool, if its cloud supports schedules."""
    if pool.workload != "development" or pool.schedule is not None or _is_paid(pool):
        return
    edits = (trial.edit(f"{pool.path}.schedule", dict(_OFFICE_HOURS)),)
    saved = trial.saves(edits)
    if saved is not None:
        yield Saving(
            what=f"pool {pool.name}: off at night and at weekends",
            usd_per_hour=saved,
            edits=edits,
            proof=f"{_placed(pool.nodes.desired)} while the pool is on; "
            "pods that run when the pool stops are terminated",
        )


def _lower_quotas(pool: PoolPlan, trial: _Trial, held: Mapping[str, float] | None) -> Iterator[Saving]:
    """Yield the saving from lower whole-GPU quotas for teams that use less than their quota, if a pool then needs
    fewer nodes.

    A team's use is the number of GPUs that its declared workloads need or the maximum that it has used, whichever
    is larger. The use is unknown without a measurement or a declaration, because members may run pods that are not
    in the stack file.
    """
    if _is_paid(pool) or pool.sharing.mode != "none":
        return
    without = trial.fewest(pool, (), pool.nodes.desired - 1)
    most = (without[0] if without is not None else pool.nodes.desired) - 1
    for index, team in enumerate(trial.platform.get("teams") or ()):
        quota = _on_all_pools(team, "gpus")
        used = _used(team, trial.plan, held)
        if used is None or used[0] >= quota:
            continue
        gpus, why = used
        edits = [trial.edit(f"teams[{index}].quota.gpus", gpus)]
        found = trial.fewest(pool, edits, most)
        if found is not None:
            nodes, saved = found
            yield Saving(
                what=f"team {team['name']}: quota of {counted(gpus, 'GPU')} instead of {quota} ({why});"
                f" pool {pool.name}: {counted(nodes, 'node')}",
                usd_per_hour=saved,
                edits=(*edits, *trial.count(pool, nodes)),
                proof=_placed(nodes),
            )


def _on_all_pools(team: Mapping[str, Any], field: str) -> int:
    """Return a team's quota of GPUs or shares, or 0 if the stack file declares it only by pool."""
    units = team.get("quota", {}).get(field) or 0
    return units if isinstance(units, int) else 0


def _used(
    team: Mapping[str, Any], plan: EnvironmentPlan, held: Mapping[str, float] | None
) -> tuple[int, str] | None:
    """Return the maximum number of GPUs that a team uses and the source of this number, or None if it is not
    known.
    """
    name = str(team["name"])
    run = workloads_of(name, plan.workloads)
    of_jobs = [pod.workload for pod in run.all_pods] if run is not None else []
    declared = [
        one
        for team_plan in plan.teams
        if team_plan.namespace == name
        for one in (*team_plan.workloads, *of_jobs)
        if one.resource == names.GPU_RESOURCE
    ]
    needed = sum(one.units * one.replicas for one in declared)
    if held is not None:
        if name not in held:
            return None
        most = math.ceil(held[name])
        return max(needed, most), f"it has held at most {most}"
    grows = any("autoscaling" in service for service in team.get("inference_services") or ())
    return (needed, "the requests of its workloads") if needed and not grows else None
