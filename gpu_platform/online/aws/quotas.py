"""AWS quotas: their usage outside the stack, and what new networks, system nodes and node groups need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, ServiceQuota
from gpu_platform.online.aws.answers import CapacityReservation, Instance
from gpu_platform.online.quota import QuotaDemand
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan, ExistingVpcPlan
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.plan import EnvironmentPlan

STANDARD: Final = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
VPCS: Final = "VPCs per Region"
ADDRESSES: Final = "EC2-VPC Elastic IPs"
GROUP_NODES: Final = "Nodes per managed node group"


def used_by_others(
    quota: ServiceQuota,
    instances: Iterable[Instance],
    reservations: Iterable[CapacityReservation],
    plan: EnvironmentPlan,
    catalog: Catalog,
) -> int:
    """Return the vCPUs that count against a quota, without the nodes of the stack.

    Capacity blocks do not count against quotas. Unused instances of an On-Demand Capacity Reservation count as
    running instances. Source: EC2 user guide, "On-Demand Instance quotas" and "Capacity Reservation quotas" (not
    checked again).
    """
    lifecycle = "spot" if quota.spot else ""
    counted = [
        one
        for one in instances
        if one.lifecycle == lifecycle and re.match(quota.types, one.instance_type) and not _is_own(one, plan)
    ]
    used = sum(one.vcpus or _vcpus(one.instance_type, catalog) for one in counted)
    if not quota.spot:
        used += sum(
            one.available * _vcpus(one.instance_type, catalog)
            for one in reservations
            if one.kind == "default" and re.match(quota.types, one.instance_type)
        )
    return used


def system_demand(plan: EnvironmentPlan, cluster: EksClusterPlan, vcpus: int) -> QuotaDemand | None:
    """Return the quota demand of the system nodes of a new cluster.

    `vcpus` is the number of vCPUs of one node of the preferred type.
    """
    if cluster.create is None:
        return None
    pool = cluster.create.system_pool
    return QuotaDemand(
        name=STANDARD,
        unit="vCPU",
        region=cluster.region,
        desired=pool.desired_size * vcpus,
        most=pool.max_size * vcpus,
        wanted_by=f"the system nodes ({pool.instance_types[0]})",
    )


def together(one: QuotaDemand, other: QuotaDemand) -> QuotaDemand:
    """Return the sum of two demands on the same quota."""
    return replace(
        one,
        desired=one.desired + other.desired,
        most=one.most + other.most,
        wanted_by=f"{one.wanted_by}, {other.wanted_by}",
    )


def network_demands(cluster: EksClusterPlan) -> Sequence[QuotaDemand]:
    """Return the quota demand of a new VPC: the VPC itself, and an Elastic IP address for each NAT gateway."""
    if cluster.create is None or isinstance(cluster.create.vpc, ExistingVpcPlan):
        return ()
    gateways = len(cluster.create.vpc.nat_zones)
    return (
        QuotaDemand(
            name=VPCS, unit="VPC", region=cluster.region, desired=1, most=1, wanted_by="the cluster's network"
        ),
        QuotaDemand(
            name=ADDRESSES,
            unit="address",
            region=cluster.region,
            desired=gateways,
            most=gateways,
            wanted_by="the NAT gateways",
        ),
    )


def group_demands(plan: EnvironmentPlan, cluster: EksClusterPlan, catalog: Catalog) -> Iterator[QuotaDemand]:
    """Yield the demand of the largest managed node group if its maximum size exceeds the default quota."""
    sizes = [
        (pool.nodes.max, pool.nodes.desired, pool.name)
        for pool in plan.pools
        if isinstance(pool.cloud, EksPoolPlan)
    ]
    most, desired, name = max(sizes, default=(0, 0, ""))
    if most > (catalog.service_quotas[GROUP_NODES].default or 0):
        yield QuotaDemand(
            name=GROUP_NODES, unit="node", region=cluster.region, desired=desired, most=most, wanted_by=name
        )


def _is_own(instance: Instance, plan: EnvironmentPlan) -> bool:
    """Return whether an instance is a node of the plan's pools. These nodes have tags that name their pool and
    cluster.
    """
    pools = {pool.name for pool in plan.pools}
    return (
        instance.tags.get(names.POOL_LABEL) in pools
        and f"kubernetes.io/cluster/{plan.cluster.name}" in instance.tags
    )


def _vcpus(instance_type: str, catalog: Catalog) -> int:
    machine = catalog.machine_types.get(instance_type)
    return machine.vcpu if machine is not None else 0
