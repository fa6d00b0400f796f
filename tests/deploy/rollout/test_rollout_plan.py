"""The nodes that a new plan would change, and the pods that run on them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.deploy.rollout.annotations import RolloutAnnotation
from gpu_platform.deploy.rollout.plan import LiveCluster, Rollout, plan_rollout
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.changes.budgets import DisruptionBudget
from tests.deploy.rollout.live_objects import NEW, OLD, OLD_CONFIG, lab, node, owned_by, planned, pod


def wanted(plan: EnvironmentPlan) -> str:
    return plan.pools[0].labels[names.MIG_CONFIG_LABEL]


def rollout(plan: EnvironmentPlan, *nodes: dict[str, Any], pods: tuple[dict[str, Any], ...] = ()) -> Rollout:
    return plan_rollout(plan, LiveCluster(nodes, pods, OLD))


def cordoned_by(stack: str) -> dict[str, Any]:
    text = RolloutAnnotation(stack, "lab-fedcba9876").to_text()
    return {"annotations": {names.MIG_ROLLOUT_ANNOTATION: text}, "unschedulable": True}


def owned(name: str, on: str = "lab-0") -> dict[str, Any]:
    """Return a pod that a drain evicts."""
    return pod(name, on=on, metadata={**owned_by("ReplicaSet"), "labels": {"app": name}})


def budget(app: str, **rest: Any) -> DisruptionBudget:
    numbers: dict[str, Any] = {"healthy": 0, "needed": 1, "expected": 2, **rest}
    return DisruptionBudget(
        namespace="vision",
        name=f"guard-{app}",
        rule="minAvailable: 1",
        selector={"matchLabels": {"app": app}},
        **numbers,
    )


def test_only_nodes_with_another_layout_are_drained() -> None:
    plan = planned()
    found = rollout(plan, node("lab-0"), node("lab-1", wanted(plan)))
    [change] = found.changes
    assert (change.node, change.drains, change.begun) == ("lab-0", True, False)
    assert (change.old, change.new) == ("8 GPUs: 1g.10gb x7", "8 GPUs: 1g.10gb x1 + 2g.20gb x3")
    assert change.labels == {names.MIG_CONFIG_LABEL: wanted(plan), names.DEVICE_PLUGIN_CONFIG_LABEL: wanted(plan)}
    assert change.allocatable == {"nvidia.com/mig-2g.20gb": 24, "nvidia.com/mig-1g.10gb": 8}
    assert list(found.configs) == [wanted(plan)]
    assert rollout(plan, node("lab-0", wanted(plan))).pools == (), "a pool without changes is not rolled out"


def test_the_gpu_pods_of_each_node_are_named_and_others_are_not() -> None:
    pods = (
        pod("train", on="lab-0", gpus=2),
        pod("web", on="lab-0", gpus=0),
        pod("done", on="lab-0", phase="Succeeded"),
        pod("elsewhere", on="train-0"),
    )
    [change] = rollout(planned(), node("lab-0"), pods=pods).changes
    assert [str(one) for one in change.pods] == ["vision/train (2 x nvidia.com/mig-1g.10gb)"]


def test_nodes_are_ordered_by_begun_then_empty_then_fewest_pods() -> None:
    names_of = ("lab-0", "lab-1", "lab-2", "lab-3")
    plan = planned(lab(count={"desired": 4}))
    nodes = [node(name, **(cordoned_by("test") if name == "lab-3" else {})) for name in names_of]
    pods = (pod("a", on="lab-0"), pod("b", on="lab-0"), pod("c", on="lab-1"), pod("d", on="lab-3"))
    changes = rollout(plan, *nodes, pods=pods).changes
    assert [change.node for change in changes] == ["lab-3", "lab-2", "lab-1", "lab-0"]
    assert [change.begun for change in changes] == [True, False, False, False]


def test_drainable_nodes_come_before_nodes_blocked_by_budgets() -> None:
    plan = planned(lab(count={"desired": 3}))
    pods = (owned("never", on="lab-0"), owned("later", on="lab-1"), *(owned("free", on="lab-2") for _ in range(3)))
    budgets = (budget("never", expected=1), budget("later"))
    live = LiveCluster([node(f"lab-{index}") for index in range(3)], pods, OLD, budgets)
    [pool] = plan_rollout(plan, live).pools
    assert [(change.node, change.obstacle) for change in pool.changes] == [
        ("lab-2", 0),
        ("lab-1", 1),
        ("lab-0", 2),
    ]
    never = "stays unchanged: a disruption budget never allows an eviction"
    assert [change.remark(pool.rules) for change in pool.changes] == ["", "", never]


def test_a_pod_without_a_controller_is_announced_and_its_node_comes_last() -> None:
    pods = (pod("bare", on="lab-0"), owned("a", on="lab-1"), owned("b", on="lab-1"))
    [pool] = rollout(planned(), node("lab-0"), node("lab-1"), pods=pods).pools
    assert [change.node for change in pool.changes] == ["lab-1", "lab-0"]
    assert (
        pool.changes[1].remark(pool.rules)
        == "stays unchanged, because no controller manages these pods: vision/bare"
    )


def test_the_same_layout_under_another_name_drains_no_node() -> None:
    plan = planned(lab(sharing={"mode": "mig", "layout": {"1g.10gb": 7}}))
    found = rollout(plan, node("lab-0"), pods=(pod("a", on="lab-0"),))
    assert [change.drains for change in found.changes] == [False]
    assert found.drained == ()


def test_the_same_layout_written_gpu_by_gpu_drains_no_node() -> None:
    layouts = [
        {"devices": [0, 1, 2, 3], "layout": {"1g.10gb": 7}},
        {"devices": [4, 5, 6, 7], "layout": {"1g.10gb": 7}},
    ]
    plan = planned(lab(sharing={"mode": "mig", "layouts": layouts}))
    assert [change.drains for change in rollout(plan, node("lab-0")).changes] == [False]


def test_a_node_without_the_label_counts_as_one_with_mig_disabled() -> None:
    cut = rollout(planned(), node("lab-0", None)).changes
    assert [(change.drains, change.old) for change in cut] == [(True, "8 GPUs: MIG disabled")]
    whole = rollout(planned(lab(sharing={"mode": "none"})), node("lab-0", None)).changes
    assert [change.drains for change in whole] == [False]


def test_disabling_mig_drains_the_node() -> None:
    [change] = rollout(planned(lab(sharing={"mode": "none"})), node("lab-0")).changes
    assert (change.drains, change.new, change.config) == (True, "8 GPUs: MIG disabled", "all-disabled")


def test_a_layout_missing_in_the_live_config_counts_as_different() -> None:
    [change] = rollout(planned(), node("lab-0", "by-hand")).changes
    assert (change.drains, change.old) == (True, "config by-hand")


def test_the_planned_layout_is_not_assumed_if_the_live_config_lacks_it() -> None:
    plan = planned()
    [change] = rollout(plan, node("lab-0", wanted(plan), state="failed")).changes
    assert change.old == f"config {wanted(plan)} (failed)"


def test_a_node_that_failed_on_the_plans_own_layout_is_tried_again() -> None:
    plan = planned()
    failed = rollout(plan, node("lab-0", wanted(plan), state="failed")).changes
    assert [(change.drains, change.begun) for change in failed] == [(True, False)]
    offered = {"nvidia.com/mig-2g.20gb": "24", "nvidia.com/mig-1g.10gb": "8"}
    assert rollout(plan, node("lab-0", wanted(plan), state="failed", allocatable=offered)).changes == ()


def in_state(state: str, since: str) -> dict[str, Any]:
    """Return a node whose MIG manager has been in this state since a given time."""
    plan = planned()
    live = node("lab-0", wanted(plan), state=state)
    owned = {"f:metadata": {"f:labels": {f"f:{names.MIG_STATE_LABEL}": {}}}}
    live["metadata"]["managedFields"] = [
        {"manager": "mig", "operation": "Update", "time": since, "fieldsV1": owned}
    ]
    return live


@pytest.mark.parametrize("state", ["pending", "rebooting"])
@pytest.mark.parametrize(("since", "stuck"), [("2026-11-28T03:31:00Z", False), ("2026-11-28T03:29:00Z", True)])
def test_a_manager_without_a_result_for_half_an_hour_is_tried_again(state: str, since: str, stuck: bool) -> None:
    plan, now = planned(), datetime(2026, 11, 28, 4, tzinfo=UTC)
    changes = plan_rollout(plan, LiveCluster([in_state(state, since)], configs=OLD), now).changes
    assert [(one.stuck, one.failed, one.drains) for one in changes] == ([(True, True, True)] if stuck else [])


def test_an_abandoned_change_is_retried_at_once() -> None:
    plan = planned()
    config = wanted(plan)
    given_up = RolloutAnnotation("test", config, "state of its MIG manager is pending").to_text()
    waiting = RolloutAnnotation("test", config).to_text()
    for text, stuck in ((given_up, True), (waiting, False)):
        live = node("lab-0", config, state="pending", annotations={names.MIG_ROLLOUT_ANNOTATION: text})
        assert [one.stuck for one in rollout(plan, live).changes] == [stuck]


def test_missing_efa_interfaces_are_no_failed_layout() -> None:
    eks = {"provider": "eks", "name": "ml", "region": "us-east-2"}
    plan = planned(lab(network={"rdma": True}, zones=["us-east-2a"]), cluster=eks)
    assert plan.pools[0].node_expectation.allocatable["vpc.amazonaws.com/efa"] == 4
    offered = {"nvidia.com/mig-2g.20gb": "24", "nvidia.com/mig-1g.10gb": "8"}
    assert rollout(plan, node("lab-0", wanted(plan), state="failed", allocatable=offered)).changes == ()


def test_a_node_that_another_stack_has_cordoned_was_not_begun_by_this_one() -> None:
    plan = planned()
    assert rollout(plan, node("lab-0", wanted(plan), **cordoned_by("other"))).changes == ()
    assert [one.begun for one in rollout(plan, node("lab-0", wanted(plan), **cordoned_by("test"))).changes] == [
        True
    ]


def test_nodes_unavailable_for_other_reasons_count_against_the_limit() -> None:
    plan = planned(lab(count={"desired": 4}))
    nodes = [
        node("lab-0", **cordoned_by("test")),
        node("lab-1", unschedulable=True),
        node("lab-2", wanted(plan), ready=False),
        node("lab-3"),
    ]
    [pool] = rollout(plan, *nodes).pools
    assert pool.elsewhere == ("lab-1", "lab-2")
    assert {change.node: change.out for change in pool.changes} == {"lab-0": True, "lab-1": True, "lab-3": False}


def test_without_an_operator_no_label_cuts_a_gpu() -> None:
    assert plan_rollout(planned(), LiveCluster([node("lab-0")], (), None)).changes == ()


@pytest.mark.parametrize(
    ("nodes", "changed"),
    [
        ({"names": ["lab-0"]}, ["lab-0"]),
        ({"selector": {"gpu-platform.dev/pool": "lab"}}, []),
    ],
)
def test_on_an_existing_cluster_only_nodes_that_the_program_labels_are_changed(
    nodes: dict[str, Any], changed: list[str]
) -> None:
    plan = planned(lab(nodes=nodes, count={"desired": 1}), cluster={"provider": "existing", "name": "ours"})
    found = rollout(plan, node("lab-0"), node("lab-1"))
    assert [change.node for change in found.changes] == changed


EKS = {
    "provider": "eks",
    "name": "ml",
    "region": "us-east-2",
    "kubernetes": "1.34",
    "create": {"admins": ["arn:aws:iam::123456789012:role/a"]},
}


@pytest.mark.parametrize(
    ("more", "changed"),
    [
        ({}, ["lab-0"]),
        ({"image": {"family": "al2023", "ami": "ami-0123456789abcdef0", "driver": "580.173.02"}}, []),
    ],
)
def test_nodes_that_the_cloud_replaces_are_not_rolled(more: dict[str, Any], changed: list[str]) -> None:
    plan = planned(lab(**more), cluster=EKS)
    found = rollout(plan, node("lab-0"), node("other-0", labels={names.POOL_LABEL: "other"}))
    assert [change.node for change in found.changes] == changed


def test_a_node_of_an_earlier_run_and_one_that_is_not_drained_say_so() -> None:
    sharing = {"mode": "mig", "layout": NEW, "change": "replace"}
    nodes = [node("lab-0"), node("lab-1", **cordoned_by("test"))]
    [pool] = rollout(planned(lab(sharing=sharing)), *nodes, pods=(owned("a"),)).pools
    assert {change.node: change.remark(pool.rules) for change in pool.changes} == {
        "lab-1": "started by an earlier run",
        "lab-0": "stays unchanged while GPU pods run on it, because sharing.change is replace",
    }


def test_the_json_of_a_change_has_its_node_layouts_and_pods() -> None:
    plan = planned()
    [change] = rollout(plan, node("lab-0"), pods=(owned("a"),)).changes
    assert change.to_json() == {
        "node": "lab-0",
        "pool": "lab",
        "from": "8 GPUs: 1g.10gb x7",
        "to": "8 GPUs: 1g.10gb x1 + 2g.20gb x3",
        "config": wanted(plan),
        "drain": True,
        "begun": False,
        "gpu_pods": [{"name": "vision/a", "units": {"nvidia.com/mig-1g.10gb": 1}}],
        "blocks": [],
        "unmanaged_pods": [],
    }


def test_a_reverted_layout_changes_only_begun_nodes() -> None:
    plan = planned(lab(sharing={"mode": "mig", "layout": {"1g.10gb": 7}}))
    mine = wanted(plan)
    live = LiveCluster(
        [node("lab-0", OLD_CONFIG, **cordoned_by("test")), node("lab-1", mine)], (), {**OLD, mine: OLD[OLD_CONFIG]}
    )
    assert [(change.node, change.drains) for change in plan_rollout(plan, live).changes] == [("lab-0", True)]
