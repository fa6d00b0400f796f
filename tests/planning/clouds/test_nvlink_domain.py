"""Each pool of rack-scale machines is a single NVLink domain, which is bought and placed as a unit."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.clouds.eks.zones import is_local_zone, region_of_zone
from tests.planning.clouds.eks.eks_pools import eks, node_group, plan_and_decisions, pool, problems_of, shape

DALLAS = "us-east-1-dfw-2a"
VIRGINIA = eks(region="us-east-1")
BLOCK: dict[str, Any] = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": DALLAS}
RACK: dict[str, Any] = {"machine_type": "p6e-gb200.36xlarge", "count": {"desired": 18}, "capacity": BLOCK}


def refused(**said: Any) -> dict[str, str]:
    return {one.path: str(one) for one in problems_of(pool(**{**RACK, **said}), VIRGINIA)}


def test_a_domain_has_72_gpus_or_half_of_them_on_machines_of_every_vendor() -> None:
    catalog = load_catalog()
    sizes = {
        machine.name: [nodes * machine.gpu_count for nodes in domain.nodes]
        for machine in catalog.machine_types.values()
        if (domain := catalog.nvlink_domain(machine)) is not None
    }
    a4x = {"a4x-highgpu-4g": [72], "a4x-highgpu-4g-nolssd": [72]}
    azure = {"Standard_ND128isr_NDR_GB200_v6": [72], "Standard_ND128isr_GB300_v6": [72]}
    assert sizes == {"p6e-gb200.36xlarge": [36, 72], **a4x, **azure}


def test_an_ultraserver_uses_a_capacity_block_and_no_placement_group() -> None:
    plan = node_group(VIRGINIA, **RACK)
    assert (plan.capacity_type, plan.market_type) == ("CAPACITY_BLOCK", "capacity-block")
    assert (plan.capacity_reservation, plan.zones) == ("cr-0a1b2c3d4e5f60718", (DALLAS,))
    assert plan.placement_group is None
    assert plan.ami_type == "AL2023_ARM_64_NVIDIA"


def test_an_ultraserver_has_one_efa_only_interface_for_each_gpu() -> None:
    assert shape(node_group(VIRGINIA, **RACK).interfaces) == [
        (0, 0, "interface"),
        *((card, 0, "efa-only") for card in (1, 5, 9, 13)),
    ]


@pytest.mark.parametrize("count", [{"desired": 1}, {"desired": 9}, {"desired": 18}, {"desired": 0, "max": 18}])
def test_a_pool_is_a_domain_or_a_part_of_one(count: dict[str, int]) -> None:
    assert refused(count=count) == {}


@pytest.mark.parametrize(
    ("count", "field"),
    [({"desired": 19}, "desired"), ({"desired": 36}, "desired"), ({"desired": 9, "max": 19}, "max")],
)
def test_a_pool_above_a_domain_is_refused_because_a_reservation_is_one_ultraserver(
    count: dict[str, int], field: str
) -> None:
    problems = refused(count=count)
    assert list(problems) == [f"pool.count.{field}"]
    assert "at most 18; a pool is one NVLink domain, which has 9 or 18 nodes" in problems[f"pool.count.{field}"]


@pytest.mark.parametrize("capacity", [{"type": "on-demand"}, {"type": "spot"}])
def test_a_type_sold_only_in_blocks_is_refused_with_other_capacity(
    capacity: dict[str, Any],
) -> None:
    problems = refused(capacity=capacity, zones=[DALLAS])
    assert list(problems) == ["pool.capacity.type"]
    assert "capacity-block; p6e-gb200.36xlarge is sold only this way" in problems["pool.capacity.type"]


def test_mig_is_refused_on_eks_images_and_accepted_on_custom_images() -> None:
    cut = {"mode": "mig", "layout": {"1g.23gb": 7}}
    assert list(refused(sharing=cut, workload="inference")) == ["pool.sharing.mode"]
    assert refused(sharing=cut, workload="inference", image={"ami": "ami-0a1b2c3d4e5f60718"}) == {}


def test_karpenter_and_bottlerocket_are_refused_for_an_ultraserver() -> None:
    assert (
        "Karpenter creates no nodes for claims"
        in refused(provisioner="karpenter", count={"desired": 0, "max": 9})["pool.provisioner"]
    )
    assert list(refused(image={"family": "bottlerocket"})) == ["pool.image.family"]


def test_the_reason_of_the_placement_is_the_block() -> None:
    _, decisions = plan_and_decisions(VIRGINIA, **RACK)
    assert decisions["placement"].chosen == "none"


@pytest.mark.parametrize(
    ("zone", "region", "local"),
    [
        ("us-east-1a", "us-east-1", False),
        ("us-gov-west-1b", "us-gov-west-1", False),
        (DALLAS, "us-east-1", True),
        ("us-west-2-lax-1b", "us-west-2", True),
    ],
)
def test_a_local_zone_belongs_to_the_region_of_its_name(zone: str, region: str, local: bool) -> None:
    assert (region_of_zone(zone), is_local_zone(zone)) == (region, local)


def test_a_local_zone_of_another_region_is_refused() -> None:
    problems = refused(capacity={**BLOCK, "zone": "us-west-2-phx-2a"})
    assert list(problems) == ["pool.capacity.zone"]


def test_an_ultraserver_is_drained_before_ec2s_final_hour() -> None:
    ends = {**BLOCK, "starts": "2026-12-01T11:30:00Z", "ends": "2026-12-14T11:30:00Z"}
    _, decisions = plan_and_decisions(VIRGINIA, **{**RACK, "capacity": ends})
    (group,) = node_group(VIRGINIA, **{**RACK, "capacity": ends}).node_groups
    assert group.block is not None
    assert group.block.stop is not None
    assert (group.block.stop.recurrence, group.block.stop.nodes) == ("20 10 14 12 *", 0)
    assert "a scheduled action drains the nodes 70 minutes before" in decisions["capacity"].why


def test_an_undeclared_end_of_an_ultraserver_is_handled_by_a_person() -> None:
    _, decisions = plan_and_decisions(VIRGINIA, **RACK)
    (group,) = node_group(VIRGINIA, **RACK).node_groups
    assert group.block is not None
    assert group.block.stop is None
    assert "you must scale the pool to zero 70 minutes before its end" in decisions["capacity"].why


@pytest.mark.parametrize("minutes", [69, 70])
def test_an_ultraserver_is_needed_no_longer_than_70_minutes_before_its_end(minutes: int) -> None:
    until = f"2026-12-14T{11 - (minutes + 29) // 60:02d}:{(90 - minutes) % 60:02d}:00Z"
    block = {**BLOCK, "ends": "2026-12-14T11:30:00Z", "needed_until": until}
    assert set(refused(capacity=block)) == ({"pool.capacity.ends"} if minutes < 70 else set())


def test_an_ultraserver_that_a_schedule_empties_has_no_minimum() -> None:
    block = {**BLOCK, "ends": "2026-12-14T11:30:00Z"}
    assert set(refused(capacity=block, count={"min": 9, "desired": 18})) == {"pool.count.min"}
