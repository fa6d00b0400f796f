"""When a pool on EC2 capacity blocks gets its nodes, and the handover from one block to the next."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from tests.planning.clouds.eks.eks_pools import eks, node_group, plan_and_decisions, planned, pool, problems_of

FIRST = {
    "reservation": "cr-0a1b2c3d4e5f60718",
    "zone": "us-east-2a",
    "starts": "2026-12-01T11:30:00Z",
    "ends": "2026-12-14T11:30:00Z",
}
SECOND = {
    "reservation": "cr-1a1b2c3d4e5f60718",
    "zone": "us-east-2b",
    "starts": "2026-12-14T11:30:00Z",
    "ends": "2026-12-21T11:30:00Z",
}


def single(**changed: Any) -> dict[str, Any]:
    return {"type": "capacity-block", **FIRST, **changed}


def several(*blocks: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"type": "capacity-block", "blocks": list(blocks), **rest}


def test_a_scheduled_action_scales_up_a_block_with_a_start() -> None:
    plan = node_group(capacity=single(), count={"desired": 4})
    (group,) = plan.node_groups
    assert (group.name, group.reservation, group.zones) == ("train", FIRST["reservation"], ("us-east-2a",))
    assert group.block is not None
    assert group.block.start is not None
    assert (group.block.start.recurrence, group.block.start.nodes) == ("32 11 1 12 *", 4)
    assert group.block.start.name == "gpu-platform-start-20261201T1132Z-4"


def test_a_start_in_another_time_zone_is_scheduled_in_utc() -> None:
    plan = node_group(capacity=single(starts="2026-12-01T23:30:00-05:00"))
    (block,) = plan.blocks
    assert block.start is not None
    assert block.start.recurrence == "32 4 2 12 *"


def test_a_block_without_a_start_has_no_scheduled_action() -> None:
    (block,) = node_group(capacity={key: val for key, val in single().items() if key != "starts"}).blocks
    assert block.start is None


def test_each_block_has_a_node_group_in_order_of_time() -> None:
    plan = node_group(capacity=several(SECOND, FIRST), count={"desired": 2})
    assert [(group.name, group.reservation, group.zones) for group in plan.node_groups] == [
        ("train-0a1b2c3d4e5f60718", FIRST["reservation"], ("us-east-2a",)),
        ("train-1a1b2c3d4e5f60718", SECOND["reservation"], ("us-east-2b",)),
    ]
    assert plan.zones == ("us-east-2a", "us-east-2b")


def test_the_only_block_of_a_pool_becomes_the_earliest_of_several_and_back() -> None:
    (only,) = node_group(capacity=single()).node_groups
    earliest, later = node_group(capacity=several(FIRST, SECOND)).node_groups
    assert (only.name, only.former_name) == ("train", "train-0a1b2c3d4e5f60718")
    assert (earliest.name, earliest.former_name) == ("train-0a1b2c3d4e5f60718", "train")
    assert later.former_name is None


def test_nodes_of_consecutive_blocks_are_counted_once() -> None:
    one = planned(capacity=single(), count={"desired": 4})
    two = planned(capacity=several(FIRST, SECOND), count={"desired": 4})
    assert (one.nodes, one.units_desired) == (two.nodes, two.units_desired)
    assert (one.labels, one.taints, one.price) == (two.labels, two.taints, two.price)


def test_the_hand_over_says_how_long_the_pool_has_no_nodes() -> None:
    _, said = plan_and_decisions(capacity=several(FIRST, SECOND))
    assert said["hand-over"].chosen == f"{FIRST['reservation']} to {SECOND['reservation']}: no nodes for 40 min"
    later = {**SECOND, "starts": "2026-12-16T11:30:00Z"}
    _, said = plan_and_decisions(capacity=several(FIRST, later))
    assert said["hand-over"].chosen.endswith("no nodes for 48 h 40 min")


def test_karpenter_selects_every_block_and_every_zone() -> None:
    plan = planned(capacity=several(FIRST, SECOND), provisioner="karpenter", count={"desired": 0, "max": 4}).cloud
    assert isinstance(plan, KarpenterPoolPlan)
    terms = plan.node_class["capacityReservationSelectorTerms"]
    assert terms == [{"id": FIRST["reservation"]}, {"id": SECOND["reservation"]}]
    requirements = plan.node_pool["template"]["spec"]["requirements"]
    (zones,) = [one["values"] for one in requirements if one["key"] == "topology.kubernetes.io/zone"]
    assert zones == ["us-east-2a", "us-east-2b"]


@pytest.mark.parametrize(
    ("changed", "path", "words"),
    [
        (
            {"capacity": single(ends="2026-12-01T12:10:00Z")},
            "capacity.ends",
            "more than 40 minutes after the start",
        ),
        ({"capacity": single(ends="2027-12-14T11:30:00Z")}, "capacity.ends", "runs once a year"),
        (
            {"capacity": single(), "count": {"min": 1, "desired": 2}},
            "count.min",
            "no nodes before the block begins",
        ),
        (
            {"capacity": several(FIRST, {**SECOND, "starts": "2026-12-14T11:29:00Z"})},
            "capacity.blocks",
            "quotas are checked for one block",
        ),
        ({"capacity": several(FIRST, {**SECOND, "zone": "us-west-2a"})}, "capacity.blocks[1].zone", "us-east-2"),
        (
            {"capacity": several(FIRST, {**SECOND, "reservation": "cr-1"})},
            "capacity.blocks[1].reservation",
            "17 hexadecimal digits",
        ),
        (
            {"capacity": several(FIRST, SECOND, needed_until="2026-12-21T11:00:00Z")},
            "capacity.blocks",
            "40 minutes after needed_until",
        ),
        (
            {"capacity": several(FIRST, SECOND), "zones": ["us-east-2a"]},
            "zones",
            "only us-east-2a, us-east-2b",
        ),
    ],
)
def test_blocks_that_cannot_be_are_refused(changed: dict[str, Any], path: str, words: str) -> None:
    (found,) = problems_of(pool(**changed))
    assert found.path == f"pool.{path}"
    assert words in found.allowed


def test_the_same_block_twice_is_refused() -> None:
    found = problems_of(pool(capacity=several(FIRST, {**SECOND, "reservation": FIRST["reservation"]})))
    assert [problem.path for problem in found] == ["pool.capacity.blocks[1].reservation"]


@pytest.mark.parametrize(
    ("capacity", "path", "words"),
    [
        (several(FIRST, zone="us-east-2a"), "blocks", "blocks, or the fields of a single block"),
        ({"type": "capacity-block", "zone": "us-east-2a"}, "reservation", "reservation and zone of a block"),
        (
            {"type": "capacity-block", "reservation": FIRST["reservation"]},
            "zone",
            "reservation and zone of a block",
        ),
        ({"type": "capacity-block"}, "", "or a list of blocks in `blocks`"),
    ],
)
def test_a_block_has_one_form_or_the_other(capacity: dict[str, Any], path: str, words: str) -> None:
    (found,) = problems_of(pool(capacity=capacity, zones=["us-east-2a"]))
    assert found.path == f"pool.capacity.{path}".rstrip(".")
    assert words in found.allowed


def test_a_block_that_has_not_begun_starts_without_nodes_in_the_reasons_too() -> None:
    _, said = plan_and_decisions(capacity=single(), count={"desired": 4})
    assert said["size"].chosen == "0 at first, then 0 to 4"
    _, said = plan_and_decisions(capacity=single(starts=None), count={"desired": 4})
    assert said["size"].chosen == "4 at first, then 0 to 4"


def test_owners_autoscaler_may_add_nodes_to_a_block() -> None:
    owners = eks(parts={"cluster_autoscaler": "present"})
    _, said = plan_and_decisions(owners, capacity=single(), count={"desired": 4})
    assert "the autoscaler of the cluster's owner may add nodes" in said["size"].why
    assert "even before the block begins" in said["warning: autoscaler"].chosen
    _, said = plan_and_decisions(capacity=single(), count={"desired": 4})
    assert "no autoscaler changes this number" in said["size"].why
    assert "warning: autoscaler" not in said
