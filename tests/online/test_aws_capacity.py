"""Zones, reservations and capacity blocks of pools, compared with those in EC2."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.online.aws.answers import CapacityReservation, Zone
from gpu_platform.online.aws.capacity import (
    compare_control_plane_zones,
    compare_offers,
    compare_reservation,
    reserved_capacity,
)
from gpu_platform.planning.pools.section import PoolPlan
from tests.support.eks_stacks import plan_eks

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
ID = "cr-0f0e0d0c0b0a09080"
UNUSABLE = load_catalog().no_control_plane_zones


def pool_of(kind: str, desired: int = 2, most: int | None = None, **capacity: Any) -> PoolPlan:
    taken = {"type": kind, "reservation": ID, "zone": "us-east-2a"} | capacity
    return plan_eks({"count": {"desired": desired, "max": most or desired}, "capacity": taken}).pools[0]


BLOCK = CapacityReservation(
    reservation_id=ID,
    instance_type="p5.48xlarge",
    zone="us-east-2a",
    state="active",
    kind="capacity-block",
    total=2,
    available=2,
    starts=None,
    ends=NOW + timedelta(days=7),
    placement_group="",
)


def reasons(found: CapacityReservation | None, pool: PoolPlan | None = None) -> list[tuple[str, str]]:
    pool = pool or pool_of("capacity-block")
    (window,) = reserved_capacity(pool)
    findings = compare_reservation(pool, window, found, NOW)
    return [(each.severity, each.why) for each in findings]


def test_a_capacity_block_that_fits_is_fine() -> None:
    assert reasons(BLOCK) == [("fine", "")]


def test_a_reservation_that_is_not_there_stops_up() -> None:
    assert reasons(None) == [("stops", "EC2 cannot launch nodes into a reservation that it does not find")]


@pytest.mark.parametrize(
    ("changed", "severity", "why"),
    [
        ({"instance_type": "p4d.24xlarge"}, "stops", "the pool has machine type p5.48xlarge"),
        ({"zone": "us-east-2b"}, "stops", "the stack file declares zone us-east-2a"),
        ({"kind": "default"}, "stops", "the stack file declares a capacity block"),
        ({"state": "payment-failed"}, "stops", "its state is payment-failed"),
        ({"state": "expired"}, "stops", "its state is expired"),
        ({"ends": NOW - timedelta(minutes=1)}, "stops", "it has ended"),
        ({"ends": NOW + timedelta(minutes=40)}, "stops", "ends in less than 40 minutes"),
        ({"ends": NOW + timedelta(hours=23)}, "warns", "it ends within 24 hours"),
        ({"total": 1, "available": 1}, "stops", "the pool has 2 nodes, the reservation 1"),
        ({"available": 1}, "warns", "1 of its instances are in use"),
        ({"placement_group": "dense"}, "stops", "it is in placement group dense"),
        ({"state": "scheduled", "starts": NOW + timedelta(days=1)}, "stops", "it begins at 2026-11-24T12:00Z"),
    ],
)
def test_what_of_a_capacity_block_does_not_fit(changed: dict[str, Any], severity: str, why: str) -> None:
    ((found_severity, found_why),) = reasons(replace(BLOCK, **changed))

    assert found_severity == severity
    assert why in found_why


def test_a_scheduled_block_does_not_stop_a_pool_without_desired_nodes() -> None:
    scheduled = replace(BLOCK, state="scheduled", starts=NOW + timedelta(days=1))
    pool = pool_of("capacity-block", desired=0, most=2)

    assert [severity for severity, _ in reasons(scheduled, pool)] == ["warns"]


def test_a_scheduled_block_with_its_start_in_the_stack_file_is_fine() -> None:
    starts = NOW + timedelta(days=1)
    scheduled = replace(BLOCK, state="scheduled", starts=starts, available=0)
    assert reasons(scheduled, pool_of("capacity-block", starts=starts.isoformat())) == [("fine", "")]
    ((severity, why),) = reasons(scheduled, pool_of("capacity-block", starts=NOW.isoformat()))
    assert (severity, why) == ("stops", "the stack file declares starts: 2026-11-23T12:00:00Z")


def test_every_reason_is_reported_and_not_only_the_first() -> None:
    wrong = replace(BLOCK, instance_type="p4d.24xlarge", zone="us-east-2c", total=1)

    assert len(reasons(wrong)) == 3


def test_a_pools_maximum_may_exceed_the_reservation() -> None:
    ((severity, why),) = reasons(BLOCK, pool_of("capacity-block", desired=2, most=4))

    assert (severity, why) == ("warns", "the pool may have 4 nodes, the reservation 2")


def test_a_pools_placement_group_must_match_the_reservation() -> None:
    found = replace(BLOCK, kind="default", placement_group="dense", ends=None)

    assert reasons(found, pool_of("reservation", placement_group="dense")) == [("fine", "")]


ZONES = {
    name: Zone(name=name, zone_id=zone_id, state="available")
    for name, zone_id in {"us-east-1a": "use1-az1", "us-east-1b": "use1-az2", "us-east-1e": "use1-az3"}.items()
}


def test_zones_that_exist_and_can_have_a_control_plane_are_fine() -> None:
    (finding,) = compare_control_plane_zones(("us-east-1a", "us-east-1b"), ZONES, UNUSABLE)

    assert (finding.severity, finding.found) == ("fine", "us-east-1a is use1-az1, us-east-1b is use1-az2")


def test_a_zone_that_eks_excludes_is_found_by_its_id_whatever_its_letter() -> None:
    (finding,) = compare_control_plane_zones(("us-east-1a", "us-east-1e"), ZONES, UNUSABLE)

    assert (finding.severity, finding.found) == ("stops", "us-east-1e is use1-az3")
    assert finding.fix.endswith("us-east-1a, us-east-1b")


def test_a_zone_excluded_by_eks_is_only_for_nodes() -> None:
    (finding,) = compare_control_plane_zones(("us-east-1a", "us-east-1b", "us-east-1e"), ZONES, UNUSABLE)

    assert finding.severity == "fine"
    assert finding.found.endswith("us-east-1e is use1-az3, only for nodes")


def test_a_zone_that_the_account_does_not_have_stops_up() -> None:
    (finding,) = compare_control_plane_zones(("us-east-1a", "us-east-1d"), ZONES, UNUSABLE)

    assert (finding.severity, finding.found) == ("stops", "no us-east-1d")


def test_a_zone_that_is_not_available_stops_up() -> None:
    zones = ZONES | {"us-east-1b": replace(ZONES["us-east-1b"], state="impaired")}

    assert [each.why for each in compare_control_plane_zones(("us-east-1b",), zones, UNUSABLE)] == [
        "the zone is impaired"
    ]


@pytest.mark.parametrize(
    ("wanted", "offered", "severity"),
    [
        (("a", "b"), {"a", "b", "c"}, "fine"),
        ((), {"a"}, "fine"),
        (("a", "b"), {"a"}, "warns"),
        (("a",), {"b"}, "stops"),
        ((), set[str](), "stops"),
    ],
)
def test_a_zone_of_the_pool_must_offer_the_machine_type(
    wanted: tuple[str, ...], offered: set[str], severity: str
) -> None:
    finding = compare_offers("train", "p5.48xlarge", wanted, anywhere=False, offered=frozenset(offered))

    assert finding.severity == severity
    assert bool(finding.fix) == (severity != "fine")
