"""Plan the capacity type, the zones and the node counts of a GKE pool.

Sources: GKE docs on reservations, spot and flex-start; preconditions of cluster-toolkit 1.95 (gke-node-pool);
terraform-provider-google, resource_container_node_pool; read 2026-11-21.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gpu_platform.base.quantity import counted, parse_duration
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.catalog.zones import google_region, is_google_zone
from gpu_platform.planning.clouds.gke.plan import ReservationAffinity
from gpu_platform.planning.clouds.windows import CapacityWindow
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.pool import Count, FlexStart, Pool, Reservation

RESERVATION_KEY = "compute.googleapis.com/reservation-name"
MAX_FLEX_START_SECONDS = 7 * 24 * 3600
_LEAST_FLEX_START_SECONDS = 10 * 60
"""Minimum run duration of a flex-start request (gcloud reference, resize-requests create; read 2026-11-28)."""
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Node counts of a pool.

    `per_location` is the number of nodes in each location. `min` and `max` are the autoscaler's limits for the
    total over all locations.
    """

    autoscaled: bool
    per_location: int | None
    min: int
    max: int


def locations(pool: Pool, cluster: GkeCluster) -> tuple[str, ...]:
    """Return the zones that the stack file names for a pool. The result is empty if the stack file names no zones
    for a pool of a regional cluster.

    Placement and node counts depend only on these zones, so nodes are not replaced when the list of offered zones
    is updated.
    """
    if isinstance(pool.capacity, Reservation):
        return (pool.capacity.zone,)
    if pool.zones is not None:
        return pool.zones
    return (cluster.location,) if is_google_zone(cluster.location) else ()


def zones_of(pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog) -> tuple[str, ...]:
    """Return the declared zones of a pool, or the zones of the region that are known to offer its machine type.

    If the result is empty, GKE uses the cluster's zones, and refuses the pool if one of these zones does not offer
    the machine type (GoogleCloudPlatform/kubernetes-engine-samples#1738; read 2026-11-28).
    """
    known = catalog.offered(machine)
    return locations(pool, cluster) or (known.zones.get(cluster.location, ()) if known is not None else ())


def sizes(pool: Pool, cluster: GkeCluster) -> Sizes:
    """Return the node counts of a valid pool. If only `desired` is set, the number of nodes is fixed."""
    count = pool.count
    if isinstance(pool.capacity, FlexStart):
        return Sizes(autoscaled=True, per_location=None, min=0, max=count.maximum)
    return Sizes(
        autoscaled=count.is_range,
        per_location=count.desired // max(len(locations(pool, cluster)), 1),
        min=count.min,
        max=count.maximum,
    )


def reservation_affinity(pool: Pool, cluster: GkeCluster) -> ReservationAffinity:
    """Return the reservation affinity of a pool. The nodes use either the pool's own reservation or no
    reservation.

    ANY is never used, because the nodes could then use the capacity of other teams.
    """
    capacity = pool.capacity
    if not isinstance(capacity, Reservation):
        return ReservationAffinity(type="NO_RESERVATION")
    value = f"projects/{capacity.project or cluster.project}/reservations/{capacity.reservation}"
    if capacity.block is not None:
        value += f"/reservationBlocks/{capacity.block}"
        if capacity.sub_block is not None:
            value += f"/reservationSubBlocks/{capacity.sub_block}"
    return ReservationAffinity(type="SPECIFIC_RESERVATION", key=RESERVATION_KEY, values=(value,))


def location_policy(pool: Pool) -> Literal["ANY", "BALANCED"]:
    """Return how the autoscaler distributes nodes: ANY if capacity is scarce or reserved, otherwise BALANCED."""
    return "BALANCED" if pool.capacity.type == "on-demand" else "ANY"


def run_seconds(capacity: FlexStart) -> int:
    """Return the maximum lifetime of a flex-start node in seconds."""
    if capacity.max_run_duration is None:
        return MAX_FLEX_START_SECONDS
    return parse_duration(capacity.max_run_duration)


def check_capacity(
    pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record problems with capacity, zones and node counts that GKE does not support."""
    here = problems.at("capacity")
    match pool.capacity:
        case Reservation() as capacity:
            _check_reservation(capacity, pool, cluster, here)
        case FlexStart() as capacity:
            _check_flex_start(capacity, pool, problems)
        case _:
            pass
    _check_zones(pool, cluster, problems)
    zones = zones_of(pool, machine, cluster, catalog)
    if machine.has_gpus and not zones:
        problems.at("zones").add(
            f"nothing, and the catalogue lists no zones of {cluster.location} with {machine.name}",
            "zones that offer the machine type; GKE refuses a pool that may have nodes in other zones",
            f"write zones: [{cluster.location}-a], or another zone that offers {machine.name}",
        )
    elif pool.capacity.type in ("on-demand", "spot", "reservation"):
        _check_count(pool, cluster, zones, problems.at("count"))


def windows(pool: Pool) -> tuple[CapacityWindow, ...]:
    """Return the pool's reservation with its start and end, or an empty tuple for other capacity types.

    GKE does not drain the nodes before the reservation ends.
    """
    capacity = pool.capacity
    if not isinstance(capacity, Reservation):
        return ()
    window = CapacityWindow(
        reservation=capacity.reservation, zone=capacity.zone, starts=capacity.starts, ends=capacity.ends
    )
    return (window,)


def _check_reservation(capacity: Reservation, pool: Pool, cluster: GkeCluster, here: Problems) -> None:
    if not _NAME.fullmatch(capacity.reservation):
        here.at("reservation").add(
            f"{capacity.reservation!r}",
            "the name of a Compute Engine reservation, without a path: a-z, 0-9 and -, beginning with a letter",
            "write its project in project, and its block in block",
        )
    if capacity.block is not None and not _NAME.fullmatch(capacity.block):
        here.at("block").add(
            f"{capacity.block!r}",
            "the name of a block of the reservation, without a path: a-z, 0-9 and -",
            "see gcloud compute reservations blocks list",
        )
    if capacity.sub_block is not None and capacity.block is None:
        here.at("sub_block").add(
            f"{capacity.sub_block!r} without block", "a sub-block together with its block", "write its block"
        )
    elif capacity.sub_block is not None and not _NAME.fullmatch(capacity.sub_block):
        here.at("sub_block").add(
            f"{capacity.sub_block!r}",
            "the name of a sub-block of the block, without a path: a-z, 0-9 and -",
            "see gcloud compute reservations sub-blocks list",
        )
    if capacity.starts is not None and capacity.ends is not None and capacity.ends <= capacity.starts:
        here.at("ends").add(
            f"{capacity.ends.isoformat()}, with a start at {capacity.starts.isoformat()}",
            "an end after the start",
            "set starts and ends to the times of timeWindow "
            "in the output of gcloud compute future-reservations describe",
        )
    if capacity.needed_until is not None and capacity.ends is None:
        here.at("ends").add(
            f"nothing, with needed_until {capacity.needed_until.isoformat()}",
            "the end of the reservation, because needed_until is compared with the end; "
            "without needed_until, ends is not required",
            "set ends to timeWindow.endTime in the output of gcloud compute future-reservations describe",
        )
    elif capacity.needed_until is not None and capacity.ends is not None and capacity.ends < capacity.needed_until:
        here.at("ends").add(
            capacity.ends.isoformat(),
            f"an end after needed_until ({capacity.needed_until.isoformat()}), because the nodes are deleted "
            "when the reservation ends",
            "reserve for a longer time, or write an earlier needed_until",
        )
    if capacity.project is not None and not _PROJECT.fullmatch(capacity.project):
        here.at("project").add(
            f"{capacity.project!r}",
            "the id of the project that owns the reservation: 6 to 30 characters of a-z, 0-9 and -",
            "see gcloud projects list",
        )
    _check_in_region(capacity.zone, cluster, here.at("zone"))
    if pool.zones is not None and pool.zones != (capacity.zone,):
        here_zones = Problems(here.path.removesuffix(".capacity"), here.found).at("zones")
        here_zones.add(
            ", ".join(pool.zones),
            f"{capacity.zone} only; a reservation is in one zone",
            "remove zones",
        )


def _check_flex_start(capacity: FlexStart, pool: Pool, problems: Problems) -> None:
    count = problems.at("count")
    if not _LEAST_FLEX_START_SECONDS <= run_seconds(capacity) <= MAX_FLEX_START_SECONDS:
        problems.at("capacity").at("max_run_duration").add(
            f"{capacity.max_run_duration}",
            "10 minutes to 7 days, which is 168h; a new node needs some of these minutes before pods start",
            "write 168h or less, or remove max_run_duration",
        )
    if pool.count.desired > 0:
        count.at("desired").add(
            f"{pool.count.desired} with flex-start",
            "0; nodes are created when pods request them and capacity is free, so the number is not fixed",
            f"write count: {{desired: 0, max: {pool.count.maximum}}}",
        )
    elif pool.count.maximum == 0:
        count.at("max").add("0 with flex-start", "1 or more, the maximum size of the pool", "write max: 8")
    if pool.repair:
        problems.at("repair").add(
            "true with flex-start",
            "false; GKE does not support auto-repair for flex-start nodes",
            "remove repair",
        )


def _check_zones(pool: Pool, cluster: GkeCluster, problems: Problems) -> None:
    for index, zone in enumerate(pool.zones or ()):
        here = problems.at("zones").at(f"[{index}]")
        _check_in_region(zone, cluster, here)
        if zone in (pool.zones or ())[:index]:
            here.add(f"{zone} again", "each zone once", "remove it")


def _check_in_region(zone: str, cluster: GkeCluster, here: Problems) -> None:
    region = google_region(cluster.location)
    if google_region(zone) != region:
        here.add(
            f"{zone!r}",
            f"a zone of {region}, the cluster's region",
            f"write {region}-a or another zone of the region, or change the cluster's location",
        )


def _check_count(pool: Pool, cluster: GkeCluster, offered: tuple[str, ...], here: Problems) -> None:
    """Record a problem if the nodes cannot be divided equally among the locations, as GKE requires."""
    desired, zones = pool.count.desired, locations(pool, cluster)
    if desired == 0:
        return
    if not zones:
        here.at("desired").add(
            f"{counted(desired, 'node')} without zones",
            "a number only together with zones; GKE creates this many nodes in each zone, and not every zone "
            "has every GPU",
            f"write zones: [{_first_zone(offered, cluster)}], or another zone that offers {pool.machine_type}",
        )
    elif (next_ := _in_each_zone(desired, zones)) != desired:
        here.at("desired").add(
            f"{counted(desired, 'node')} over {len(zones)} zones",
            f"a multiple of {len(zones)}; GKE creates the same number of nodes in each zone",
            f"write {_count_fix(pool.count, next_)}, or different zones",
        )


def fixed_count_fix(pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog) -> str:
    """Return the stack file fields for a fixed number of nodes. The number is the desired number, or the maximum
    if the stack file sets no desired number.

    This number is rounded up so that each zone has the same number of nodes.
    """
    zones = locations(pool, cluster)
    fixed = f"count: {{desired: {_in_each_zone(pool.count.desired or pool.count.maximum, zones)}}}"
    return (
        fixed
        if zones
        else f"{fixed} and zones: [{_first_zone(zones_of(pool, machine, cluster, catalog), cluster)}]"
    )


def _in_each_zone(number: int, zones: Sequence[str]) -> int:
    """Round a number of nodes up to a number that can be divided equally among the zones."""
    return number + -number % max(len(set(zones)), 1)


def _count_fix(count: Count, desired: int) -> str:
    """Return the fix for a new desired number, which may be above the current maximum."""
    if count.max is None or desired <= count.max:
        return f"desired: {desired}"
    return f"desired: {desired} and max: {desired}" if count.is_range else f"count: {{desired: {desired}}}"


def _first_zone(offered: Sequence[str], cluster: GkeCluster) -> str:
    return next(iter(offered), f"{cluster.location}-a")
