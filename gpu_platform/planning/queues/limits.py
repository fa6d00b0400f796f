"""Plan the quotas of a team's queue by flavor, from the team's shares of the pools.

Pods without GPUs start on nodes that belong to no pool. For each GPU, a quota includes the GPU's share of the CPU
and memory that DaemonSets leave free on the node. A job that Kueue starts therefore fits on the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning.pools.free import free_resources
from gpu_platform.planning.pools.section import PoolPlan, claimed_with_gpus
from gpu_platform.planning.queues.section import CohortPlan, FlavorQuota, Limits
from gpu_platform.planning.queues.shares import ByPool, Division, Offers, Shares, in_order
from gpu_platform.stack.team import Quota

_CPU_FLAVOR: Final = "nodes-without-gpus.gpu-platform.dev"  # pool names contain no dots, so no pool has this name
_CPU_FLAVOR_WITH_TOPOLOGY: Final = "nodes-without-gpus.topology.gpu-platform.dev"
_UNLIMITED: Final = {"cpu": "1M", "memory": "1Ei"}  # Kueue requires a number for every resource
_MIB: Final = 1024 * 1024


def cpu_flavor(*, aware: bool) -> str:
    """Return the name of the flavor for nodes that belong to no pool.

    A flavor with a topology has another name. The fields of a flavor are immutable, and a flavor is not deleted
    while queues refer to it.
    """
    return _CPU_FLAVOR_WITH_TOPOLOGY if aware else _CPU_FLAVOR


def is_cpu_flavor(name: str) -> bool:
    """Return whether a flavor is for nodes that belong to no pool."""
    return name in (_CPU_FLAVOR, _CPU_FLAVOR_WITH_TOPOLOGY)


def flavor_quotas(
    quota: Quota,
    priority: str,
    shares: Shares,
    offers: Offers,
    pools: Sequence[PoolPlan],
    flavors: Mapping[str | None, str],
    checks: Mapping[str, str],
) -> tuple[FlavorQuota, ...]:
    """Return a team's quotas by flavor, first for nodes without GPUs and then for the pools that the team may use.

    Kueue tries the flavors in this order. `priority` is the team's priority class. Pools whose workload type has
    the same name come first. `flavors` maps each pool to the name of its flavor. `checks` maps each pool whose
    nodes are provisioned by requests to its admission check.

    Every team has quota for all of a pool's resources that pods claim in addition to GPUs, because the GPU quota
    already limits them.
    """
    claimed = claimed_with_gpus(pools)
    without = [
        Limits(resource="cpu", nominal=quota.cpu or _UNLIMITED["cpu"], borrow="0", lend="0"),
        Limits(resource="memory", nominal=quota.memory or _UNLIMITED["memory"], borrow="0", lend="0"),
        *(Limits(resource=name, nominal="0", borrow="0", lend="0") for name in (*offers, *claimed)),
    ]
    used = in_order(priority, [pool for pool in pools if shares.uses(pool.name)])
    return (
        FlavorQuota(flavor=flavors[None], pool=None, limits=tuple(without)),
        *(
            FlavorQuota(
                flavor=flavors[pool.name],
                pool=pool.name,
                limits=(*_limits(pool, shares, offers), *_claimed(pool, claimed)),
                check=checks.get(pool.name),
                on_node={
                    name: offer.per_node for name, found in offers.items() for offer in found if offer.pool is pool
                },
                in_container=pool.units_in_container,
            )
            for pool in used
        ),
    )


def _limits(pool: PoolPlan, shares: Shares, offers: Offers) -> tuple[Limits, ...]:
    nominal, borrow, lend = (amounts(pool, one, offers) for one in (shares.nominal, shares.borrow, shares.lend))
    return tuple(
        Limits(
            resource=name,
            nominal=_quantity(name, nominal[name]),
            borrow=_quantity(name, borrow[name]),
            lend=_quantity(name, lend[name]),
        )
        for name in nominal
    )


def _quantity(resource: str, amount: int) -> str:
    return {"cpu": f"{amount}m", "memory": f"{amount // _MIB}Mi"}.get(resource, str(amount))


def _claimed(pool: PoolPlan, classes: Sequence[str]) -> Iterator[Limits]:
    for name in classes:
        most = pool.claimed_with_gpus.get(name, 0) * pool.nodes.max
        yield Limits(resource=name, nominal=str(most), borrow="0", lend="0")


def _nodes(pool: PoolPlan, part: Mapping[str, ByPool], offers: Offers) -> Fraction:
    """Return how many nodes of a pool the units in `part` take, in proportion to the GPUs that they represent."""
    gpus = sum(
        (
            part[name].get(pool.name, 0) * offer.gpus
            for name, found in offers.items()
            for offer in found
            if offer.pool is pool
        ),
        Fraction(0),
    )
    return min(gpus / pool.gpus_per_node, Fraction(pool.nodes.max))


def cohort_quotas(
    division: Division, offers: Offers, pools: Sequence[PoolPlan], flavors: Mapping[str, str]
) -> tuple[CohortPlan, ...]:
    """Return the cohorts of an environment with the capacity that belongs to no quota, including its CPU and
    memory.

    `flavors` maps each pool to the name of its flavor.
    """
    found: dict[str, dict[str, Mapping[str, str]]] = {name: {} for name in division.cohorts}
    for pool in (one for one in pools if one.has_gpus):
        for name, lent in cohort_amounts(division, [*division.teams.values()], offers, pool).items():
            quotas = {resource: _quantity(resource, amount) for resource, amount in lent.items()}
            found[name][flavors[pool.name]] = quotas
    return tuple(CohortPlan(name=name, flavors=found[name]) for name in found)


def cohort_amounts(
    division: Division, teams: Sequence[Shares], offers: Offers, pool: PoolPlan
) -> Mapping[str, Mapping[str, int]]:
    """Return the amounts of a pool's resources that belong to no quota and that cohorts lend, by cohort. Cohorts
    that lend nothing are left out.

    `teams` are the shares of the environment's teams. CPU is in millicores, memory in bytes.
    """
    cohorts = division.cohorts
    nodes = {name: _nodes(pool, units, offers) for name, units in cohorts.items()}
    if not (in_all := sum(nodes.values())):
        return {}
    assigned = [*(shares.nominal for shares in teams), division.reserve]
    taken = [limit for units in assigned for limit in _of_node(pool, _nodes(pool, units, offers))]
    free = free_resources(pool)
    cpu = free.cpu_millicores * pool.nodes.max - sum(taken[::2])
    memory = free.memory_mib * pool.nodes.max - sum(taken[1::2])
    return {
        name: {
            "cpu": max(math.floor(cpu * nodes[name] / in_all), 0),
            "memory": max(math.floor(memory * nodes[name] / in_all), 0) * _MIB,
            **{resource: units[resource].get(pool.name, 0) for resource in offers},
        }
        for name, units in cohorts.items()
        if nodes[name]
    }


def amounts(pool: PoolPlan, part: Mapping[str, ByPool], offers: Offers) -> Mapping[str, int]:
    """Return the amounts of a pool's resources in a part of a quota, such as the units that a team may borrow.

    The amounts are the units of each GPU resource in `part`, and the CPU (millicores) and memory (bytes) in
    proportion to the GPUs.
    """
    cpu, mib = _of_node(pool, _nodes(pool, part, offers))
    return {"cpu": cpu, "memory": mib * _MIB, **{name: part[name].get(pool.name, 0) for name in offers}}


def _of_node(pool: PoolPlan, nodes: Fraction) -> tuple[int, int]:
    """Return the free CPU (millicores) and memory (MiB) on the given number of nodes of a pool."""
    free = free_resources(pool)
    return math.floor(nodes * free.cpu_millicores), math.floor(nodes * free.memory_mib)


def ceiling(quota: Quota, flavors: Sequence[FlavorQuota], gpus: Collection[str]) -> Mapping[str, str]:
    """Return the nominal quota plus the borrowing limit of a queue, by ResourceQuota key.

    `gpus` are the GPU resources and device classes that quotas name.

    A ResourceQuota with only the nominal quota would reject the pods of a workload that Kueue has started on
    borrowed quota. CPU and memory are included only if the quota names them.

    Kueue's quota does not replace the ResourceQuota. Kueue frees the quota of a workload when the workload is
    deleted or its Job is suspended, but its pods run until their grace period ends. A team could otherwise delete
    its Jobs, start others, and hold more GPUs than its quota.

    Sources: kubernetes-sigs/kueue v0.19.2, pkg/controller/jobframework/reconciler.go (finalize),
    pkg/workload (FinalizeOrphanedWorkload), pkg/controller/jobs/job/job_controller.go (IsActive) and
    keps/6143-quota-release-strategy; read 2026-11-30.
    """
    limits = [limit for flavor in flavors for limit in flavor.limits]
    sums = {name: Decimal(0) for name in dict.fromkeys(limit.resource for limit in limits)}
    for limit in limits:
        sums[limit.resource] += parse_quantity(limit.nominal) + parse_quantity(limit.borrow)
    found = {names.quota_key(name): str(int(total)) for name, total in sums.items() if name in gpus}
    if quota.cpu is not None:
        found["requests.cpu"] = f"{math.ceil(sums['cpu'] * 1000)}m"
    if quota.memory is not None:
        found["requests.memory"] = f"{math.ceil(sums['memory'] / _MIB)}Mi"
    return found
