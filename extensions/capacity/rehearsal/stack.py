"""Converts a planned stack to the input of a rehearsal: GPU pools, queues or quotas, and priorities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from extensions.capacity.rehearsal.model import (
    CPU,
    MEMORY,
    PODS,
    Platform,
    QuotaLimits,
    RehearsalPool,
    RehearsalQueue,
)
from extensions.capacity.scheduling.model import quota_resource
from extensions.capacity.scheduling.nodes import daemonsets_text, planned_node, quotas_of
from gpu_platform.api.plans import EnvironmentPlan, PoolPlan, QueuesPlan, TeamPlan, TeamQueuePlan
from gpu_platform.base import names
from gpu_platform.base.quantity import amount_of, duration_text, parse_duration
from gpu_platform.catalog import Catalog

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamDefaults:
    """Defaults for the jobs of a team: priority, CPU and memory of a pod, and GPU resources.

    `priority` is the value of the team's first priority class. `priorities` maps the names of all priority classes
    that the team may use to their values. `cpu` (millicores) and `memory` (bytes) are the requests of a pod, or
    None if they are in proportion to its GPUs. `resources` contains the GPU resources that the team can use,
    within its quota or by borrowing.
    """

    priority: int
    priorities: Mapping[str, int]
    cpu: int | None
    memory: int | None
    resources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalStack:
    """The platform of a stack, the default values of its teams, and further assumptions as sentences."""

    name: str
    platform: Platform
    teams: Mapping[str, TeamDefaults]
    assumptions: tuple[str, ...]


def stack_of(plan: EnvironmentPlan, catalog: Catalog) -> RehearsalStack:
    """Return the platform of a plan. It leaves out pools without GPUs, and teams that have their own stack."""
    teams = tuple(team.namespace for team in plan.teams)
    pools = tuple(_pool(pool, plan, catalog) for pool in plan.pools if pool.has_gpus)
    queues, packs = plan.queues, plan.cluster.scheduler.scores == "most-allocated"
    platform = (
        Platform(pools=pools, teams=teams, quotas=_quotas(plan), packs=packs)
        if queues is None
        else Platform(
            pools=pools,
            teams=teams,
            queues=tuple(_queue(one, {pool.name for pool in pools}) for one in queues.teams),
            cohorts=_lent(queues),
            fair_sharing="fairSharing" in queues.kueue.config,
            packs=packs,
            topology=any(one.topology is not None for one in queues.flavors),
            pods_ready_timeout=float(parse_duration(queues.kueue.config["waitForPodsReady"]["timeout"])),
        )
    )
    values = {one.name: one.value for one in plan.priority_classes}
    defaults = {
        team.namespace: replace(_defaults(team, values), resources=frozenset(_usable(team.namespace, platform)))
        for team in plan.teams
    }
    return RehearsalStack(
        name=plan.stack, platform=platform, teams=defaults, assumptions=tuple(_assumptions(plan, platform))
    )


def _pool(pool: PoolPlan, plan: EnvironmentPlan, catalog: Catalog) -> RehearsalPool:
    node = planned_node(pool, catalog, pool.name)
    offers: dict[str, int] = {}
    for gpu in node.gpus:
        for name, units in gpu.items():
            offers[name] = offers.get(name, 0) + units
    gpus = {name: _gpus_of_unit(pool, name) for name in offers}
    numa_nodes = sorted(set(node.numa))
    return RehearsalPool(
        name=pool.name,
        desired=pool.nodes.desired,
        min=pool.nodes.min,
        max=pool.nodes.max,
        scaled=pool.autoscaled,
        gpus_per_node=pool.gpus_per_node,
        cpu=node.allocatable[CPU],
        memory=node.allocatable[MEMORY],
        pods=node.allocatable[PODS],
        offers=offers,
        gpus={name: float(share) for name, share in gpus.items()},
        parts={name: _part(pool, name, gpus[name], node.allocatable, plan) for name in offers},
        usd_per_hour=pool.price_usd_per_hour,
        numa={
            name: tuple(
                sum(gpu.get(name, 0) for gpu, its in zip(node.gpus, node.numa, strict=True) if its == one)
                for one in numa_nodes
            )
            for name in (offers if numa_nodes else ())
        },
        single_numa=node.single_numa,
    )


def _gpus_of_unit(pool: PoolPlan, resource: str) -> Fraction:
    """Return the number of GPUs, or the fraction of a GPU, that one unit of a resource represents."""
    offer = next((one for one in pool.resources if one.name == resource), None)
    if offer is None or resource == names.GPU_DEVICE_CLASS or not offer.per_node:
        return Fraction(1)
    return Fraction(offer.gpus).limit_denominator(10_000) / offer.per_node


def _part(
    pool: PoolPlan, resource: str, gpus: Fraction, allocatable: Mapping[str, int], plan: EnvironmentPlan
) -> tuple[int, int]:
    """Return the CPU and memory of one unit: the default that admission sets, or the unit's share of a node."""
    for team in plan.teams:
        for share in team.pod_defaults.shares if team.pod_defaults is not None else ():
            if share.pool == pool.name and resource in share.units:
                unit = share.units[resource]
                return unit.cpu_millicores, unit.memory_mib * _MIB
    part = gpus / pool.gpus_per_node
    return int(allocatable[CPU] * part), int(allocatable[MEMORY] * part)


def _defaults(team: TeamPlan, values: Mapping[str, int]) -> TeamDefaults:
    own = {name: values[name] for name in team.priorities if name in values}
    admitted = team.pod_defaults is not None
    return TeamDefaults(
        priority=own[team.priorities[0]] if own else 0,
        priorities=own,
        cpu=None if admitted else amount_of(CPU, team.default_request[CPU]),
        memory=None if admitted else amount_of(MEMORY, team.default_request[MEMORY]),
    )


def _usable(team: str, platform: Platform) -> Iterator[str]:
    """Yield the GPU resources that the jobs of a team can use."""
    queue = next((one for one in platform.queues if one.team == team), None)
    for pool in platform.pools:
        for name in pool.offers:
            limit = queue.flavors.get(pool.name, {}).get(name) if queue is not None else None
            if queue is None:
                may = platform.quotas.get(team, {}).get(name) != 0
            else:
                may = limit is not None and limit.nominal + limit.borrow > 0
            if may:
                yield name


def _quotas(plan: EnvironmentPlan) -> dict[str, dict[str, int]]:
    """Return the maximum total requests of each team's pods, by resource."""
    found: dict[str, dict[str, int]] = {}
    for team, quota in quotas_of(plan).items():
        limits = found.setdefault(team, {})
        for key, amount in quota.items():
            if (resource := quota_resource(key)) is not None:
                limits[resource] = min(amount, limits.get(resource, amount))
    return found


def _queue(queue: TeamQueuePlan, pools: set[str]) -> RehearsalQueue:
    flavors: dict[str, dict[str, QuotaLimits]] = {}
    for flavor in queue.flavors:
        if flavor.pool is None or flavor.pool not in pools:
            continue
        flavors[flavor.pool] = {
            limit.resource: QuotaLimits(
                nominal=amount_of(limit.resource, limit.nominal),
                borrow=amount_of(limit.resource, limit.borrow),
                lend=amount_of(limit.resource, limit.lend),
            )
            for limit in flavor.limits
        }
    return RehearsalQueue(
        team=queue.namespace,
        cohort=queue.cohort,
        weight=float(queue.weight),
        within_queue=queue.within_queue,
        reclaim=queue.reclaim,
        flavors=flavors,
    )


def _lent(queues: QueuesPlan) -> dict[str, dict[str, dict[str, int]]]:
    """Return the quota that belongs to a cohort itself, not to its queues, by cohort, pool and resource."""
    pool_of = {one.name: one.pool for one in queues.flavors if one.pool is not None}
    return {
        cohort.name: {
            pool_of[flavor]: {resource: amount_of(resource, amount) for resource, amount in amounts.items()}
            for flavor, amounts in cohort.flavors.items()
        }
        for cohort in queues.cohorts
    }


def _assumptions(plan: EnvironmentPlan, platform: Platform) -> Iterator[str]:
    yield daemonsets_text(plan)
    prefers = "nodes that are in use" if platform.packs else "free nodes"
    yield f"kube-scheduler prefers {prefers} ({plan.cluster.scheduler.why})"
    if not platform.queues:
        yield "no queues: pods above the quota are not created, and a job's pods get nodes one by one"
    elif platform.topology:
        yield "Kueue admits a job when quota and nodes have capacity for all its pods; racks are not simulated"
    else:
        timeout = duration_text(platform.pods_ready_timeout)
        yield f"Kueue admits jobs by quota only; a job without all its pods after {timeout} goes back to its queue"
    if aligned := [pool.name for pool in platform.pools if pool.numa]:
        pools = "pool" if len(aligned) == 1 else "pools"
        yield (
            f"the kubelets of {pools} {', '.join(aligned)} align GPUs by NUMA node; "
            "CPU requests are assumed to allow the alignment"
        )
    if without := [pool.name for pool in plan.pools if not pool.has_gpus]:
        yield f"pools without GPUs are left out: {', '.join(without)}"
    if claimed := [pool.name for pool in plan.pools if pool.devices]:
        yield f"GPUs of {', '.join(claimed)} are claimed whole"
    if plan.queues is not None and plan.queues.provisioning:
        yield "nodes that are provisioned at admission start as fast as other nodes"
