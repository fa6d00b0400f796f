"""Plan zones and cluster placement groups for EKS nodes.

Sources: EC2 user guide, placement groups, Capacity Blocks and Capacity Reservations in placement groups;
eksctl-io/eksctl#7949 and terraform-aws-eks#3730 (a reservation used with a separate group); read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog
from gpu_platform.catalog.models import AwsFamily, MachineType
from gpu_platform.planning.clouds.eks.blocks import windows_of
from gpu_platform.planning.clouds.eks.capacity import check_region
from gpu_platform.planning.clouds.eks.network import uses_efa
from gpu_platform.planning.clouds.eks.plan import PlacementGroup
from gpu_platform.planning.clouds.eks.zones import is_local_zone
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.pool import CapacityBlock, OnDemand, Pool, Reservation


def zones_of(pool: Pool) -> tuple[str, ...]:
    """Return the zones of a pool, or an empty tuple if the pool uses all zones of the cluster. Each reservation or
    block is in one zone.
    """
    if windows := windows_of(pool):
        return tuple(dict.fromkeys(window.zone for window in windows))
    return tuple(pool.zones or ())


def known_zones(cluster: EksCluster) -> tuple[str, ...]:
    """Return the zones that a pool without declared zones may use. The result is empty unless the stack file names
    all subnets of the cluster.

    A VPC that the program creates has at least two zones. Nodes of a pool without zones are never in a Local Zone.
    """
    network = cluster.create.network if cluster.create is not None else None
    subnets = network.subnets if network is not None else cluster.subnets or {}
    return tuple(sorted(zone for zone in subnets if not is_local_zone(zone)))


def rebalanced(pool: Pool, cluster: EksCluster) -> bool:
    """Return whether EC2 Auto Scaling may terminate nodes that run pods, to balance the zones of a pool.

    The zones are out of balance if nodes were removed, or if a zone had no capacity. EC2 Auto Scaling then starts
    a node in the zone with fewer nodes, and terminates a node in another zone. EKS cannot suspend this balancing,
    and annotations and budgets of the pods do not stop it. Sources: Cluster Autoscaler,
    cloudprovider/aws/README.md, gotchas; aws/containers-roadmap#1453; EKS user guide, "Simplify node lifecycle
    with managed node groups"; read 2026-11-29.
    """
    if pool.provisioner == "karpenter" or windows_of(pool) or pool.count.maximum < 2:
        return False
    return len(pool.zones or known_zones(cluster) or ("unknown", "zones")) > 1


def placement_group(pool: Pool, machine: MachineType, cluster: EksCluster) -> PlacementGroup | None:
    """Return the cluster placement group of a pool, or None.

    A pool with a reservation can use only the reservation's own group, because nodes in another group get no
    reserved capacity.
    """
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
    """Return whether a pool without `placement` gets a placement group.

    Only on-demand pools for multi-node training with EFA get one. For spot, EC2 would search for spare capacity in
    only one network spine. The instances of a capacity block are already close together.
    """
    return (
        pool.workload == "training"
        and pool.count.maximum > 1
        and uses_efa(pool, machine)
        and isinstance(pool.capacity, OnDemand)
    )


def own_group(pool: Pool, cluster: EksCluster) -> str:
    """Return the name of the group that the program creates.

    Within an account and region, EC2 refuses two groups with the same name. Pool `c` in cluster `a-b` and pool
    `b-c` in cluster `a` could otherwise get the same name. The form of the name is fixed, because a change would
    replace the nodes of every pool that has a group.
    """
    return f"{cluster.name}-{pool.name}"


def check_placement(
    pool: Pool, machine: MachineType, family: AwsFamily, cluster: EksCluster, problems: Problems
) -> None:
    """Record problems for a placement that EC2 refuses, or that excludes nodes from their reserved capacity."""
    placement = pool.placement
    if placement is None:
        return
    here = problems.at("placement")
    if placement.type == "none" and placement.group is not None:
        here.at("group").add(
            f"{placement.group!r} with type none",
            "a group only with type cluster",
            "write type: cluster, or remove group",
        )
    made_in = pool.capacity.placement_group if isinstance(pool.capacity, Reservation) else None
    if placement.type == "none" and made_in is not None:
        here.at("type").add(
            f"'none' with a reservation made in {made_in!r}",
            "no placement: only instances in the reservation's own group get its capacity",
            "remove placement",
        )
    if placement.type != "cluster":
        return
    if not family.cluster_placement:
        here.at("type").add(
            f"'cluster' on {machine.name}",
            f"none, because {family.name} does not support cluster placement groups ({family.source})",
            "write type: none",
        )
    if isinstance(pool.capacity, CapacityBlock):
        here.at("type").add(
            "'cluster' with a capacity block",
            "none, because the instances of a block are already close together in one UltraCluster",
            "remove placement",
        )
    if isinstance(pool.capacity, Reservation):
        _check_with_reservation(placement.group, pool.capacity, here)


def _check_with_reservation(group: str | None, capacity: Reservation, here: Problems) -> None:
    if group is not None and group != capacity.placement_group:
        made_in = "none" if capacity.placement_group is None else repr(capacity.placement_group)
        here.at("group").add(
            f"{group!r} with a reservation whose placement_group is {made_in}",
            "the group of the reservation: instances in another group get no reserved capacity",
            "write the reservation's own group in capacity.placement_group, and remove placement",
        )
    elif capacity.placement_group is None:
        here.at("type").add(
            "'cluster' with a reservation that names no group",
            "no group, or the reservation's own group: a separate group reduced 16 reserved nodes to 11 "
            "(eksctl-io/eksctl#7949)",
            "remove placement; name the group of the reservation, if any, in capacity.placement_group",
        )


def check_shared_groups(
    pools: Sequence[tuple[int, Pool]], cluster: EksCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record a problem if a pool names a group that the program creates, or a group that a pool in another zone
    also names.

    The program creates a group for the nodes of one pool, and deletes the group with these nodes.
    """
    created: dict[str, int] = {}
    for index, pool in pools:
        machine = catalog.machine_types.get(pool.machine_type)
        placed = placement_group(pool, machine, cluster) if machine is not None else None
        if placed is not None and placed.create:
            created[placed.name] = index
    first: dict[str, tuple[int, str]] = {}
    for index, pool in pools:
        field, group = _named_group(pool)
        if group is not None and group in created:
            owner = created[group]
            problems.at(f"pools[{index}].{field}").add(
                f"{group!r}, which the program creates for pools[{owner}]",
                "an existing group: the program deletes its own group with the nodes of its pool",
                f"name a group that exists, or remove {field}",
            )
            continue
        zones = set(zones_of(pool))
        if group is None or len(zones) != 1:  # another check refuses a pool with several zones
            continue
        [zone] = zones
        other, its_zone = first.setdefault(group, (index, zone))
        if zone != its_zone:
            problems.at(f"pools[{index}].{field}").add(
                f"{group!r} in {zone}",
                f"{its_zone}, where pools[{other}] uses the group, because a cluster placement group cannot "
                "span zones",
                "name another group, or correct the zone",
            )


def _named_group(pool: Pool) -> tuple[str, str | None]:
    """Return the stack file field that names an existing group, and the group."""
    if isinstance(pool.capacity, Reservation):
        return "capacity.placement_group", pool.capacity.placement_group
    return "placement.group", pool.placement.group if pool.placement is not None else None


def check_zones(pool: Pool, machine: MachineType, cluster: EksCluster, problems: Problems) -> None:
    """Record problems for zones outside the region or the reserved capacity, and for a pool that has several zones
    but must have exactly one.
    """
    here, capacity = problems.at("zones"), pool.capacity
    for index, zone in enumerate(pool.zones or ()):
        check_region(zone, cluster, here.at(f"[{index}]"))
        if zone in (pool.zones or ())[:index]:
            here.at(f"[{index}]").add(f"{zone!r} again", "each zone once", "remove it")
    if isinstance(capacity, Reservation | CapacityBlock):
        own = zones_of(pool)
        if own and pool.zones is not None and set(pool.zones) != set(own):
            here.add(
                ", ".join(pool.zones),
                f"only {', '.join(own)}, the zone of the {capacity.type} that the nodes come from",
                "remove zones: the capacity determines the zone",
            )
        return
    if len(set(pool.zones or ())) == 1:
        return
    found = ", ".join(pool.zones) if pool.zones else "no zones, so every zone of the cluster"
    zone = next(iter(pool.zones or known_zones(cluster)), f"{cluster.region}a")
    if placement_group(pool, machine, cluster) is not None:
        here.add(
            found,
            "exactly one zone: a cluster placement group is in one zone"
            + (
                ""
                if pool.placement
                else f" (a training pool of {counted(pool.count.maximum, 'node')} with EFA gets such a group)"
            ),
            f"write zones: [{zone}], a zone where EC2 offers {machine.name}",
        )
    elif uses_efa(pool, machine) and pool.count.maximum > 1:
        here.add(
            found,
            "exactly one zone: EFA traffic does not cross zones",
            f"write zones: [{zone}], a zone where EC2 offers {machine.name}",
        )
