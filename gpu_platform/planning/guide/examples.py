"""Chooses a pool and a size for each example workload, from the quota that declared workloads leave unused.

Each example passes the checks for workloads in a stack file. Its share of a node's CPU and memory equals its share
of the GPUs, less a tenth for the pods that run on every node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning.dra.claims import demands_of, meets
from gpu_platform.planning.guide.section import KINDS, ExampleKind, ExamplePlan
from gpu_platform.planning.pools.free import free_resources
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.section import TeamPlan, WorkloadPlan
from gpu_platform.planning.teams.team_plans import check_workload, plan_workload
from gpu_platform.stack.team import Team
from gpu_platform.stack.team import Workload as WorkloadSpec

IMAGE: Final = "guide-pytorch"  # name of an image in the catalogue
_OF_A_NODE: Final = Decimal("0.9")
_MIB: Final = 1024 * 1024
_CPU_ONLY: Final = (1000, 2048)  # millicores and MiB of a pod without GPUs
_BATCH_PODS: Final = 2
_GANG_PODS: Final = 2
_NO_QUOTA: Final = "the team has no quota left for a resource that a pool offers"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One way to run the team's pods on a pool, either with one of its GPU resources or without GPUs.

    `left` is the number of units that are still available, or, for pods without GPUs, the number of pods that may
    still start. `share` is the fraction of a node that one unit takes. `cpu` and `memory` are the remaining
    millicores and MiB, or None if they are unlimited.
    """

    pool: PoolPlan
    left: int
    share: Decimal
    whole: bool
    fields: Mapping[str, Any]
    cpu: int | None
    memory: int | None

    @property
    def spot(self) -> bool:
        return self.pool.capacity.get("type") == "spot"


_ORDER: Final[Mapping[ExampleKind, Callable[[_Place], tuple[Any, ...]]]] = {
    "training": lambda one: (not one.whole, one.spot, one.pool.workload != "training", -one.left),
    "inference": lambda one: (one.spot, one.pool.workload != "inference", one.share),
    "notebook": lambda one: (one.spot, one.pool.workload != "development", one.whole, one.share),
    "batch": lambda one: (one.pool.workload == "inference", one.share),
}


def plan_examples(
    team: Team,
    team_plan: TeamPlan,
    queue: TeamQueuePlan | None,
    flavors: Mapping[str, str],
    available: Available,
) -> tuple[tuple[ExamplePlan, ...], Mapping[ExampleKind, str]]:
    """Return an example of each kind of workload within the team's quota, or the reason why the kind has no
    example.

    `flavors` maps each resource flavor of the queues to its pool.
    """
    places = list(_places(team, team_plan, queue, flavors, available))
    examples: list[ExamplePlan] = []
    missing: dict[ExampleKind, str] = {}
    for kind in KINDS:
        ordered = sorted((one for one in places if _suits(kind, one)), key=_ORDER[kind])
        found = next(filter(None, (_example(kind, one, team, available) for one in ordered)), None)
        if found is not None:
            examples.append(found)
        else:
            missing[kind] = _why(team, available)
    return tuple(examples), missing


def _suits(kind: ExampleKind, place: _Place) -> bool:
    return place.pool.has_gpus or kind == "batch"


def _why(team: Team, available: Available) -> str:
    if available.of_dra and not team.claims:
        return "GPUs must be claimed, but the stack file declares no claims for the team; add claims"
    return _NO_QUOTA


# -- remaining quota ------------------------------------------------------------------------------------


def _places(
    team: Team,
    team_plan: TeamPlan,
    queue: TeamQueuePlan | None,
    flavors: Mapping[str, str],
    available: Available,
) -> Iterator[_Place]:
    """Yield the ways to run more pods of the team within the quota that its declared workloads leave unused."""
    nominal = _nominal(queue, flavors)
    image = available.catalog.images[IMAGE].reference
    for pool in available.pools:
        for fields, whole, share in _ways(team, pool, available):
            probe = WorkloadSpec(name="probe", pool=pool.name, **fields)
            if _problems(probe, team, available):
                continue
            workload = plan_workload(probe, team, available, image)
            left = _left(workload, team_plan, nominal)
            if left < max(workload.units, 1):
                continue
            cpu, memory = (_left_of(name, pool, team_plan, queue, nominal) for name in ("cpu", "memory"))
            yield _Place(
                pool=pool,
                left=left,
                share=share,
                whole=whole,
                fields=fields,
                cpu=_thousandths(cpu),
                memory=_mib(memory),
            )


def _ways(team: Team, pool: PoolPlan, available: Available) -> Iterator[tuple[Mapping[str, Any], bool, Decimal]]:
    """Yield the ways to request each resource of a pool. Each item consists of the workload's fields, a flag that
    is true if a unit is a whole GPU, and the unit's share of a node.
    """
    if not pool.has_gpus:
        yield {"gpus": 0}, False, Decimal(0)
        return
    if pool.devices:
        for claim in team.claims:
            kind, demands = demands_of(claim, available.classes)
            devices = [one.per_node for one in pool.devices if meets(one, kind, demands, available.catalog)]
            if devices:
                yield {"claim": claim.name}, kind == "gpu", Decimal(claim.count) / max(devices)
        return
    profiles = {profile for entry in pool.sharing.mig_layouts for profile in entry.layout}
    for offer in pool.resources:
        if not offer.per_node:
            continue
        named = [one for one in sorted(profiles) if names.mig_resource(one) in (offer.name, _unshared(offer.name))]
        whole = pool.sharing.mode == "none"
        share = Decimal(str(offer.gpus)) / pool.gpus_per_node / (1 if whole else offer.per_node)
        yield (
            {"gpus": 1, **({"profile": named[0]} if named else {})},
            whole,
            (Decimal(1) / pool.gpus_per_node if whole else share),
        )


def _unshared(resource: str) -> str:
    return resource.removesuffix(names.SHARED_SUFFIX)


def _nominal(queue: TeamQueuePlan | None, flavors: Mapping[str, str]) -> Mapping[tuple[str, str], Decimal] | None:
    """Return the queue's nominal quota by pool and resource, or None if there is no queue."""
    if queue is None:
        return None
    return {
        (flavors[one.flavor], limit.resource): parse_quantity(limit.nominal)
        for one in queue.flavors
        if one.flavor in flavors
        for limit in one.limits
    }


def _left(workload: WorkloadPlan, team: TeamPlan, nominal: Mapping[tuple[str, str], Decimal] | None) -> int:
    """Return the number of units of a workload's resource that the team's declared workloads leave unused.

    For a workload without GPUs, return 0 if there are queues, and otherwise the number of pods in the batch
    example.
    """
    if not workload.resource:
        return _BATCH_PODS if nominal is None else 0
    key = names.quota_key(workload.resource)
    if key not in team.quota:  # The resource is a device class from the stack file. A quota limits its claims.
        key = next((one for one in team.quota if one.endswith(names.DEVICE_QUOTA_SUFFIX)), key)
    alike = [one for one in team.workloads if one.resource == workload.resource]
    left = int(team.quota.get(key, "0")) - sum(one.units * one.replicas for one in alike)
    if nominal is None:
        return left
    here = sum(one.units * one.replicas for one in alike if one.pool == workload.pool)
    return min(left, int(nominal.get((workload.pool, workload.resource), Decimal(0))) - here)


def _left_of(
    name: str,
    pool: PoolPlan,
    team: TeamPlan,
    queue: TeamQueuePlan | None,
    nominal: Mapping[tuple[str, str], Decimal] | None,
) -> Decimal | None:
    """Return the CPUs, or the bytes of memory, that declared workloads leave unused, or None if they are
    unlimited.
    """
    if nominal is not None and queue is not None:
        whole = nominal.get((pool.name, name))
        users: Sequence[WorkloadPlan] = [one for one in team.workloads if one.pool == pool.name]
    else:
        declared = team.quota.get(f"requests.{name}")
        whole, users = (None if declared is None else parse_quantity(declared)), team.workloads
    if whole is None:
        return None
    return whole - sum((parse_quantity(getattr(one, name)) * one.replicas for one in users), Decimal(0))


def _thousandths(cpu: Decimal | None) -> int | None:
    return None if cpu is None else math.floor(cpu * 1000)


def _mib(memory: Decimal | None) -> int | None:
    return None if memory is None else math.floor(memory / _MIB)


# -- sizes ----------------------------------------------------------------------------------------------


def _example(kind: ExampleKind, place: _Place, team: Team, available: Available) -> ExamplePlan | None:
    """Return an example that runs its pods in the given way, or None if its pods do not fit."""
    pods, units = _size(kind, place)
    cpu, memory = _share(place, units)
    for limit, wanted in ((place.cpu, cpu), (place.memory, memory)):
        if limit is not None and limit < wanted * pods:
            pods = 1
    cpu = cpu if place.cpu is None else min(cpu, place.cpu // pods)
    memory = memory if place.memory is None else min(memory, place.memory // pods)
    if cpu < 100 or memory < 256:
        return None
    fields: dict[str, Any] = {**place.fields, "cpu": _cores(cpu), "memory": _memory(memory)}
    if place.whole and "claim" not in place.fields:
        fields["gpus"] = units
    spec = WorkloadSpec(name=kind, pool=place.pool.name, replicas=pods, **fields)
    if _problems(spec, team, available):
        return None
    image = available.catalog.images[IMAGE].reference
    workload = plan_workload(spec, team, available, image)
    # The processes of a pod exchange tensors through shared memory, even if the pool does not mount it by default.
    if workload.units and workload.shared_memory is None and not place.pool.mounts_shared_memory:
        workload = replace(workload, shared_memory=f"{memory // 4}Mi")
    return ExamplePlan(kind=kind, workload=workload)


def _size(kind: ExampleKind, place: _Place) -> tuple[int, int]:
    """Return the number of pods, and the units per pod."""
    pool = place.pool
    if kind == "training" and place.whole and "claim" not in place.fields:
        if place.left >= _GANG_PODS * pool.gpus_per_node and pool.nodes.max >= _GANG_PODS:
            return _GANG_PODS, pool.gpus_per_node
        return 1, min(place.left, pool.gpus_per_node)
    return (min(_BATCH_PODS, place.left) if kind == "batch" else 1), 1


def _share(place: _Place, units: int) -> tuple[int, int]:
    """Return the millicores and MiB that a pod gets for its share of the node, or fixed amounts without GPUs."""
    if not place.pool.has_gpus:
        return _CPU_ONLY
    part = place.share * units * _OF_A_NODE
    free = free_resources(place.pool)
    return math.floor(part * free.cpu_millicores), math.floor(part * free.memory_mib)


def _cores(millicores: int) -> str:
    return str(millicores // 1000) if millicores >= 2000 else f"{millicores // 100 * 100}m"


def _memory(mib: int) -> str:
    return f"{mib // 1024}Gi" if mib >= 2048 else f"{mib}Mi"


def _problems(workload: WorkloadSpec, team: Team, available: Available) -> bool:
    problems = Problems()
    check_workload(workload, team, available, problems)
    return bool(problems.found)
