"""A compute class lists interchangeable pools in the order in which nodes are added to them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.stack.loaded import plan_platform

GKE = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1", "kubernetes": "1.35"}
EKS = {"provider": "eks", "name": "ml", "region": "us-east-2"}
RANGE = {"min": 0, "desired": 0, "max": 8}
CLASS = {"name": "l4", "pools": ["first", "second", "third"]}
KARPENTER = {"provisioner": "karpenter", "count": {"desired": 0, "max": 8}}


def pool(name: str, machine_type: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "machine_type": machine_type, "count": RANGE, "workload": "inference", **rest}


def stack(cluster: dict[str, Any], *of: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """Return a stack with three equal pools and their compute class. Each mapping in `of` changes one pool."""
    machine = "g2-standard-48" if cluster["provider"] == "gke" else "g6.12xlarge"
    changed = [*of, {}, {}, {}][:3]
    names = CLASS["pools"]
    pools = [pool(name, machine) | one for name, one in zip(names, changed, strict=True)]
    return {"kind": "environment", "cluster": cluster, "pools": pools, "compute_classes": [CLASS], **rest}


def with_a_pool_in_two_classes() -> dict[str, Any]:
    platform = stack(GKE)
    platform["pools"].append(pool("fourth", "g2-standard-48"))
    return {**platform, "compute_classes": [CLASS, {"name": "other", "pools": ["first", "fourth"]}]}


def planned(platform: dict[str, Any]) -> EnvironmentPlan:
    plan = plan_platform(platform, "test")
    assert plan.kind == "environment"
    return plan


def problems(platform: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(BadInput) as error:
        planned(platform)
    return {problem.path: str(problem) for problem in error.value.problems}


# -- nodes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("queues", "told"), [({}, False), ({"queueing": {}}, True)])
def test_check_states_that_pods_in_queues_name_the_pools_too(queues: dict[str, Any], told: bool) -> None:
    decisions = planned(stack(GKE, **queues)).decisions
    stated = [one.why for one in decisions if one.what == "compute class"]
    assert len(stated) == 3
    assert ["with queues, pods also name pools of the class" in why for why in stated] == [told] * 3


def test_nodes_on_gke_have_the_label_and_the_taint_of_the_class() -> None:
    for one in planned(stack(GKE)).pools:
        assert one.labels["cloud.google.com/compute-class"] == "l4"
        assert "cloud.google.com/compute-class=l4:NoSchedule" in map(str, one.all_taints)
        assert one.node_expectation.labels["cloud.google.com/compute-class"] == "l4"


@pytest.mark.parametrize("changed", [{}, KARPENTER], ids=["managed", "karpenter"])
def test_nodes_on_eks_have_a_label_of_the_class_and_no_taint_more(changed: dict[str, Any]) -> None:
    for one in planned(stack(EKS, changed, changed, changed)).pools:
        assert one.labels["gpu-platform.dev/compute-class"] == "l4"
        assert [taint.key for taint in one.all_taints] == ["nvidia.com/gpu"]


def test_a_pool_in_no_class_has_neither() -> None:
    alone = {**stack(GKE), "compute_classes": [{"name": "l4", "pools": ["first", "second"]}]}
    labels = {one.name: one.labels.get("cloud.google.com/compute-class") for one in planned(alone).pools}
    assert labels == {"first": "l4", "second": "l4", "third": None}


def test_the_plan_says_the_place_of_a_pool_and_what_its_pods_select() -> None:
    found = [one for one in planned(stack(GKE)).decisions if one.what == "compute class"]
    assert [one.chosen for one in found] == ["l4, 1 of 3", "l4, 2 of 3", "l4, 3 of 3"]
    assert "select cloud.google.com/compute-class: l4" in found[0].why
    assert "tolerate cloud.google.com/compute-class=l4:NoSchedule" in found[0].why


# -- the order --------------------------------------------------------------------------------------------------


def test_a_class_on_gke_names_its_pools_in_order() -> None:
    cloud = planned(stack(GKE)).cluster.cloud
    assert isinstance(cloud, GkeClusterPlan)
    (found,) = cloud.compute_classes
    assert (found.name, found.pools) == ("l4", ("first", "second", "third"))
    assert found.spec == {
        "activeMigration": {"optimizeRulePriority": False},
        "nodePoolAutoCreation": {"enabled": False},
        "whenUnsatisfiable": "DoNotScaleUp",
    }


def test_reservation_on_demand_flex_start_and_spot_are_a_class() -> None:
    platform = stack(
        GKE,
        {
            "capacity": {"type": "reservation", "reservation": "l4", "zone": "us-central1-a"},
            "count": {"desired": 2},
        },
        {"capacity": {"type": "flex-start"}},
        {"capacity": {"type": "spot"}},
    )
    cloud = planned(platform).cluster.cloud
    assert isinstance(cloud, GkeClusterPlan)
    assert cloud.compute_classes[0].pools == ("first", "second", "third")


def test_karpenter_has_the_order_as_weights() -> None:
    clouds = [one.cloud for one in planned(stack(EKS, KARPENTER, KARPENTER, KARPENTER)).pools]
    weights = [cloud.node_pool["weight"] for cloud in clouds if isinstance(cloud, KarpenterPoolPlan)]
    assert weights == [100, 90, 80]


def test_the_cluster_autoscaler_has_the_order_as_name_patterns() -> None:
    cloud = planned(stack(EKS)).cluster.cloud
    assert isinstance(cloud, EksClusterPlan)
    assert cloud.cluster_autoscaler is not None
    values = cloud.cluster_autoscaler.release.values
    assert values["extraArgs"]["expander"] == "priority,least-waste"
    patterns = values["expanderPriorities"]
    assert list(patterns) == ["100", "90", "80", "1"]
    groups = ["eks-first-1a2b3c4-0ec8f1d2-1111-2222-3333-444455556666", "eks-first-0ec8f1d2-1111-2222-3333-4444"]
    for group in groups:
        assert re.match(patterns["100"][0], group)
        assert not re.match(patterns["90"][0], group)
    assert not re.match(patterns["100"][0], "eks-first-pool-0ec8f1d2-1111-2222-3333-444455556666")
    assert patterns["1"] == [".*"]


def test_without_classes_the_expander_has_no_priorities() -> None:
    cloud = planned({**stack(EKS), "compute_classes": []}).cluster.cloud
    assert isinstance(cloud, EksClusterPlan)
    assert cloud.cluster_autoscaler is not None
    values = cloud.cluster_autoscaler.release.values
    assert values["extraArgs"]["expander"] == "least-waste"
    assert "expanderPriorities" not in values


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "path", "words"),
    [
        (
            {**stack(GKE), "compute_classes": [{"name": "l4", "pools": ["first", "secund"]}]},
            "compute_classes[0].pools[1]",
            "did you mean 'second'",
        ),
        (
            {**stack(GKE), "compute_classes": [{"name": "l4", "pools": ["first", "first"]}]},
            "compute_classes[0].pools[1]",
            "each pool only once and in one class",
        ),
        (
            with_a_pool_in_two_classes(),
            "compute_classes[1].pools[0]",
            "it is already in class l4",
        ),
        ({**stack(GKE), "compute_classes": [{**CLASS, "name": "default"}]}, "compute_classes[0].name", "no class"),
        ({**stack(GKE), "compute_classes": [{**CLASS, "name": "gke-l4"}]}, "compute_classes[0].name", "GKE's own"),
        (
            stack(GKE, {}, {"machine_type": "g4-standard-48", "zones": ["us-central1-b"]}),
            "compute_classes[0].pools[1]",
            "nvidia.com/gpu on rtx-pro-6000",
        ),
        (
            stack(GKE, {}, {"count": {"desired": 2}, "zones": ["us-central1-a"], "sharing": {
                "mode": "time-slicing", "replicas": 4}}),
            "compute_classes[0].pools[1]",
            "nvidia.com/gpu.shared on l4 with 4 shares",
        ),
        (
            stack(GKE, {"capacity": {"type": "flex-start", "queued": True}}),
            "compute_classes[0].pools[0]",
            "ProvisioningRequest",
        ),
        (
            stack(GKE, *[{"count": {"desired": 2}, "zones": ["us-central1-a"]}] * 3),
            "compute_classes[0].pools",
            "without an autoscaled pool",
        ),
        (
            stack(EKS, {}, {"machine_type": "m7i.2xlarge", "workload": "general"}),
            "compute_classes[0].pools[1]",
            "found 'second' with no GPUs; allowed: nvidia.com/gpu on l4",
        ),
        (stack(EKS, KARPENTER), "compute_classes[0].pools", "pools with the same provisioner"),
        (stack(EKS, *[{"count": {"desired": 2}}] * 3), "compute_classes[0].pools", "which no autoscaler scales"),
        (
            stack({**EKS, "parts": {"cluster_autoscaler": "present"}}),
            "compute_classes[0].pools",
            "the program's own Cluster Autoscaler",
        ),
    ],
)  # fmt: skip
def test_a_class_whose_order_or_gpus_would_not_hold_is_refused(
    platform: dict[str, Any], path: str, words: str
) -> None:
    found = problems(platform)
    assert set(found) == {path}
    assert words in found[path]


def two_autoscalers(*of: dict[str, Any], **rest: Any) -> list[str]:
    platform = {**stack(EKS, *of, **rest), "compute_classes": []}
    return [one.chosen for one in planned(platform).decisions if one.subject == "pools"]


def test_pools_of_two_autoscalers_with_one_resource_are_a_warning() -> None:
    """Both Karpenter and the Cluster Autoscaler would add a node for a team's pods that name no pool."""
    assert two_autoscalers(KARPENTER) == ["on first, second, third"]
    assert two_autoscalers(KARPENTER, {"count": {"desired": 2}}) == ["on first, third"]
    of_cpus = {"machine_type": "m7i.2xlarge", "workload": "general"}
    assert two_autoscalers({**KARPENTER, **of_cpus}, of_cpus) == ["on first, second"]


@pytest.mark.parametrize(
    ("of", "rest"),
    [
        ((KARPENTER,) * 3, {}),
        ((), {}),
        ((KARPENTER,), {"queueing": {}}),
        ((KARPENTER, *({"count": {"desired": 2}},) * 2), {}),
        (({**KARPENTER, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},), {}),
    ],
    ids=["karpenter", "managed", "queues", "fixed", "taints"],
)
def test_pools_of_which_one_autoscaler_grows_are_no_warning(of: tuple[Any, ...], rest: dict[str, Any]) -> None:
    assert not two_autoscalers(*of, **rest)


def test_a_cluster_whose_nodes_the_program_does_not_create_has_no_classes() -> None:
    pools = [pool(name, "g6.12xlarge", count={"desired": 1}) for name in CLASS["pools"]]
    platform = {
        "kind": "environment",
        "cluster": {"provider": "sandbox"},
        "pools": pools,
        "compute_classes": [CLASS],
    }
    assert "only on EKS and GKE" in problems(platform)["compute_classes[0]"]
