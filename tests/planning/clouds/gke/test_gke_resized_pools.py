"""Edits to the number of nodes and to the zones of GKE pools, and sizes that somebody else has set."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import classify, pool_changes, pool_facts
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.impact import Impact
from gpu_platform.planning.changes.live_types import LiveState
from gpu_platform.planning.changes.sizes import size_changes, size_outputs
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform

CLUSTER = {"provider": "gke", "name": "prod", "project": "my-project", "location": "us-central1"}
POOL = {"name": "serve", "machine_type": "g2-standard-48", "workload": "inference"}
SCALED = {"min": 0, "desired": 0, "max": 8}


def plan_of(zones: str, **count: int) -> EnvironmentPlan:
    """Return a plan with a pool of four GPUs per node. `zones` are the letters of its zones."""
    pool = {**POOL, "zones": [f"us-central1-{letter}" for letter in zones], "count": count}
    plan = plan_platform({"kind": "environment", "cluster": CLUSTER, "pools": [pool]}, "test")
    assert plan.kind == "environment"
    return plan


def impacts(
    before: EnvironmentPlan, after: EnvironmentPlan, nodes: int | None = None, **live: Any
) -> list[Impact]:
    """Return the impacts on the pool. `nodes` is its number of live nodes, or None if the cluster was not read."""
    facts = json.loads(json.dumps({"pools": pool_facts(before)}), parse_int=float)
    names = tuple(f"node-{number}" for number in range(nodes or 0))
    state = LiveState(nodes={"serve": names}, **live) if nodes is not None else None
    changes = pool_changes(facts["pools"], after, load_catalog())
    found = classify(facts, after, load_catalog(), live=state, pools=changes)
    return [impact for impact in found if impact.subject == "pool serve"]


def test_fewer_nodes_of_a_fixed_pool_are_announced_as_lost() -> None:
    (found,) = impacts(plan_of("ab", desired=8), plan_of("ab", desired=4), nodes=8)
    assert (found.effect, found.nodes, found.gpus) == (Effect.REMOVES_CAPACITY, 4, 16)
    assert (found.field, found.old, found.new) == ("pools[0].count", "4 per zone", "2 per zone")
    assert found.changes_nodes, "such changes wait for the maintenance window"
    assert found.parts[0].phase.name == "NODES"


@pytest.mark.parametrize("nodes", [None, 4])
def test_more_nodes_of_a_fixed_pool_remove_nothing(nodes: int | None) -> None:
    assert impacts(plan_of("ab", desired=4), plan_of("ab", desired=8), nodes) == []
    assert impacts(plan_of("a", desired=4), plan_of("ab", desired=8), nodes) == []


@pytest.mark.parametrize(("desired", "lost"), [(4, 2), (6, 1)])
def test_a_further_zone_removes_nodes_from_the_zones_that_exist(desired: int, lost: int) -> None:
    (found,) = impacts(plan_of("a", desired=4), plan_of("ab", desired=desired))
    assert (found.effect, found.nodes, found.gpus) == (Effect.REMOVES_CAPACITY, lost, 4 * lost)
    assert found.field == "pools[0].zones"
    assert "write count: {desired: 8} with these zones" in found.because
    assert impacts(plan_of("a", desired=4), plan_of("ab", desired=8)) == [], "the fix"


def test_fewer_zones_with_more_nodes_in_each_announce_the_peak() -> None:
    (found,) = impacts(plan_of("ab", desired=4), plan_of("a", desired=4))
    assert "so the pool has 8 nodes for a while" in found.because
    assert "first deploy these zones with count: {desired: 2}" in found.because
    (first,) = impacts(plan_of("ab", desired=4), plan_of("a", desired=2))
    assert "for a while" not in first.because, "the fix"


@pytest.mark.parametrize(("zones", "kept"), [("a", 7), ("ab", 8)])
def test_a_pool_that_somebody_has_enlarged_is_announced_as_shrunk(zones: str, kept: int) -> None:
    plan = plan_of(zones, desired=4)
    (found,) = impacts(plan, plan, nodes=7)
    assert (found.effect, found.nodes, found.changes_nodes) == (Effect.REMOVES_CAPACITY, 3, True)
    assert f"write count: {{desired: {kept}}}" in found.because
    assert impacts(plan, plan_of(zones, desired=kept), nodes=7) == [], "the fix"
    assert impacts(plan, plan, nodes=5, not_ready=("node-0",)) == [], (
        "the node that is not ready is a replaced instance"
    )


def test_a_pool_without_its_autoscaler_loses_nodes_above_desired() -> None:
    scaled, fixed = plan_of("a", **SCALED), plan_of("a", desired=2)
    (found,) = impacts(scaled, fixed, nodes=7)
    assert (found.effect, found.nodes, found.old) == (Effect.REMOVES_CAPACITY, 5, "7 nodes now")
    (unread,) = impacts(scaled, fixed)
    assert (unread.effect, unread.nodes, unread.old) == (Effect.REMOVES_CAPACITY, 6, "at most 8 nodes")
    assert unread.pods is None
    assert impacts(scaled, fixed, nodes=2) == []


def test_an_autoscaled_pool_keeps_its_nodes() -> None:
    scaled = plan_of("a", **SCALED)
    assert impacts(scaled, scaled, nodes=7) == []
    assert impacts(plan_of("a", desired=4), scaled, nodes=4)[0].effect is Effect.IN_PLACE


def test_an_edit_of_desired_changes_no_autoscaled_pool() -> None:
    before, after = plan_of("a", **SCALED), plan_of("a", **{**SCALED, "desired": 4})
    (found,) = impacts(before, after)
    assert (found.effect, found.changes_nodes) == (Effect.IN_PLACE, False)
    assert "changes no nodes" in found.because
    assert size_changes(size_outputs(before), after) == ()


def test_a_replaced_autoscaled_pool_starts_with_desired() -> None:
    before = plan_of("a", **SCALED)
    pool = {**POOL, "zones": ["us-central1-a"], "count": {**SCALED, "desired": 4}, "capacity": {"type": "spot"}}
    after = plan_platform({"kind": "environment", "cluster": CLUSTER, "pools": [pool]}, "test")
    assert after.kind == "environment"
    changes = pool_changes(pool_facts(before), after, load_catalog())
    assert "pool serve: nodes 0 → 4" in map(str, size_changes(size_outputs(before), after, changes))
    assert all("changes no nodes" not in one.because for one in impacts(before, after))
