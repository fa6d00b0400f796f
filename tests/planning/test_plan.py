"""Complete plans: snapshots that a person can review, determinism, and properties that span several sections."""

from __future__ import annotations

import dataclasses
import json

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan, plan_to_json
from gpu_platform.planning.cost import held_shares
from gpu_platform.planning.nodes.section import HOLDING_TAINTS
from gpu_platform.stack.loaded import load_stack
from tests.planning.conftest import PlanMaker, pool, team

HELD = {taint.key for taint in HOLDING_TAINTS}


@pytest.mark.parametrize(
    "stack",
    ["local", "dev", "speech", "eks-training", "gke-training", "aks-training", "eks-monitoring", "gke-monitoring"],
)
def test_the_plan_of_a_shipped_stack_is_the_one_that_was_reviewed(stack: str, snapshot: SnapshotAssertion) -> None:
    document = json.loads(json.dumps(plan_to_json(load_stack(stack).plan)))
    assert document == snapshot(extension_class=JSONSnapshotExtension, name=stack)


def test_planning_twice_gives_the_same_plan() -> None:
    first, second = (json.dumps(plan_to_json(load_stack("local").plan)) for _ in range(2))
    assert first == second


def test_a_plan_is_immutable() -> None:
    plan = load_stack("local").plan
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.stack = "other"  # pyrefly: ignore[read-only]


def test_training_on_several_gpus_gets_a_restricted_topology_manager(make_plan: PlanMaker) -> None:
    plan = make_plan(pool(), pool("one", "g5.xlarge"), pool("dev", workload="development"))
    policies = [p.kubelet.topology_policy if p.kubelet else None for p in plan.pools]
    assert policies == ["restricted", None, None]


def test_a_topology_policy_comes_with_static_cpus(make_plan: PlanMaker) -> None:
    kubelet = make_plan(pool()).pools[0].kubelet
    assert kubelet is not None
    assert kubelet.cpu_manager_policy == "static"


def test_every_gpu_pool_is_tainted(make_plan: PlanMaker) -> None:
    taints = [{"key": "team", "value": "a", "effect": "NoExecute"}]
    plan = make_plan(pool(taints=taints))
    assert [(t.key, t.value, t.effect) for t in plan.pools[0].taints] == [
        ("nvidia.com/gpu", "present", "NoSchedule"),
        ("team", "a", "NoExecute"),
    ]
    tolerated = {t["key"] for t in plan.operator.cluster_policy["daemonsets"]["tolerations"]}
    assert tolerated == {"nvidia.com/gpu", "team", *HELD}


def test_the_cost_counts_desired_nodes_and_names_pools_of_unknown_price(make_plan: PlanMaker) -> None:
    plan = make_plan(
        pool(count={"desired": 2, "max": 4}), pool("dgx", "dgx-a100-640gb"), teams=[team(quota={"gpus": 12})]
    )
    assert plan.cost.usd_per_hour == pytest.approx(2 * 27.44705)
    assert plan.cost.unknown == ("dgx",)
    # 12 of the 24 GPUs on offer are granted, so half of the known cost is not granted to any team.
    assert plan.cost.unallocated_usd_per_hour == pytest.approx(27.44705)


def test_each_gpu_weighs_the_same_in_the_waste_however_it_is_cut(make_plan: PlanMaker) -> None:
    layouts = [{"devices": [0], "layout": {"1g.10gb": 7}}]
    cut = pool(workload="development", sharing={"mode": "mig", "layouts": layouts})
    cost = make_plan(cut, teams=[team(quota={"gpus": 7})]).cost
    assert cost.pools[0].allocated_share == pytest.approx(7 / 8)


def test_what_pods_hold_counts_for_the_pool_that_they_run_on(make_plan: PlanMaker) -> None:
    plan = make_plan(pool("a"), pool("b"))
    assert held_shares(plan.pools, {"a": {"nvidia.com/gpu": 2}}) == {"a": 0.25, "b": 0.0}


def test_feature_discovery_tolerates_the_pools_taints(
    make_plan: PlanMaker,
) -> None:
    plan = make_plan(pool(taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}]))
    worker = plan.operator.helm_values["node-feature-discovery"]["worker"]
    assert {t["key"] for t in worker["tolerations"]} == {
        "node-role.kubernetes.io/control-plane",
        "nvidia.com/gpu",
        "team",
        *HELD,
    }
    assert "node-feature-discovery" not in plan.operator.cluster_policy


def test_mig_instances_of_the_expectations_follow_the_layout(make_plan: PlanMaker) -> None:
    sharing = {"mode": "mig", "layouts": [{"devices": [3], "layout": {"3g.40gb": 2}}]}
    expected = make_plan(pool(workload="development", sharing=sharing)).pools[0].expectations.expect
    assert expected["mig-instances"].value == [{}, {}, {}, {"3g.40gb": 2}, {}, {}, {}, {}]
    assert expected["mig-instances"].source == "stack: pools[0].sharing.layouts"


def test_the_driver_is_the_releases_default_unless_declared(
    make_plan: PlanMaker,
) -> None:
    default = make_plan(pool())
    said = make_plan(pool(), operator={"driver": {"version": "580.173.02"}})
    host = make_plan(pool(), operator={"driver": {"owner": "host"}})
    assert [plan.pools[0].driver_version for plan in (default, said, host)] == ["595.91.07", "580.173.02", None]
    assert host.operator.cluster_policy["driver"] == {"enabled": False}


def test_a_driver_branch_that_dropped_the_gpu_is_refused(make_plan: PlanMaker) -> None:
    with pytest.raises(BadInput, match="Tesla V100") as error:
        make_plan(pool(machine_type="p3dn.24xlarge"))
    assert error.value.problems[0].path == "pools[0].machine_type"


def test_helm_values_and_cluster_policy_say_the_same() -> None:
    local, dev = load_stack("local").plan, load_stack("dev").plan
    assert isinstance(local, EnvironmentPlan)
    assert isinstance(dev, EnvironmentPlan)
    only_here = {"operator", "mig", "node-feature-discovery", "cdi", "clusterPolicy", "nfd"}
    policy = {k: v for k, v in local.operator.cluster_policy.items() if k not in only_here}
    chart = {k: v for k, v in local.operator.helm_values.items() if k not in only_here}
    upgrades = dict(chart["driver"]["upgradePolicy"])
    upgrades["podDeletion"] = upgrades.pop("gpuPodDeletion")  # the chart uses another name for this value
    assert policy == chart | {"driver": chart["driver"] | {"upgradePolicy": upgrades}}
    assert (local.operator.install, dev.operator.install) == ("cluster-policy", "helm")


def test_no_cluster_wide_mig_strategy_overrides_what_each_pool_says(make_plan: PlanMaker) -> None:
    single = {"mode": "mig", "layout": {"1g.10gb": 7}, "strategy": "single"}
    mixed = {"mode": "mig", "layout": {"3g.40gb": 2}}
    mps = pool("shared", workload="inference", sharing={"mode": "mps", "replicas": 4})
    plan = make_plan(
        pool("a", workload="development", sharing=single), pool("b", workload="development", sharing=mixed), mps
    )
    assert plan.operator.cluster_policy["mig"] == {}
    assert plan.operator.helm_values["mig"] == {"strategy": ""}
    configs = [p.sharing.device_plugin_config or {} for p in plan.pools]
    strategies = [config["flags"]["migStrategy"] for config in configs]
    assert strategies == ["single", "mixed", "none"]
