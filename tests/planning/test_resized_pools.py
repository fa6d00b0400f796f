"""Edits of the number of nodes of EKS pools, and rolls of capacity blocks, which must have no nodes."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import classify, pool_changes, pool_facts, resized_pools
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.impact import Impact
from gpu_platform.planning.changes.live import LiveState
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools import ended_capacity
from tests.support.eks_stacks import CREATED, plan_eks

BLOCK = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
RESERVATION = {"type": "reservation", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}


def plan_of(count: dict[str, int], kubernetes: str = "1.34", **pool: Any) -> EnvironmentPlan:
    place = {} if "capacity" in pool else {"zones": ["us-east-2a"]}
    return plan_eks({"count": count, **place, **pool}, cluster={**CREATED, "kubernetes": kubernetes})


def impacts(before: EnvironmentPlan, after: EnvironmentPlan, nodes: int | None = None) -> list[Impact]:
    """Return the rows of pools; `nodes`: those of the pool in the cluster, None: it was not read."""
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
def test_another_maximum_takes_nothing_away_from_a_pool_that_has_at_most_desired_nodes(nodes: int | None) -> None:
    assert impacts(plan_of({"desired": 2, "max": 8}), plan_of({"desired": 2, "max": 10}), nodes) == []


def test_an_edit_of_the_maximum_deletes_the_nodes_that_an_autoscaler_has_created_and_says_how_to_keep_them() -> (
    None
):
    (found,) = impacts(plan_of({"desired": 2, "max": 8}), plan_of({"desired": 2, "max": 10}), nodes=6)
    assert (found.effect, found.nodes, found.gpus) == (Effect.REMOVES_CAPACITY, 4, 32)
    assert "write desired: 6 to keep them" in found.because


def test_the_nodes_that_an_autoscaler_has_created_stay_where_the_count_is_not_edited() -> None:
    assert impacts(plan_of({"desired": 2, "max": 8}), plan_of({"desired": 2, "max": 8}), nodes=6) == []


def test_only_pools_with_another_count_are_resized() -> None:
    before = json.loads(json.dumps(dict(pool_facts(plan_of({"desired": 2, "max": 8})))), parse_int=float)
    assert resized_pools(before, plan_of({"desired": 2, "max": 8})) == ()
    for count in ({"desired": 3, "max": 8}, {"desired": 2, "max": 9}, {"min": 1, "desired": 2, "max": 8}):
        assert resized_pools(before, plan_of(count)) == ("train",)
    del before["train"]["least_nodes"]
    assert resized_pools(before, plan_of({"desired": 2, "max": 8})) == (), "of an older release"


# -- capacity blocks --------------------------------------------------------------------------------------


def upgrade(desired: int, nodes: int | None = None, capacity: dict[str, Any] = BLOCK) -> Impact:
    count = {"desired": desired, "max": 2}
    (found,) = impacts(
        plan_of(count, capacity=capacity), plan_of(count, kubernetes="1.35", capacity=capacity), nodes
    )
    assert found.effect is Effect.ROLLS_NODES
    return found


@pytest.mark.parametrize(("desired", "nodes"), [(2, None), (2, 2), (0, 1)])
def test_an_upgrade_of_a_capacity_block_with_nodes_is_refused_with_the_steps_that_work(
    desired: int, nodes: int | None
) -> None:
    found = upgrade(desired, nodes)
    assert found.refusal is not None
    assert "must have desired size 0 while EKS updates it" in found.refusal.allowed
    assert "so `up` refuses" in found.because
    assert "set pools[0].count.desired: 0 and min: 0 and run `gpu-platform up test`" in found.refusal.fix


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
