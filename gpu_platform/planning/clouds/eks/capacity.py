"""Plan how EKS nodes are bought: on demand, as spot, or from a capacity reservation or capacity block.

Sources: EKS user guide, "Create a managed node group with Capacity Blocks for ML"; EC2 user guide, Capacity Blocks
and On-Demand Capacity Reservations; read 2026-11-21.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from gpu_platform.catalog.models import AwsFamily, MachineType
from gpu_platform.planning.clouds.eks.blocks import (
    check_blocks,
    check_form,
    drain_before_end,
    minutes,
    who_drains,
    windows_of,
)
from gpu_platform.planning.clouds.eks.zones import ZONE_LETTERS, region_of_zone
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.pool import Capacity, CapacityBlock, OnDemand, Pool, Reservation, Spot

_RESERVATION = re.compile(r"cr-([0-9a-f]{17}|[0-9a-f]{8})")


class Purchase(NamedTuple):
    """The node group's `capacity_type`, the launch template's market type, and whether capacity is reserved."""

    capacity_type: Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]
    market_type: Literal["capacity-block"] | None
    reserved: bool


def purchase(capacity: Capacity) -> Purchase:
    """Return how to buy the nodes of a valid pool."""
    match capacity:
        case CapacityBlock():
            return Purchase("CAPACITY_BLOCK", "capacity-block", reserved=True)
        case Reservation():
            return Purchase("ON_DEMAND", None, reserved=True)
        case Spot():
            return Purchase("SPOT", None, reserved=False)
        case _:
            return Purchase("ON_DEMAND", None, reserved=False)


def reserved(capacity: Capacity) -> bool:
    """Return whether the capacity is a fixed number of instances, which two pools cannot share."""
    return isinstance(capacity, Reservation | CapacityBlock)


def avoids_reservations(pool: Pool, pools: Iterable[Pool]) -> bool:
    """Return whether the nodes of an on-demand pool must avoid reservations.

    This is true if one of `pools` names a reservation that these nodes would otherwise use. Karpenter uses no open
    reservations for on-demand nodes.
    """
    if not isinstance(pool.capacity, OnDemand):
        return False
    return names_reservation(pools, {pool.machine_type, *pool.alternatives}, pool.zones or ())


def names_reservation(pools: Iterable[Pool], machine_types: Collection[str], zones: Collection[str]) -> bool:
    """Return whether one of `pools` has a reservation that on-demand nodes would use.

    Empty `zones` means any zone. EC2 runs an instance in any open reservation of its machine type and zone unless
    the launch excludes reservations. Such nodes would take instances that the reserved pool waits for. If no pool
    has a reservation, nodes keep EC2's default, because the account may have open reservations for them.

    Sources: EC2 API, CapacityReservationSpecification; Karpenter docs, On-Demand Capacity Reservations, migration;
    read 2026-11-29.
    """
    return any(
        isinstance(one.capacity, Reservation)
        and one.machine_type in machine_types
        and (not zones or one.capacity.zone in zones)
        for one in pools
    )


def check_capacity(
    pool: Pool, machine: MachineType, family: AwsFamily, cluster: EksCluster, problems: Problems
) -> None:
    """Record problems for capacity that does not match the machine type, the region or `needed_until`."""
    here, capacity = problems.at("capacity"), pool.capacity
    if isinstance(capacity, CapacityBlock) and not check_form(capacity, here):
        return
    if isinstance(capacity, CapacityBlock) and capacity.blocks is not None:
        for index, block in enumerate(capacity.blocks):
            _check_reservation(block.reservation, block.zone, cluster, here.at("blocks").at(f"[{index}]"))
    elif isinstance(capacity, Reservation | CapacityBlock):
        _check_reservation(capacity.reservation or "", capacity.zone or "", cluster, here)
    if isinstance(capacity, CapacityBlock):
        _check_block(pool, capacity, machine, family, here)


def _check_reservation(reservation: str, zone: str, cluster: EksCluster, here: Problems) -> None:
    if not _RESERVATION.fullmatch(reservation):
        here.at("reservation").add(
            f"{reservation!r}",
            "the id of an EC2 Capacity Reservation: cr- and 17 hexadecimal digits",
            "see aws ec2 describe-capacity-reservations",
        )
    check_region(zone, cluster, here.at("zone"))


def check_region(zone: str, cluster: EksCluster, problems: Problems) -> None:
    """Record a problem for a zone outside the cluster's region."""
    if region_of_zone(zone) != cluster.region or zone[-1] not in ZONE_LETTERS:
        problems.add(
            f"{zone!r} with a cluster in {cluster.region}",
            f"a zone of {cluster.region}",
            f"for example {cluster.region}a",
        )


def _check_block(
    pool: Pool, block: CapacityBlock, machine: MachineType, family: AwsFamily, here: Problems
) -> None:
    check_blocks(pool, block, family, here)
    if not family.capacity_blocks:
        here.at("type").add(
            f"'capacity-block' for {machine.name}",
            f"an instance type that EC2 sells as Capacity Blocks; {family.name} has no Capacity Blocks "
            f"({family.source})",
            "write type: on-demand, spot or reservation",
        )
    if block.needed_until is None:
        return
    drain = drain_before_end(family)
    ends = windows_of(pool)[-1].ends
    if ends is None:
        here.at("ends").add(
            f"nothing, with needed_until {block.needed_until.isoformat()}",
            "the end of the block, because needed_until is compared with the end; "
            "without needed_until, ends is not required",
            "copy ends from EndDate in aws ec2 describe-capacity-reservations",
        )
    elif ends - drain < block.needed_until:
        here.at("ends" if block.blocks is None else "blocks").add(
            f"{ends.isoformat()}, so nodes drain from {(ends - drain).isoformat()}",
            f"an end at least {minutes(drain)} minutes after needed_until ({block.needed_until.isoformat()}): "
            f"{who_drains(drain)} {minutes(drain)} minutes before the end",
            "extend the block, or lower needed_until",
        )
