"""Where EKS nodes stand: zones and cluster placement groups.

Sources: EC2 user guide, placement groups, Capacity Blocks and Capacity Reservations in placement groups;
eksctl-io/eksctl#7949 and terraform-aws-eks#3730 (an own group in front of a reservation); read 2026-11-21.
"""

from __future__ import annotations

from gpu_platform.catalog.models import MachineType
from gpu_platform.planning.eks.network import wants_efa
from gpu_platform.planning.eks.plan import PlacementGroup
from gpu_platform.spec.cluster import EksCluster
from gpu_platform.spec.pool import CapacityBlock, OnDemand, Pool, Reservation


def zones_of(pool: Pool) -> tuple[str, ...]:
    """Return the zones of a pool; empty: all of the cluster's. Reserved capacity has the zone it was made in."""
    if isinstance(pool.capacity, Reservation | CapacityBlock):
        return (pool.capacity.zone,)
    return tuple(pool.zones or ())


def placement_group(pool: Pool, machine: MachineType, cluster: EksCluster) -> PlacementGroup | None:
    """Return the cluster placement group of a pool, or None.

    With a reservation it is the reservation's or none: nodes in another group do not get what is reserved.
    Blocks stand together by themselves.
    """
    if isinstance(pool.capacity, CapacityBlock):
        return None
    if isinstance(pool.capacity, Reservation):
        group = pool.capacity.placement_group
        return PlacementGroup(name=group, create=False) if group is not None else None
    if pool.placement is None:
        wanted = placed_by_default(pool, machine)
        return PlacementGroup(name=own_group(pool, cluster), create=True) if wanted else None
    if pool.placement.type != "cluster":
        return None
    if pool.placement.group is not None:
        return PlacementGroup(name=pool.placement.group, create=False)
    return PlacementGroup(name=own_group(pool, cluster), create=True)


def placed_by_default(pool: Pool, machine: MachineType) -> bool:
    """Return whether a pool that says nothing gets a placement group: only where messages cross nodes by EFA.

    Not on spot: EC2 would look for spare capacity on one rack network only.
    """
    return (
        pool.workload == "training"
        and pool.count.highest > 1
        and wants_efa(pool, machine)
        and isinstance(pool.capacity, OnDemand)
    )


def own_group(pool: Pool, cluster: EksCluster) -> str:
    """Return the name of the group that the program makes; it is unique in the account's region."""
    return f"{cluster.name}-{pool.name}"
