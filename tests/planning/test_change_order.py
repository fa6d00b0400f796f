"""The order of the changes that `up` makes. Some are made before the engine runs, others in parallel in the
engine, and deletions come last.
"""

from __future__ import annotations

import json
from typing import Any

from gpu_platform.catalog import load_catalog
from gpu_platform.cli.impact import order_lines
from gpu_platform.planning.changes.classify import classify
from gpu_platform.planning.changes.deployed import software_facts, team_facts
from gpu_platform.planning.changes.impact import Impact, MigNodeChange, ObjectChange
from gpu_platform.planning.changes.live_types import LiveState
from gpu_platform.planning.changes.order import Step, has_an_order, order_of, step_of, without_objects
from gpu_platform.planning.changes.pool_facts import pool_facts
from gpu_platform.planning.changes.pools import pool_changes
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.support.cloud_plans import environment, filled, on_cloud

EKS = filled(EksClusterPlan, name="ml", region="us-east-2")
TEAM = {"name": "vision", "quota": {"gpus": 2}, "priority": "training", "members": ["group:a"]}
VALIDATED = (("nodes",), "validated, for at most 15 min")


def pool(name: str, **rest: Any) -> dict[str, Any]:
    return {
        "name": name,
        "machine_type": "p4de.24xlarge",
        "count": {"desired": 1},
        "workload": "development",
        **rest,
    }


def sandbox(*pools: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    document = {"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": list(pools), **rest}
    plan = plan_platform(document, "test")
    assert plan.kind == "environment"
    return plan


def eks(*names: str, **fields: Any) -> EnvironmentPlan:
    group = filled(EksPoolPlan, node_group="train", instance_type="p4de.24xlarge", **fields)
    return on_cloud(environment(dict.fromkeys(names, 4)), EKS, **dict.fromkeys(names, group))


def ordered(
    before: EnvironmentPlan, after: EnvironmentPlan, **rest: Any
) -> tuple[tuple[Impact, ...], tuple[Step, ...]]:
    facts = {"pools": pool_facts(before), "software": software_facts(before), "teams": team_facts(before)}
    outputs = json.loads(json.dumps(facts))
    pools = pool_changes(outputs["pools"], after, load_catalog())
    arguments: dict[str, Any] = {"live": LiveState(), "pools": pools, **rest}
    found = classify(outputs, after, load_catalog(), **arguments)
    return found, order_of(found, after, outputs)


def entries(steps: tuple[Step, ...]) -> list[tuple[int, tuple[str, ...], str]]:
    return [(step.number, step.subjects, step.text) for step in steps]


def test_layouts_come_first_then_new_pools_then_validation_and_deletions_last() -> None:
    mig = {"mode": "mig", "layout": {"1g.10gb": 7}}
    before = sandbox(pool("lab", sharing=mig), pool("serve", count={"desired": 2}))
    after = sandbox(pool("lab", sharing={"mode": "mig", "layout": {"3g.40gb": 2}}), pool("infer"))
    change = MigNodeChange(node="lab-0", pool="lab", old="a", new="b", at_a_time=1)
    impacts, steps = ordered(before, after, mig=[change])
    assert entries(steps) == [
        (1, ("pool lab",), "MIG layout, node by node"),
        (2, ("pool infer",), "created"),
        (3, *VALIDATED),
        (4, ("pool serve",), "deleted"),
    ]
    assert {impact.subject: step_of(impact, steps) for impact in impacts} == {
        "pool lab": 1,
        "pool serve": 4,
        "resources": None,
    }
    assert has_an_order(steps)


def test_pools_with_the_same_change_are_named_together() -> None:
    _, steps = ordered(
        sandbox(pool("a"), pool("b"), pool("c", count={"desired": 2})), sandbox(pool("c", count={"desired": 2}))
    )
    assert [str(step) for step in steps] == ["pools a, b: deleted"]


def test_a_pool_that_is_created_first_is_in_two_steps() -> None:
    [impact], steps = ordered(eks("train", capacity_type="ON_DEMAND"), eks("train", capacity_type="SPOT"))
    assert entries(steps) == [
        (1, ("pool train",), "the new pool is created"),
        (2, *VALIDATED),
        (3, ("pool train",), "the old pool is deleted"),
    ]
    assert step_of(impact, steps) == 1
    assert not has_an_order(steps)


def test_a_pool_without_capacity_for_two_is_deleted_before_creation() -> None:
    first = {"delete_before_replace": True}
    _, steps = ordered(
        eks("train", capacity_type="ON_DEMAND", **first), eks("train", capacity_type="SPOT", **first)
    )
    assert entries(steps) == [(1, ("pool train",), "deleted, then created again"), (2, *VALIDATED)]


def test_a_renamed_pool_is_created_under_its_new_name_and_deleted_under_the_old_one() -> None:
    _, steps = ordered(sandbox(pool("old")), sandbox(pool("new")))
    assert entries(steps) == [(1, ("pool new",), "created"), (2, *VALIDATED), (3, ("pool old",), "deleted")]


def test_drivers_operator_and_rolled_pools_are_changed_side_by_side() -> None:
    drivers = load_catalog().operator_releases["v26.7.0"].drivers
    before, after = (sandbox(pool("a"), pool("b"), operator={"driver": {"version": one}}) for one in drivers[:2])
    _, steps = ordered(before, after)
    assert [str(step) for step in steps] == [
        "pools a, b: the operator replaces the driver, node by node",
        "nodes: validated, for at most 15 min",
    ]


def test_the_sandbox_gets_its_kubernetes_version_before_layouts_change() -> None:
    def lab(layout: str, kubernetes: str) -> EnvironmentPlan:
        cluster = {"provider": "sandbox", "kubernetes": kubernetes}
        return sandbox(pool("lab", sharing={"mode": "mig", "layout": {layout: 2}}), cluster=cluster)

    change = MigNodeChange(node="lab-0", pool="lab", old="a", new="b", at_a_time=1)
    _, steps = ordered(lab("1g.10gb", "1.35"), lab("3g.40gb", "1.36"), mig=[change])
    assert entries(steps)[:2] == [
        (1, ("cluster",), "Kubernetes 1.36"),
        (2, ("pool lab",), "MIG layout, node by node"),
    ]


def test_teams_change_after_validation_and_leaving_teams_last() -> None:
    other = {**TEAM, "name": "speech"}
    before = sandbox(pool("train"), pool("old", count={"desired": 2}), teams=[TEAM, other])
    after = sandbox(pool("train"), pool("new", count={"desired": 3}), teams=[{**TEAM, "quota": {"gpus": 1}}])
    deleted = ObjectChange(action="delete", kind="DaemonSet.apps", namespace="gpu-monitoring", name="exporter")
    _, steps = ordered(before, after, objects=[deleted])
    phases = {subject: step.number for step in steps for subject in step.subjects}
    assert phases["pool new"] < phases["nodes"] < phases["team vision"] < phases["pool old"]
    assert phases["pool old"] == phases["team speech"] == phases["DaemonSet gpu-monitoring/exporter"]
    shown = {subject for step in without_objects(steps) for subject in step.subjects}
    assert shown == phases.keys() - {"DaemonSet gpu-monitoring/exporter"}


def test_a_stack_without_changes_has_no_steps() -> None:
    assert ordered(sandbox(pool("train")), sandbox(pool("train"))) == ((), ())


def test_a_deployment_that_lists_no_pools_tells_of_no_new_ones() -> None:
    plan = sandbox(pool("train"), teams=[TEAM])
    outputs = {"teams": {"gone": {"members": ["Group a"]}}}
    found = classify(outputs, plan, load_catalog(), live=None)
    assert [str(step) for step in order_of(found, plan, outputs)] == [
        "team gone: its rights are deleted, and also its namespace if it contains no data"
    ]


def test_the_printed_list_has_no_gap_where_a_step_has_objects_alone() -> None:
    steps = (
        Step(1, ("pool a",), "created"),
        Step(2, ("Deployment web",), "changed"),
        Step(3, ("pool b",), "deleted"),
    )
    assert order_lines(steps) == ["order", "  1. pool a: created", "  2. pool b: deleted"]
