"""How a change affects the size of pools, the cost and the quotas."""

from __future__ import annotations

import json
from typing import Any

from gpu_platform.planning.changes.sizes import size_changes, size_outputs
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform

VISION = {"name": "vision", "quota": {"gpus": 8, "cpu": 100}, "priority": "training", "members": ["group:vision"]}
AUDIO = {**VISION, "name": "audio", "members": ["group:audio"]}


def plan_of(nodes: int, *teams: dict[str, Any]) -> EnvironmentPlan:
    pool = {"name": "train", "machine_type": "p5.48xlarge", "count": {"desired": nodes}, "workload": "training"}
    document = {"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": [pool], "teams": list(teams)}
    plan = plan_platform(document, "test")
    assert plan.kind == "environment"
    return plan


def sizes(before: EnvironmentPlan, after: EnvironmentPlan) -> dict[tuple[str, str], tuple[str, str]]:
    outputs = json.loads(json.dumps(size_outputs(before)), parse_int=float)
    return {(one.subject, one.what): (one.old, one.new) for one in size_changes(outputs, after)}


def test_one_more_node_shows_its_gpus_and_the_cost_of_a_month() -> None:
    found = sizes(plan_of(2), plan_of(3))
    old, new = (float(text.replace(",", "")) for text in found.pop(("cost", "USD a month")))
    assert new - old > 30_000
    assert found == {("pool train", "nodes"): ("2", "3"), ("pool train", "GPUs"): ("16", "24")}


def test_added_removed_and_changed_quotas_of_teams_are_shown() -> None:
    raised = {**VISION, "quota": {"gpus": 16, "cpu": 100}}
    assert sizes(plan_of(3, VISION), plan_of(3, raised, AUDIO)) == {
        ("team vision", "quota"): ("gpu: 8", "gpu: 16"),
        ("team audio", "quota"): ("(none)", "gpu: 8, cpu: 100"),
    }
    assert sizes(plan_of(3, VISION, AUDIO), plan_of(3, VISION)) == {
        ("team audio", "quota"): ("gpu: 8, cpu: 100", "(none)"),
    }


def test_an_unchanged_or_new_stack_has_no_changed_sizes() -> None:
    assert sizes(plan_of(2, VISION), plan_of(2, VISION)) == {}
    assert size_changes({}, plan_of(2, VISION)) == ()
