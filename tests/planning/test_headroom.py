"""The pods that reserve headroom in autoscaled pools, refused settings, and quotas that ignore these pods."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput
from gpu_platform.deploy.recorded.policy_check import evaluate_policies
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.headroom.section import HeadroomPlan
from gpu_platform.planning.monitoring.rules import rule_groups
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import plan_platform
from tests.support.eks_stacks import eks_environment, load_eks
from tests.support.recorded import Recorded, record_platform

GROWS = {"count": {"min": 0, "desired": 1, "max": 4}, "zones": ["us-east-2a"], "headroom": 8}
SERVE = {"name": "serve", "machine_type": "g6.12xlarge", "workload": "inference"}
RESERVED = {"type": "reservation", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}


def planned(*pools: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    plan = plan_platform(eks_environment(*pools, **rest), "test")
    assert isinstance(plan, EnvironmentPlan)
    return plan


def headroom(*pools: dict[str, Any], **rest: Any) -> HeadroomPlan:
    found = planned(*pools, **rest).headroom
    assert found is not None
    return found


def held(*pools: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    return [(one.name, one.resource, one.units, one.replicas) for one in headroom(*pools).pods]


def refusal(pool: dict[str, Any], **rest: Any) -> tuple[str, str, str]:
    with pytest.raises(BadInput) as caught:
        planned(pool, **rest)
    (problem,) = caught.value.problems
    return problem.path, problem.found, problem.allowed


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return record_platform(eks_environment(GROWS))


def test_without_the_field_nothing_is_held() -> None:
    assert planned({}).headroom is None


def test_whole_gpus_are_held_node_by_node() -> None:
    assert held({**GROWS, "headroom": 4}) == [("train", "nvidia.com/gpu", 4, 1)]
    assert held({**GROWS, "headroom": 16}) == [("train", "nvidia.com/gpu", 8, 2)]


def test_shares_are_held_one_by_one_whatever_their_resource_is_called() -> None:
    shared = {**SERVE, **GROWS, "headroom": 2}
    slices = {"mode": "time-slicing", "replicas": 4}
    assert held({**shared, "sharing": slices}) == [("serve", "nvidia.com/gpu.shared", 1, 8)]
    assert held({**shared, "sharing": {**slices, "rename": False}}) == [("serve", "nvidia.com/gpu", 1, 8)]


def test_mig_instances_are_held_in_the_proportion_of_the_layout() -> None:
    mixed = {"mode": "mig", "layout": {"3g.40gb": 1, "1g.10gb": 3}}
    lab = {**GROWS, "workload": "development", "headroom": 2, "sharing": mixed}
    assert sorted(held(lab)) == [
        ("train-mig-1g-10gb", "nvidia.com/mig-1g.10gb", 1, 6),
        ("train-mig-3g-40gb", "nvidia.com/mig-3g.40gb", 1, 2),
    ]


def test_the_pods_run_on_the_pools_nodes_alone() -> None:
    (pods,) = headroom(GROWS).pods
    assert pods.node_selector[names.POOL_LABEL] == "train"
    assert {one.key for one in pods.tolerations} == {"nvidia.com/gpu"}


def test_the_decision_says_what_it_costs_while_nobody_uses_it() -> None:
    (decision,) = [one for one in planned({**GROWS, "usd_per_hour": 80}).decisions if one.what == "headroom"]
    assert decision.chosen == "8 nvidia.com/gpu"
    assert "keep 1 node, for 80.00 USD/h while no team uses the capacity" in decision.why


def explained(*pools: dict[str, Any]) -> Decision:
    """Return the only decision about headroom."""
    (decision,) = [one for one in planned(*pools).decisions if one.what == "headroom"]
    return decision


def test_a_part_of_a_node_costs_the_whole_node() -> None:
    assert "keep 1 node, for 80.00 USD/h" in explained({**GROWS, "headroom": 1, "usd_per_hour": 80}).why


def test_several_mig_profiles_of_a_pool_are_priced_once() -> None:
    mixed = {"mode": "mig", "layout": {"3g.40gb": 1, "1g.10gb": 3}}
    decision = explained({**GROWS, "workload": "development", "sharing": mixed, "usd_per_hour": 80})
    assert sorted(decision.chosen.split(", ")) == ["24 nvidia.com/mig-1g.10gb", "8 nvidia.com/mig-3g.40gb"]
    assert "32 pods of priority -10 keep 1 node, for 80.00 USD/h" in decision.why


def test_headroom_of_shares_is_priced_as_the_nodes_that_karpenter_adds() -> None:
    sharing = {"mode": "time-slicing", "replicas": 4, "rename": False}
    shared = {"name": "ts", "machine_type": "g6.4xlarge", "sharing": sharing, "workload": "development"}
    grows = {"count": {"min": 0, "desired": 0, "max": 6}, "zones": None, "provisioner": "karpenter"}
    why = explained({**shared, **grows, "headroom": 1, "usd_per_hour": 2}).why
    assert "keep 4 nodes, for 8.00 USD/h" in why
    assert "Karpenter plans one GPU for each headroom pod" in why
    why = explained({**shared, **grows, "headroom": 2, "usd_per_hour": 2}).why
    assert "keep 6 nodes, for 12.00 USD/h" in why


@pytest.mark.parametrize(
    ("pool", "found"),
    [
        ({**GROWS, "count": {"desired": 2}}, "8 GPUs on a pool with a fixed number of nodes"),
        ({**GROWS, "headroom": 40}, "40 GPUs"),
        ({**GROWS, "headroom": 12}, "12 GPUs"),
        (
            {**GROWS, "zones": None, "capacity": RESERVED},
            "8 GPUs of capacity that is paid for in advance",
        ),
        (
            {**GROWS, "headroom": 1, "name": "cpu", "machine_type": "m7i.4xlarge", "workload": "general"},
            "1 GPUs",
        ),
    ],
)
def test_head_room_that_makes_no_sense_is_refused(pool: dict[str, Any], found: str) -> None:
    path, said, _ = refusal(pool)
    assert (path, said) == ("pools[0].headroom", found)


def test_a_class_below_the_head_room_is_refused() -> None:
    path, found, allowed = refusal(GROWS, priorities={"spare": -10})
    assert (path, found) == ("priorities.spare", "-10")
    assert allowed == "above -10, the priority of headroom"


def test_the_pods_are_preempted_at_once_and_preempt_nothing(recorded: Recorded) -> None:
    priority = recorded.one("PriorityClass", "gpu-headroom").inputs
    assert priority["value"] == -10
    assert priority["preemptionPolicy"] == "Never"
    assert priority["globalDefault"] is False
    pod = recorded.one("Deployment", "train").inputs["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "gpu-headroom"
    assert pod["terminationGracePeriodSeconds"] == 0
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"


def test_headroom_pods_use_no_quota_and_deployments_do_not_wait(recorded: Recorded) -> None:
    deployment = recorded.one("Deployment", "train").inputs
    assert deployment["metadata"]["namespace"] == names.HEADROOM_NAMESPACE
    assert deployment["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    quotas = [one.inputs["metadata"]["namespace"] for one in recorded.of("ResourceQuota")]
    assert names.HEADROOM_NAMESPACE not in quotas


def test_the_pack_finds_nothing_wrong_with_the_pods() -> None:
    loaded = load_eks(GROWS)
    report = evaluate_policies(record_stack(loaded), loaded.plan)
    assert [str(one) for one in report.violations if "headroom" in str(one)] == []


def test_alerts_and_sums_of_held_gpus_leave_the_head_room_out() -> None:
    monitoring = planned(GROWS, monitoring={}, addons={"prometheus": "install"}).monitoring
    assert monitoring is not None
    rules = {
        rule.get("alert") or rule.get("record"): rule["expr"]
        for group in rule_groups(monitoring)
        for rule in group["rules"]
    }
    for name in ("GpuHeldAndIdle", "GpuPodPending", "pool:gpus_held:count", "namespace:cost:usd_per_hour"):
        assert f'namespace!="{names.HEADROOM_NAMESPACE}"' in rules[name]
