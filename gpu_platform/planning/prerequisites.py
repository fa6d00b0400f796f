"""What an `up` of a cloud stack needs that is not in it: quotas to ask for, and examples to be filled in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.eks.plan import EksClusterPlan
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

# As the shipped stack files and AWS's and Google's own examples have them; RFC 5737 keeps 203.0.113.0/24 for that.
_EXAMPLE_ACCOUNT: Final = "123456789012"
_EXAMPLE_PROJECT: Final = "my-project"
_EXAMPLE_NETWORK: Final = "203.0.113."
_EXAMPLE_RESERVATION: Final = "cr-0a1b2c3d4e5f60718"
_ALL_REGIONS: Final = "GPUS_ALL_REGIONS"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNeed:
    """A quota of the account or project that the pools at their most nodes count against.

    `name` None: the cloud's name for it is not known here. `region`: `all regions` for a quota of a whole project.
    """

    name: str | None
    unit: str
    region: str
    amount: int
    pools: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A value of the stack file that is still the example's."""

    field: str
    value: str
    fix: str


def gpu_quotas(plan: EnvironmentPlan, catalog: Catalog) -> tuple[QuotaNeed, ...]:
    """Return the quotas of the pools that buy their capacity as they go.

    Reservations and capacity blocks counted when they were made. Flex-start counts as spot does.
    """
    cloud = plan.cluster.cloud
    if cloud is None:
        return ()
    pools: dict[tuple[str | None, str], list[PoolPlan]] = {}
    for pool in plan.pools:
        if pool.capacity["type"] in {"on-demand", "spot", "flex-start"}:
            machine = catalog.machine_types[pool.machine_type]
            quota = catalog.gpu_quota(machine, spot=pool.capacity["type"] != "on-demand")
            unit = quota.unit if quota is not None else "vCPU" if machine.provider == "aws" else "GPU"
            pools.setdefault((quota.name if quota is not None else None, unit), []).append(pool)
    needs = [
        _need(name, unit, cloud.region, counted, catalog)
        for (name, unit), counted in sorted(pools.items(), key=str)
    ]
    if needs and cloud.kind == "gke":
        needs.append(
            _need(_ALL_REGIONS, "GPU", "all regions", [pool for each in pools.values() for pool in each], catalog)
        )
    return tuple(needs)


def _need(name: str | None, unit: str, region: str, pools: list[PoolPlan], catalog: Catalog) -> QuotaNeed:
    each = [
        catalog.machine_types[pool.machine_type].vcpu if unit == "vCPU" else pool.gpus_per_node for pool in pools
    ]
    return QuotaNeed(
        name=name,
        unit=unit,
        region=region,
        amount=sum(pool.nodes.max * units for pool, units in zip(pools, each, strict=True)),
        pools=tuple(pool.name for pool in pools),
    )


def examples_left(plan: EnvironmentPlan) -> tuple[Example, ...]:
    """Return what of a shipped stack file is not filled in yet, as far as an example can be told from the real."""
    return tuple(_examples(plan))


def _examples(plan: EnvironmentPlan) -> Iterator[Example]:
    cloud = plan.cluster.cloud
    match cloud:
        case EksClusterPlan():
            if cloud.account == _EXAMPLE_ACCOUNT:
                yield Example(field="cluster.account", value=cloud.account, fix="write the id of your AWS account")
            for principal in cloud.create.admins if cloud.create is not None else ():
                if f":{_EXAMPLE_ACCOUNT}:" in principal:
                    fix = "write the IAM role or user that runs `up`"
                    yield Example(field="cluster.create.admins", value=principal, fix=fix)
        case GkeClusterPlan():
            if cloud.project == _EXAMPLE_PROJECT:
                yield Example(field="cluster.project", value=cloud.project, fix="write the id of your project")
        case None:
            return
    for network in cloud.create.api_access if cloud.create is not None else ():
        if network.startswith(_EXAMPLE_NETWORK):
            fix = "write the network that `up` and its users come from"
            yield Example(field="cluster.create.api_access", value=network, fix=fix)
    for pool in plan.pools:
        if pool.capacity.get("reservation") == _EXAMPLE_RESERVATION:
            fix = "write the id of your reservation or capacity block"
            yield Example(field=f"{pool.path}.capacity.reservation", value=_EXAMPLE_RESERVATION, fix=fix)
