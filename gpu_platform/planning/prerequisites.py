"""Lists what must be prepared before `up` can deploy a cloud stack: sufficient quotas, and values that replace the
examples in a stack file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.section import AccountNeed, CloudPrerequisites, CloudQuota, ClusterPlan, Example
from gpu_platform.planning.clouds.vendors import vendor_of
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

# The reservation in the shipped stack files and in AWS's examples.
_EXAMPLE_RESERVATION: Final = "cr-0a1b2c3d4e5f60718"
_PAID_AS_USED: Final = ("on-demand", "spot", "flex-start")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNeed:
    """An account or project quota that limits pools. It must allow the pools' maximum size, including rolling
    updates.

    `name` is None if the cloud's name for the quota is not known. `region` is `all regions` for a quota of a whole
    project.
    """

    name: str | None
    unit: str
    region: str
    amount: int
    pools: tuple[str, ...]
    surge: int
    """Additional nodes beyond the maximum size of these pools during rolling updates."""


def prerequisites(plan: EnvironmentPlan, resource_types: Iterable[str]) -> CloudPrerequisites | None:
    """Return what `up` requires from the cloud, or None if the stack has no cloud.

    `resource_types` are the Pulumi resource types of the stack.
    """
    return plan.cluster.prerequisites(resource_types) if plan.cluster.prerequisites is not None else None


def all_quotas(plan: EnvironmentPlan, needed: CloudPrerequisites, catalog: Catalog) -> tuple[CloudQuota, ...]:
    """Return the quotas that limit pools, system nodes and networks. Each quota occurs once, with the sum of its
    amounts.
    """
    found: dict[object, CloudQuota] = {}
    for one in (*map(_of_pools, gpu_quotas(plan, catalog)), *needed.quotas):
        key = len(found) if one.name is None else (one.name, one.unit, one.region)
        same = found.get(key)
        found[key] = (
            replace(same, amount=same.amount + one.amount, what=f"{same.what}, and of {one.what}")
            if same is not None
            else one
        )
    return tuple(found.values())


def _of_pools(need: QuotaNeed) -> CloudQuota:
    rolled = f", plus {counted(need.surge, 'node')} during rolling updates" if need.surge else ""
    return CloudQuota(
        name=need.name,
        unit=need.unit,
        region=need.region,
        amount=need.amount,
        what=", ".join(need.pools) + rolled,
    )


def gpu_quotas(plan: EnvironmentPlan, catalog: Catalog) -> tuple[QuotaNeed, ...]:
    """Return the quotas that limit the pools, including CPU pools but not pools of reserved capacity.

    Reservations and capacity blocks already counted against the quotas when they were made. Flex-start counts as
    spot.
    """
    cloud = plan.cluster.cloud
    if cloud is None:
        return ()
    pools: dict[tuple[str | None, str], list[PoolPlan]] = {}
    for pool in plan.pools:
        if pool.capacity["type"] in _PAID_AS_USED:
            machine = catalog.machine_types[pool.machine_type]
            quota = catalog.gpu_quota(machine, spot=pool.capacity["type"] != "on-demand")
            unit = (
                quota.unit if quota is not None else vendor_of(machine).quota_unit if machine.has_gpus else "vCPU"
            )
            pools.setdefault((quota.name if quota is not None else None, unit), []).append(pool)
    needs = [
        _need(name, unit, cloud.region, of_quota, plan.cluster, catalog)
        for (name, unit), of_quota in sorted(pools.items(), key=str)
    ]
    needed = prerequisites(plan, ())
    of_all_regions = needed.all_regions_quota if needed is not None else None
    with_gpus = [pool for each in pools.values() for pool in each if pool.has_gpus]
    if with_gpus and of_all_regions is not None:
        needs.append(_need(of_all_regions, "GPU", "all regions", with_gpus, plan.cluster, catalog))
    return tuple(needs)


def _need(
    name: str | None,
    unit: str,
    region: str,
    pools: list[PoolPlan],
    cluster: ClusterPlan,
    catalog: Catalog,
) -> QuotaNeed:
    surge = {pool.name: cluster.surge_nodes.get(pool.name, 0) for pool in pools}
    return QuotaNeed(
        name=name,
        unit=unit,
        region=region,
        amount=sum(
            (pool.nodes.max + cluster.surge_nodes.get(pool.name, 0)) * _units(pool, unit, catalog)
            for pool in pools
        ),
        pools=tuple(pool.name for pool in pools),
        surge=sum(surge.values()),
    )


def _units(pool: PoolPlan, unit: str, catalog: Catalog) -> int:
    """Return how many units of a quota one node uses.

    If the cloud may choose the machine type, return the number for the largest machine type.
    """
    if unit != "vCPU":
        return pool.gpus_per_node
    alternatives = pool.cloud_nodes.alternatives
    return max(catalog.machine_types[name].vcpu for name in (pool.machine_type, *alternatives))


def account_needs(plan: EnvironmentPlan) -> tuple[AccountNeed, ...]:
    """Return each requirement that the account must meet before the pools can have nodes."""
    return tuple(dict.fromkeys(need for pool in plan.pools for need in pool.cloud_nodes.account_needs))


def examples_left(plan: EnvironmentPlan) -> tuple[Example, ...]:
    """Return the values in the plan that are recognisable examples from a shipped stack file."""
    return tuple(_examples(plan))


def _examples(plan: EnvironmentPlan) -> Iterator[Example]:
    needed = prerequisites(plan, ())
    if needed is None:
        return
    yield from needed.examples
    for pool in plan.pools:
        several = f".blocks[{index}]" if (index := _example_block(pool)) is not None else ""
        if several or pool.capacity.get("reservation") == _EXAMPLE_RESERVATION:
            fix = "enter the id of your reservation or capacity block"
            yield Example(field=f"{pool.path}.capacity{several}.reservation", value=_EXAMPLE_RESERVATION, fix=fix)


def _example_block(pool: PoolPlan) -> int | None:
    """Return the index of the entry in a pool's `capacity.blocks` that has the example reservation."""
    blocks = pool.capacity.get("blocks") or ()
    return next(
        (index for index, block in enumerate(blocks) if block["reservation"] == _EXAMPLE_RESERVATION), None
    )
