"""The configuration of the operator's upgrade controller, in the chart's values and in the ClusterPolicy."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from sandbox.simulator.driver_upgrade import NodeState, State, available_slots, read_upgrade_policy

POOL = {"name": "train", "machine_type": "p4de.24xlarge", "count": {"desired": 2}, "workload": "training"}


def plan_of(cluster: dict[str, Any], *pools: dict[str, Any], **more: Any) -> EnvironmentPlan:
    plan = plan_platform({"kind": "environment", "cluster": cluster, "pools": list(pools), **more}, "test")
    assert plan.kind == "environment"
    return plan


def test_one_node_at_a_time_with_evictions_that_respect_budgets() -> None:
    plan = plan_of({"provider": "sandbox"}, POOL)
    chart = plan.operator.helm_values["driver"]["upgradePolicy"]
    assert chart == {
        "autoUpgrade": True,
        "maxParallelUpgrades": 1,
        "maxUnavailable": "100%",
        "gpuPodDeletion": {"force": False, "timeoutSeconds": 900, "deleteEmptyDir": True},
        "drain": {"enable": False},
    }


def test_the_cluster_policy_spells_the_deletion_of_pods_its_own_way() -> None:
    plan = plan_of({"provider": "sandbox"}, POOL)
    chart = dict(plan.operator.helm_values["driver"]["upgradePolicy"])
    deletion = chart.pop("gpuPodDeletion")
    assert plan.operator.cluster_policy["driver"]["upgradePolicy"] == {**chart, "podDeletion": deletion}


def test_a_driver_of_the_host_has_no_upgrade_policy() -> None:
    cluster = {"provider": "existing", "name": "dc"}
    plan = plan_of(cluster, POOL | {"nodes": {"names": ["a", "b"]}}, operator={"driver": {"owner": "host"}})
    assert plan.operator.helm_values["driver"] == {"enabled": False}


@pytest.mark.parametrize(("counts", "at_a_time"), [((3, 2), 2), ((3, None), 3), ((None, None), 1)])
def test_the_lowest_number_of_a_pool_counts_for_all(counts: tuple[int | None, ...], at_a_time: int) -> None:
    pools = [
        {
            "name": f"pool-{index}",
            "machine_type": "a2-highgpu-8g",
            "count": {"desired": 4},
            "workload": "training",
            "zones": ["us-central1-a"],
            "image": {"family": "ubuntu"},
            **({"upgrade": {"max_unavailable": count, "max_surge": 0}} if count else {}),
        }
        for index, count in enumerate(counts)
    ]
    gke = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
    plan = plan_of(gke, *pools, operator={"driver": {"owner": "operator"}})
    policy = plan.operator.helm_values["driver"]["upgradePolicy"]
    assert policy["maxParallelUpgrades"] == at_a_time


@pytest.mark.parametrize("provider", ["sandbox", "existing"])
def test_where_no_pool_has_a_number_that_of_all_changes_counts(provider: str) -> None:
    nodes = {} if provider == "sandbox" else {"nodes": {"names": ["a", "b"]}}
    plan = plan_of({"provider": provider, "name": "dc"}, POOL | nodes, changes={"max_unavailable": 8})
    policy = plan.operator.helm_values["driver"]["upgradePolicy"]
    assert policy["maxParallelUpgrades"] == 8


@pytest.mark.parametrize("most", [None, 2, 8])
def test_nodes_that_are_out_of_service_stop_no_upgrade_of_the_others(most: int | None) -> None:
    changes = {} if most is None else {"changes": {"max_unavailable": most}}
    chart = plan_of({"provider": "sandbox"}, POOL, **changes).operator.helm_values["driver"]["upgradePolicy"]
    policy = read_upgrade_policy(chart)
    assert policy is not None
    waiting = [NodeState(f"train-{index}", State.UPGRADE_REQUIRED, outdated=True) for index in range(9)]
    cordoned = [NodeState(f"held-{index}", State.DONE, outdated=False, unschedulable=True) for index in range(8)]
    not_ready = NodeState("gone", State.DONE, outdated=False, ready=False)
    assert available_slots([*waiting, *cordoned, not_ready], policy) == (most or 1)


WINDOW = {"days": ["sat"], "start": "22:00", "duration": "4h"}


@pytest.mark.parametrize(
    ("nodes", "most", "warned"), [(15, 1, False), (16, 1, True), (64, 5, False), (64, 4, True)]
)
def test_check_warns_if_all_drivers_may_exceed_the_window(nodes: int, most: int, warned: bool) -> None:
    changes = {"window": WINDOW, "max_unavailable": most}
    decisions = plan_of({"provider": "sandbox"}, POOL | {"count": {"desired": nodes}}, changes=changes).decisions
    found = [one for one in decisions if one.what == "warning: driver upgrade"]
    assert len(found) == warned
    assert all("the operator continues after the window closes" in one.why for one in found)
    assert all("(changes.max_unavailable)" in one.why for one in found)


@pytest.mark.parametrize(("owner", "said"), [("operator", True), ("host", False)])
def test_the_window_covers_drivers_only_if_the_operator_stops_in_time(owner: str, said: bool) -> None:
    pool, driver = POOL | {"nodes": {"names": ["a", "b"]}}, {"owner": owner, "version": "580.173.02"}
    cluster = {"provider": "existing", "name": "dc"}
    plan = plan_of(cluster, pool, changes={"window": WINDOW}, operator={"driver": driver})
    [decision] = [one for one in plan.decisions if one.what == "changes of nodes"]
    assert ("continue after the window closes" in decision.why) == said


def test_a_clouds_upgrade_strategy_is_refused_elsewhere() -> None:
    pool = POOL | {"nodes": {"names": ["a", "b"]}, "upgrade": {"max_unavailable": 8}}
    with pytest.raises(BadInput, match=r"pools\[0\].upgrade: .*changes.max_unavailable is the number of nodes"):
        plan_of({"provider": "existing", "name": "dc"}, pool)


def test_the_decision_says_what_an_upgrade_does_to_pods() -> None:
    (decision,) = [one for one in plan_of({"provider": "sandbox"}, POOL).decisions if one.what == "driver upgrade"]
    assert decision.chosen == "1 node at a time"
    assert "GPU pods are evicted within 15 min, as PodDisruptionBudgets allow" in decision.why
