"""Quotas of AWS: their codes, and their use by others than the stack."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpu_platform import names
from gpu_platform.catalog import Catalog
from gpu_platform.online.aws.answers import CapacityReservation, Instance
from gpu_platform.online.quota import QuotaDemand
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan, ExistingVpcPlan
from gpu_platform.planning.plan import EnvironmentPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaCode:
    """A quota of Service Quotas, and which instances count against it.

    `types`: instance types, as a regular expression; `patterns`: the same, as filters of EC2.
    """

    service: str
    code: str
    spot: bool = False
    types: str = ""
    patterns: tuple[str, ...] = ()


_G = r"(g|gr|vt)\d"
_G_PATTERNS = ("g*", "vt*")
_STANDARD = r"(a|c|d|h|i|m|r|t|z|im|is)\d"
_STANDARD_PATTERNS = ("a*", "c*", "d*", "h*", "i*", "m*", "r*", "t*", "z*")

# Codes of GPU quotas: EC2 user guide, "Spot Instance quotas", and public programs that use them, 2026-11-23; those
# of standard instances, VPCs and Elastic IPs: AWS General Reference, not read again for this.
CODES: Final[Mapping[str, QuotaCode]] = {
    "Running On-Demand P instances": QuotaCode(service="ec2", code="L-417A185B", types=r"p\d", patterns=("p*",)),
    "Running On-Demand G and VT instances": QuotaCode(
        service="ec2", code="L-DB2E81BA", types=_G, patterns=_G_PATTERNS
    ),
    "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances": QuotaCode(
        service="ec2",
        code="L-1216C47A",
        types=_STANDARD,
        patterns=_STANDARD_PATTERNS,
    ),
    "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests": QuotaCode(
        service="ec2", code="L-34B43A08", spot=True, types=_STANDARD, patterns=_STANDARD_PATTERNS
    ),
    "All P4, P3 and P2 Spot Instance Requests": QuotaCode(
        service="ec2", code="L-7212CCBC", spot=True, types=r"p[234]", patterns=("p2*", "p3*", "p4*")
    ),
    "All P5 Spot Instance Requests": QuotaCode(
        service="ec2", code="L-C4BD4855", spot=True, types=r"p5", patterns=("p5*",)
    ),
    "All G and VT Spot Instance Requests": QuotaCode(
        service="ec2", code="L-3819A6DF", spot=True, types=_G, patterns=_G_PATTERNS
    ),
    "VPCs per Region": QuotaCode(service="vpc", code="L-F678F1CE"),
    "EC2-VPC Elastic IPs": QuotaCode(service="ec2", code="L-0263D0A3"),
}
STANDARD: Final = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
VPCS: Final = "VPCs per Region"
ADDRESSES: Final = "EC2-VPC Elastic IPs"


def used_by_others(
    quota: QuotaCode,
    instances: Iterable[Instance],
    reservations: Iterable[CapacityReservation],
    plan: EnvironmentPlan,
    catalog: Catalog,
) -> int:
    """Return the vCPUs that count against a quota, without the nodes of the stack.

    Capacity blocks do not count; what an On-Demand Capacity Reservation keeps free counts as if it ran. Source:
    EC2 user guide, "On-Demand Instance quotas" and "Capacity Reservation quotas"; not read again.
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
    """Return what the system nodes of a new cluster count; `vcpus`: of one node of the preferred type."""
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
    """Return what both count against the same quota."""
    return replace(
        one,
        desired=one.desired + other.desired,
        most=one.most + other.most,
        wanted_by=f"{one.wanted_by}, {other.wanted_by}",
    )


def network_demands(cluster: EksClusterPlan) -> Sequence[QuotaDemand]:
    """Return what a VPC that the program creates counts: the VPC itself, and an address for each NAT gateway."""
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


def _is_own(instance: Instance, plan: EnvironmentPlan) -> bool:
    """Return whether an instance is a node of the plan's pools: its tags name pool and cluster."""
    pools = {pool.name for pool in plan.pools}
    return (
        instance.tags.get(names.POOL_LABEL) in pools
        and f"kubernetes.io/cluster/{plan.cluster.name}" in instance.tags
    )


def _vcpus(instance_type: str, catalog: Catalog) -> int:
    machine = catalog.machine_types.get(instance_type)
    return machine.vcpu if machine is not None else 0
