"""Changed node counts of EKS pools, and updates of capacity blocks, which are refused while a block has nodes."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import (
    classify,
    pool_changes,
    pool_facts,
    resized_node_groups,
    resized_pools,
)
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.impact import Impact
from gpu_platform.planning.changes.live_types import LiveState
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools import capacity_gaps, ended_capacity
from tests.support.eks_stacks import CREATED, plan_eks

BLOCK = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
RESERVATION = {"type": "reservation", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}


def plan_of(count: dict[str, int], kubernetes: str = "1.34", **pool: Any) -> EnvironmentPlan:
    place = {} if "capacity" in pool else {"zones": ["us-east-2a"]}
    return plan_eks({"count": count, **place, **pool}, cluster={**CREATED, "kubernetes": kubernetes})


def impacts(before: EnvironmentPlan, after: EnvironmentPlan, nodes: int | None = None) -> list[Impact]:
    """Return the impacts on pools. `nodes` is the number of live nodes of the pool, or None if it was not read."""
    facts = json.loads(json.dumps({"pools": pool_facts(before)}), parse_int=float)
    names = tuple(f"node-{number}" for number in range(nodes or 0))
    live = LiveState(nodes={"train": names}, pods=(), data={}) if nodes is not None else None
    pools = pool_changes(facts["pools"], after, load_catalog())
    found = classify(facts, after, load_catalog(), live=live, pools=pools)
    return [impact for impact in found if impact.subject == "pool train"]


def test_fewer_desired_nodes_are_announced_as_lost() -> None:
    (found,) = impacts(plan_of({"desired": 4}), plan_of({"desired": 2}))
    assert (found.effect, found.nodes, found.gpus) == (Effect.REMOVES_CAPACITY, 2, 16)
    assert found.field == "pools[0].count.desired"
    assert found.parts[0].phase.name == "NODES"
    assert str(found.duration).startswith("at most 6 h (the engine's limit for the update of the pool)")


def test_nodes_that_are_lost_are_announced_beside_the_roll_of_the_others() -> None:
    found = impacts(plan_of({"desired": 4}), plan_of({"desired": 2}, machine_type="p5en.48xlarge"))
    assert [(one.effect, one.gpus) for one in found] == [(Effect.REMOVES_CAPACITY, 16), (Effect.ROLLS_NODES, 32)]


def test_more_desired_nodes_take_nothing_away() -> None:
    assert impacts(plan_of({"desired": 2}), plan_of({"desired": 4}), nodes=2) == []


@pytest.mark.parametrize("nodes", [None, 1, 2])
def test_a_lower_maximum_removes_nothing_from_a_small_pool(nodes: int | None) -> None:
    assert impacts(plan_of({"desired": 2, "max": 8}), plan_of({"desired": 2, "max": 10}), nodes) == []


def test_a_lower_maximum_deletes_nodes_and_explains_how_to_keep_them() -> None:
    (found,) = impacts(plan_of({"desired": 2, "max": 8}), plan_of({"desired": 2, "max": 10}), nodes=6)
    assert (found.effect, found.nodes, found.gpus) == (Effect.REMOVES_CAPACITY, 4, 32)
    assert "write desired: 6 to keep them" in found.because


def test_autoscaled_nodes_stay_if_the_count_is_not_edited() -> None:
    assert impacts(plan_of({"desired": 2, "max": 8}), plan_of({"desired": 2, "max": 8}), nodes=6) == []


def test_only_pools_with_another_count_are_resized() -> None:
    before = json.loads(json.dumps(dict(pool_facts(plan_of({"desired": 2, "max": 8})))), parse_int=float)
    assert resized_pools(before, plan_of({"desired": 2, "max": 8})) == ()
    for count in ({"desired": 3, "max": 8}, {"desired": 2, "max": 9}, {"min": 1, "desired": 2, "max": 8}):
        assert resized_pools(before, plan_of(count)) == ("train",)
    del before["train"]["least_nodes"]
    assert resized_pools(before, plan_of({"desired": 2, "max": 8})) == (), "the output of an older release"


# -- capacity blocks --------------------------------------------------------------------------------------


def upgrade(desired: int, nodes: int | None = None, capacity: dict[str, Any] = BLOCK) -> Impact:
    count = {"desired": desired, "max": 2}
    (found,) = impacts(
        plan_of(count, capacity=capacity), plan_of(count, kubernetes="1.35", capacity=capacity), nodes
    )
    assert found.effect is Effect.ROLLS_NODES
    return found


@pytest.mark.parametrize(("desired", "nodes"), [(2, None), (2, 2), (0, 1)])
def test_an_upgrade_of_a_capacity_block_with_nodes_is_refused(desired: int, nodes: int | None) -> None:
    found = upgrade(desired, nodes)
    assert found.refusal is not None
    assert "must have desired size 0 while EKS updates it" in found.refusal.allowed
    assert "so `up` refuses" in found.because
    assert (
        "set pools[0].count.desired: 0 and min: 0, and run `up`; then make the change again" in found.refusal.fix
    )


@pytest.mark.parametrize(("desired", "nodes"), [(0, None), (0, 0), (2, 0)])
def test_an_upgrade_of_a_capacity_block_without_nodes_is_allowed(desired: int, nodes: int | None) -> None:
    assert upgrade(desired, nodes).refusal is None


def test_an_upgrade_of_a_reservation_is_allowed() -> None:
    assert upgrade(2, 2, RESERVATION).refusal is None


@pytest.mark.parametrize(
    ("now", "desired", "refused"),
    [
        ("2026-12-14T11:29:59+00:00", 2, False),
        ("2026-12-14T11:30:00+00:00", 2, True),
        ("2026-12-14T11:30:00+00:00", 0, False),
        ("2026-12-14T12:00:00+01:00", 2, False),
    ],
)
def test_desired_nodes_on_a_block_that_has_ended_are_refused(now: str, desired: int, refused: bool) -> None:
    plan = plan_of({"desired": desired, "max": 2}, capacity={**BLOCK, "ends": "2026-12-14T11:30:00Z"})
    found = ended_capacity(plan.pools, datetime.fromisoformat(now))
    assert [problem.path for problem in found] == (["pools[0].capacity.ends"] if refused else [])


def test_capacity_without_an_end_never_ends() -> None:
    far = datetime.fromisoformat("2999-01-01T00:00:00+00:00")
    assert ended_capacity(plan_of({"desired": 2}).pools, far) == ()


def test_a_capacity_block_may_shrink_to_no_nodes() -> None:
    (found,) = impacts(
        plan_of({"desired": 2}, capacity=BLOCK), plan_of({"min": 0, "desired": 0, "max": 2}, capacity=BLOCK), 2
    )
    assert (found.effect, found.refusal) == (Effect.REMOVES_CAPACITY, None)


# -- blocks with a start ----------------------------------------------------------------------------------

FIRST = {**BLOCK, "starts": "2026-12-01T11:30:00Z", "ends": "2026-12-14T11:30:00Z"}
SECOND = {
    "reservation": "cr-1a1b2c3d4e5f60718",
    "zone": "us-east-2b",
    "starts": "2026-12-14T11:30:00Z",
    "ends": "2026-12-21T11:30:00Z",
}
BEFORE, DURING, DRAINED, HANDED_OVER, AFTER = (
    datetime.fromisoformat(when)
    for when in (
        "2026-11-25T00:00:00+00:00",
        "2026-12-05T00:00:00+00:00",
        "2026-12-14T10:50:00+00:00",
        "2026-12-15T00:00:00+00:00",
        "2026-12-22T00:00:00+00:00",
    )
)
EARLIEST, LATER = "train-0a1b2c3d4e5f60718", "train-1a1b2c3d4e5f60718"


def blocks_of(*blocks: dict[str, Any], desired: int = 2) -> EnvironmentPlan:
    entries = [{key: value for key, value in block.items() if key != "type"} for block in blocks]
    capacity = {"type": "capacity-block", "blocks": entries}
    return plan_of({"desired": desired, "max": 4}, capacity=capacity)


def deployed(plan: EnvironmentPlan) -> dict[str, Any]:
    return json.loads(json.dumps(dict(pool_facts(plan))), parse_int=float)


@pytest.mark.parametrize(
    ("now", "resized"),
    [(BEFORE, ()), (DURING, (EARLIEST,)), (DRAINED, ()), (HANDED_OVER, (LATER,)), (AFTER, ())],
)
def test_an_edit_of_count_acts_on_the_block_that_has_nodes_and_on_no_other(
    now: datetime, resized: tuple[str, ...]
) -> None:
    before = deployed(blocks_of(FIRST, SECOND))
    assert resized_node_groups(before, blocks_of(FIRST, SECOND), now) == ()
    assert resized_node_groups(before, blocks_of(FIRST, SECOND, desired=3), now) == resized


def test_up_starts_the_nodes_of_a_block_that_has_begun() -> None:
    assert resized_node_groups({}, blocks_of(FIRST), DURING) == (EARLIEST,)
    assert resized_node_groups({}, blocks_of(FIRST), BEFORE) == (), "the schedule starts them"
    assert resized_node_groups(deployed(blocks_of(FIRST)), blocks_of(FIRST, SECOND), HANDED_OVER) == (LATER,)
    moved = {**FIRST, "starts": "2026-12-06T11:30:00Z"}
    assert resized_node_groups(deployed(blocks_of(moved)), blocks_of(FIRST), DURING) == (EARLIEST,)


def test_another_start_keeps_the_nodes_of_a_running_block() -> None:
    count = {"desired": 2, "max": 4}
    before = deployed(plan_of(count, capacity=BLOCK))
    assert resized_node_groups(before, plan_of(count, capacity=FIRST), DURING) == ()
    del before["train"]["windows"]
    assert resized_node_groups(before, plan_of(count, capacity=FIRST), DURING) == (), (
        "the output of an older release"
    )


def hand_over(before: EnvironmentPlan, after: EnvironmentPlan, now: datetime) -> list[tuple[str, int]]:
    return [(one.effect, one.gpus) for one in pool_changes(deployed(before), after, load_catalog(), now)]


def test_a_block_that_is_added_takes_nothing_away() -> None:
    assert hand_over(blocks_of(FIRST), blocks_of(FIRST, SECOND), DURING) == []
    alone = plan_of({"desired": 2, "max": 4}, capacity=FIRST)
    assert hand_over(alone, blocks_of(FIRST, SECOND), DURING) == []


@pytest.mark.parametrize(("now", "lost"), [(DURING, 16), (BEFORE, 0), (HANDED_OVER, 0)])
def test_a_block_that_is_removed_takes_nodes_away_only_while_it_has_some(now: datetime, lost: int) -> None:
    found = hand_over(blocks_of(FIRST, SECOND), blocks_of(SECOND), now)
    assert found == ([("shrunk", lost)] if lost else [])


def test_the_removal_of_the_block_that_runs_is_announced_with_its_field() -> None:
    (found,) = pool_changes(deployed(blocks_of(FIRST, SECOND)), blocks_of(SECOND), load_catalog(), DURING)
    (cause,) = found.causes
    assert (cause.field, cause.old) == ("pools[0].capacity.blocks", FIRST["reservation"])
    assert "each block has a separate node group" in cause.because


def test_fewer_desired_nodes_before_a_block_begins_take_nothing_away() -> None:
    before, after = blocks_of(FIRST, desired=3), blocks_of(FIRST, desired=2)
    assert hand_over(before, after, BEFORE) == []
    assert hand_over(before, after, DURING) == [("shrunk", 8)]


def test_a_pool_of_blocks_has_ended_with_its_last_one() -> None:
    pools = blocks_of(FIRST, SECOND).pools
    assert ended_capacity(pools, HANDED_OVER) == ()
    (found,) = ended_capacity(pools, AFTER)
    assert found.path == "pools[0].capacity.blocks"


def test_a_gap_between_two_blocks_is_a_warning() -> None:
    assert capacity_gaps(blocks_of(FIRST, SECOND).pools) == ()
    later = {**SECOND, "starts": "2026-12-16T11:30:00Z"}
    (warning,) = capacity_gaps(blocks_of(FIRST, later).pools)
    assert warning.startswith("pools[0].capacity.blocks: pool train has no nodes from 2026-12-14T10:50:00Z")
    assert warning.endswith("to 2026-12-16T11:30:00Z, when cr-1a1b2c3d4e5f60718 begins")
