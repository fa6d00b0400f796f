"""Compares the zones and reserved capacity that pools name with the zones and capacity in EC2."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from gpu_platform.base.quantity import counted
from gpu_platform.online.aws.answers import CapacityReservation, Zone
from gpu_platform.online.finding import OnlineFinding, Severity
from gpu_platform.planning.clouds.eks.blocks import DRAIN_BEFORE_END, minutes
from gpu_platform.planning.clouds.eks.limits import LEAST_ZONES
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.windows import CapacityWindow, utc_text
from gpu_platform.planning.pools.section import PoolPlan

_SOON: Final = timedelta(hours=24)


def compare_control_plane_zones(
    wanted: tuple[str, ...], zones: Mapping[str, Zone], unusable: Container[str]
) -> Iterator[OnlineFinding]:
    """Yield findings about the zones of a new VPC: whether they exist in the account, and whether at least two of
    them support a control plane.

    `unusable` are the ids of zones where EKS does not accept control plane subnets. `up` leaves these zones out.
    """
    looked_at = "zones of the new cluster"
    usable = sorted(
        zone.name for zone in zones.values() if zone.state == "available" and zone.zone_id not in unusable
    )
    fix = f"name other zones in cluster.create.zones; the account has {', '.join(usable) or 'none'}"
    wrong = False
    left = sum(name in zones and zones[name].zone_id not in unusable for name in wanted)
    for name in wanted:
        zone = zones.get(name)
        if zone is None:
            why = "the account has no such zone, so the subnet cannot be created"
        elif zone.zone_id in unusable and left < LEAST_ZONES:
            why = "EKS accepts no control plane subnets in this zone"
        elif zone.state != "available":
            why = f"the zone is {zone.state}"
        else:
            continue
        wrong = True
        found = f"{name} is {zone.zone_id}" if zone is not None else f"no {name}"
        yield OnlineFinding(looked_at=looked_at, severity="stops", found=found, why=why, fix=fix)
    if not wrong:
        named = ", ".join(
            f"{name} is {zones[name].zone_id}" + (", only for nodes" if zones[name].zone_id in unusable else "")
            for name in wanted
        )
        yield OnlineFinding(looked_at=looked_at, severity="fine", found=named)


def compare_offers(
    pool: str, machine_type: str, wanted: tuple[str, ...], anywhere: bool, offered: frozenset[str]
) -> OnlineFinding:
    """Return a finding about whether the zones of a pool offer its machine type.

    `anywhere` means that the pool itself specifies no zones.
    """
    looked_at = f"zones of pool {pool} that offer {machine_type}"
    missing = [zone for zone in wanted if zone not in offered]
    has = ", ".join(sorted(offered)) or "no zone of the region"
    found = f"{has} offer it; the pool uses {', '.join(wanted) or 'any zone'}"
    severity: Severity = "fine"
    why = ""
    if not offered or (wanted and len(missing) == len(wanted)):
        severity, why = "stops", "no zone of the pool has the machine type, so no node can start"
    elif missing:
        severity = "warns"
        why = f"{', '.join(missing)} do not have the machine type, so nodes start only in the other zones"
    field = "cluster.create.zones" if anywhere else "zones"
    fix = f"write {field}: [{has}]" if severity != "fine" and offered else "choose another region or machine type"
    return OnlineFinding(
        looked_at=looked_at, severity=severity, found=found, why=why, fix=fix if severity != "fine" else ""
    )


def reserved_capacity(pool: PoolPlan) -> tuple[CapacityWindow, ...]:
    """Return the reservation or the capacity blocks that a pool specifies."""
    windows = pool.cloud_nodes.windows
    reservation, zone = pool.capacity.get("reservation"), pool.capacity.get("zone")
    if windows or reservation is None or zone is None:
        return windows
    return (CapacityWindow(reservation=str(reservation), zone=str(zone), drain=DRAIN_BEFORE_END),)


def compare_reservation(
    pool: PoolPlan, window: CapacityWindow, found: CapacityReservation | None, now: datetime
) -> Iterator[OnlineFinding]:
    """Yield every reason why a pool's nodes cannot use its reservation or capacity block."""
    looked_at = f"capacity of pool {pool.name}: {window.reservation}"
    if found is None:
        yield OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found="no such reservation in this account and region",
            why="EC2 cannot launch nodes into a reservation that it does not find",
            fix="see aws ec2 describe-capacity-reservations; this account must accept a shared reservation",
        )
        return
    text = (
        f"{found.kind} {found.state}, {found.total} × {found.instance_type} in {found.zone}, "
        f"{found.available} available"
    )
    if found.ends is not None:
        text += f", until {found.ends:%Y-%m-%dT%H:%MZ}"
    wrong = False
    for severity, why, fix in _reasons(pool, window, found, now):
        wrong = True
        yield OnlineFinding(looked_at=looked_at, severity=severity, found=text, why=why, fix=fix)
    if not wrong:
        yield OnlineFinding(looked_at=looked_at, severity="fine", found=text)


def _reasons(
    pool: PoolPlan, window: CapacityWindow, found: CapacityReservation, now: datetime
) -> Iterator[tuple[Severity, str, str]]:
    kind = "capacity-block" if pool.capacity["type"] == "capacity-block" else "default"
    if found.kind != kind:
        wanted = "a capacity block" if kind == "capacity-block" else "an On-Demand Capacity Reservation"
        right = "capacity-block" if found.kind == "capacity-block" else "reservation"
        yield "stops", f"the stack file declares {wanted}", f"write capacity.type: {right}"
    if found.instance_type != pool.machine_type:
        yield (
            "stops",
            f"the pool has machine type {pool.machine_type}",
            f"write machine_type: {found.instance_type}, or name another reservation",
        )
    if found.zone != window.zone:
        yield (
            "stops",
            f"the stack file declares zone {window.zone}",
            f"write capacity.zone: {found.zone}",
        )
    yield from _times(window, found)
    yield from _state(pool, window, found, now)
    yield from _size(pool, found)
    group = _placement_group(pool)
    if found.placement_group and found.placement_group != group:
        yield (
            "stops",
            f"it is in placement group {found.placement_group}; nodes outside the group cannot use it",
            f"write capacity.placement_group: {found.placement_group}",
        )


def _times(window: CapacityWindow, found: CapacityReservation) -> Iterator[tuple[Severity, str, str]]:
    """Yield the declared times that differ from the reservation's times."""
    for name, declared, real in (("starts", window.starts, found.starts), ("ends", window.ends, found.ends)):
        if declared is not None and real is not None and declared != real:
            yield (
                "stops" if name == "starts" else "warns",
                f"the stack file declares {name}: {utc_text(declared)}",
                f"write {name}: {utc_text(real)}",
            )


def _state(
    pool: PoolPlan, window: CapacityWindow, found: CapacityReservation, now: datetime
) -> Iterator[tuple[Severity, str, str]]:
    another = "name another reservation"
    others = [one for one in reserved_capacity(pool) if one != window and not one.has_ended(now)]
    if others and (found.state == "expired" or (found.ends is not None and found.ends <= now)):
        yield "warns", "it has ended, and the pool has other blocks", "remove it from blocks"
        return
    if found.state not in ("active", "scheduled"):
        yield "stops", f"its state is {found.state}, so EC2 starts no nodes in it", another
        return
    if found.ends is not None and found.ends <= now:
        yield "stops", "it has ended", another
        return
    if found.state == "scheduled" and window.starts is None:
        starts = f"{found.starts:%Y-%m-%dT%H:%MZ}" if found.starts is not None else "a later time"
        why = f"it begins at {starts}, and no node can start in it earlier"
        severity: Severity = "stops" if pool.nodes.desired else "warns"
        fix = f"write starts: {utc_text(found.starts)}, so that a schedule starts the nodes then"
        yield severity, why, fix if found.kind == "capacity-block" else "run up after the reservation has begun"
    if found.ends is None:
        return
    if found.kind == "capacity-block" and found.ends - window.drain <= now:
        early = minutes(window.drain)
        yield "stops", f"it ends in less than {early} minutes, so its nodes are now scaled to zero", another
    elif found.ends - now < _SOON:
        yield "warns", "it ends within 24 hours", "extend it, or name another reservation"


def _size(pool: PoolPlan, found: CapacityReservation) -> Iterator[tuple[Severity, str, str]]:
    if found.total < pool.nodes.desired:
        yield (
            "stops",
            f"the pool has {counted(pool.nodes.desired, 'node')}, the reservation {found.total}",
            f"write count.desired: {found.total}, or enlarge the reservation",
        )
    elif found.total < pool.nodes.max:
        yield (
            "warns",
            f"the pool may have {counted(pool.nodes.max, 'node')}, the reservation {found.total}",
            f"write count.max: {found.total}, or enlarge the reservation",
        )
    elif found.state == "active" and found.available < pool.nodes.desired:
        yield (
            "warns",
            f"{found.total - found.available} of its instances are in use; unless they are the pool's own nodes, "
            f"{pool.nodes.desired - found.available} of {counted(pool.nodes.desired, 'node')} cannot start",
            "see who uses it: aws ec2 get-capacity-reservation-usage",
        )


def _placement_group(pool: PoolPlan) -> str:
    cloud = pool.cloud
    if isinstance(cloud, EksPoolPlan | KarpenterPoolPlan) and cloud.placement_group is not None:
        return cloud.placement_group.name
    return ""
