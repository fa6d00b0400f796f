"""The managed node groups that the Cluster Autoscaler scales, and the tags that describe the future nodes of empty
groups.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning.clouds.eks.cluster_autoscaler import ACCELERATOR_LABEL, SCALED_TAG
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.existing_cluster import required_addons
from tests.planning.clouds.eks.eks_pools import BLOCK, RESERVATION, eks, node_group, plan_and_decisions, planned
from tests.planning.clouds.eks.test_cluster import SERVE, cloud, created, decisions, plan, problems
from tests.planning.clouds.eks.test_cluster import eks as stack_cluster

G6 = {"machine_type": "g6.12xlarge", "workload": "inference", "count": {"min": 0, "desired": 1, "max": 4}}
A100 = {"machine_type": "p4d.24xlarge", "zones": ["us-east-2a"], "count": {"min": 0, "desired": 1, "max": 4}}
RESOURCES = "k8s.io/cluster-autoscaler/node-template/resources/"
OPTIONS = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/"
SCALED = {**SERVE, "count": {"min": 1, "desired": 2, "max": 8}}


def offered(**rest: Any) -> dict[str, str]:
    tags = node_group(**rest).group_tags
    return {key.removeprefix(RESOURCES): value for key, value in tags.items() if key.startswith(RESOURCES)}


def autoscaling(**rest: Any) -> dict[str, str]:
    tags = node_group(**rest).group_tags
    return {key.removeprefix(OPTIONS): value for key, value in tags.items() if key.startswith(OPTIONS)}


# -- scaled pools ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "is_scaled"),
    [
        ({"min": 1, "desired": 2, "max": 4}, True),
        ({"desired": 2, "max": 4}, True),
        ({"min": 1, "desired": 2}, True),
        ({"min": 1, "desired": 4, "max": 4}, True),
        ({"desired": 2}, False),
        ({"min": 2, "desired": 2, "max": 2}, False),
    ],
)
def test_a_range_of_count_is_scaled_but_a_single_number_is_not(count: dict[str, int], is_scaled: bool) -> None:
    found = node_group(**{**G6, "count": count})
    assert bool(found.group_tags) == is_scaled
    assert found.keeps_size == is_scaled


def test_owners_autoscaler_cannot_empty_a_group_of_fixed_size() -> None:
    fixed = node_group(**{**G6, "count": {"desired": 4}})
    assert (fixed.min_size, fixed.desired_size, fixed.max_size) == (4, 4, 4)
    assert node_group(**G6).min_size == 0
    assert node_group(capacity=BLOCK, count={"desired": 4}).min_size == 0


def test_a_capacity_block_is_not_scaled() -> None:
    count = {"min": 0, "desired": 2, "max": 4}
    plan, said = plan_and_decisions(capacity=BLOCK, count=count)
    assert plan.cloud is not None
    assert not node_group(capacity=BLOCK, count=count).group_tags
    assert "no autoscaler changes this number" in said["size"].why


def test_a_pool_with_dra_is_scaled_by_a_person() -> None:
    pool = {**SCALED, "sharing": {"mode": "dra"}}
    found = plan(stack_cluster(kubernetes="1.36"), pool, operator={"release": "v26.7.0"})
    (size,) = [one for one in found.decisions if one.what == "size"]
    assert "you set the number of nodes" in size.why
    assert "ResourceSlices" in size.why
    assert found.cluster.cloud is not None
    assert found.cluster.cloud.parts == ()


def test_the_plan_says_who_scales_the_pool_and_when_a_node_goes() -> None:
    _, said = plan_and_decisions(**G6)
    assert "the Cluster Autoscaler adds nodes for pending pods" in said["size"].why
    assert "underused for 15m" in said["size"].why
    _, said = plan_and_decisions(**A100)
    assert "empty for 30m" in said["size"].why
    _, said = plan_and_decisions(eks(parts={"cluster_autoscaler": "none"}), **G6)
    assert "so you set the number of nodes" in said["size"].why


MIG = {**A100, "workload": "inference", "sharing": {"mode": "mig", "strategy": "single", "layout": {"1g.5gb": 7}}}


def flags(*pools: dict[str, Any]) -> dict[str, str]:
    named = [{**one, "name": f"pool-{index}"} for index, one in enumerate(pools)]
    found = plan(stack_cluster(), *named).cluster.cloud
    assert isinstance(found, EksClusterPlan)
    assert found.cluster_autoscaler is not None
    return found.cluster_autoscaler.release.values["extraArgs"]


def test_the_autoscaler_waits_for_the_mig_layout_of_a_new_node() -> None:
    assert autoscaling(**MIG)["scaledownunreadytime"] == "2400s"
    found = flags(G6, MIG)
    assert (found["max-node-startup-time"], found["max-node-provision-time"]) == ("2400s", "2400s")


def test_without_mig_the_autoscaler_keeps_its_own_times() -> None:
    assert "scaledownunreadytime" not in autoscaling(**G6)
    assert not {"max-node-startup-time", "max-node-provision-time"} & flags(G6).keys()
    fixed = {**MIG, "count": {"desired": 1}}
    assert "max-node-startup-time" not in flags(G6, fixed)


# -- resources of a node that does not exist yet ----------------------------------------------------------------


def test_pods_see_allocatable_cpu_and_memory_not_the_whole_machine() -> None:
    pool = planned(**G6)
    found = offered(**G6)
    assert found["cpu"] == f"{pool.cpu_millicores}m"
    assert found["memory"] == f"{pool.memory_mib}Mi"


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        (None, {"nvidia.com/gpu": "8"}),
        ({"mode": "time-slicing", "replicas": 4}, {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "32"}),
        ({"mode": "time-slicing", "replicas": 4, "rename": False}, {"nvidia.com/gpu": "32"}),
        (
            {"mode": "mig", "strategy": "mixed", "layout": {"3g.20gb": 1, "1g.5gb": 4}},
            {"nvidia.com/gpu": "0", "nvidia.com/mig-3g.20gb": "8", "nvidia.com/mig-1g.5gb": "32"},
        ),
        ({"mode": "mig", "strategy": "single", "layout": {"1g.5gb": 7}}, {"nvidia.com/gpu": "56"}),
    ],
)
def test_every_gpu_resource_of_the_pool_is_known_from_zero_nodes(
    sharing: dict[str, Any] | None, expected: dict[str, str]
) -> None:
    pool = {**A100, "workload": "inference", **({"sharing": sharing} if sharing else {})}
    found = offered(**pool)
    assert {name: value for name, value in found.items() if name.startswith("nvidia.com/")} == expected


def test_efa_and_its_huge_pages_are_known_from_zero_nodes() -> None:
    found = offered(**A100)
    assert (found["vpc.amazonaws.com/efa"], found["hugepages-2Mi"]) == ("4", "10256Mi")
    assert not {"vpc.amazonaws.com/efa", "hugepages-2Mi"} & offered(**G6).keys()


def test_memory_of_huge_pages_is_not_announced_as_memory() -> None:
    assert offered(**A100)["memory"] == f"{planned(**A100).memory_mib - 10256}Mi"
    declared = {**G6, "tuning": {"huge_pages": 1024}}
    assert offered(**declared)["memory"] == f"{planned(**G6).memory_mib - 2048}Mi"
    assert offered(**declared)["hugepages-2Mi"] == "2048Mi"


def test_efa_interfaces_that_pods_claim_are_no_resource_of_new_nodes() -> None:
    found = offered(cluster=eks(kubernetes="1.35"), network={"via": "dranet"}, **A100)
    assert "vpc.amazonaws.com/efa" not in found
    assert found["hugepages-2Mi"] == "10256Mi"


def test_ephemeral_storage_is_on_local_disks_or_else_on_the_volume() -> None:
    def gib(**rest: Any) -> int:
        return int(offered(**rest)["ephemeral-storage"].removesuffix("Gi"))

    assert gib(**{**G6, "local_nvme": False, "disk": {"size_gb": 100}}) == 85
    assert gib(**G6) > 2000


# -- a node that does not offer its GPUs yet ----------------------------------------------------------------------


def test_accelerator_label_stops_scale_up_until_the_first_node_has_gpus() -> None:
    assert node_group(**G6).labels[ACCELERATOR_LABEL] == "nvidia-l4"
    assert ACCELERATOR_LABEL not in node_group(**{**G6, "count": {"desired": 2}}).labels


def test_without_nvidia_com_gpu_more_nodes_are_announced() -> None:
    pool = {**G6, "sharing": {"mode": "time-slicing", "replicas": 4}}
    assert ACCELERATOR_LABEL not in node_group(**pool).labels
    _, said = plan_and_decisions(**pool)
    assert said["warning: autoscaler"].chosen == "may add up to 4 nodes for one pending pod"
    assert "rename" not in said["warning: autoscaler"].why, "the policy sharing-rename forbids this"
    assert "warning: autoscaler" not in plan_and_decisions(**G6)[1]


# -- removal of nodes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "threshold", "after"),
    [("training", "0.01", "30m"), ("inference", "0.5", "15m"), ("development", "0.01", "10m")],
)
def test_only_replicas_of_inference_move_from_a_little_used_node(
    workload: str, threshold: str, after: str
) -> None:
    assert autoscaling(**{**G6, "workload": workload, "network": {"rdma": False}}) == {
        "ignoredaemonsetsutilization": "true",
        "scaledowngpuutilizationthreshold": threshold,
        "scaledownutilizationthreshold": threshold,
        "scaledownunneededtime": after,
    }


# -- the controller ---------------------------------------------------------------------------------------------


def test_the_autoscaler_is_installed_only_for_a_pool_that_it_scales() -> None:
    assert cloud(created(), SERVE).cluster_autoscaler is None
    found = cloud(created(), SCALED)
    assert [part.name for part in found.parts] == ["cluster_autoscaler"]
    assert found.cluster_autoscaler is not None


def test_it_discovers_only_groups_that_the_program_tags() -> None:
    found = cloud(created(), SCALED).cluster_autoscaler
    assert found is not None
    assert found.release.values["autoDiscovery"] == {
        "clusterName": "ml",
        "tags": ["k8s.io/cluster-autoscaler/ml=owned", f"{SCALED_TAG}=ml"],
    }
    assert node_group(**G6).group_tags[SCALED_TAG] == "ml"


def test_the_statements_of_its_policy_allow_what_they_name() -> None:
    found = cloud(created(), SCALED).cluster_autoscaler
    assert found is not None
    assert [statement["Effect"] for statement in found.policy["Statement"]] == ["Allow"] * 3


def test_it_writes_only_to_tagged_groups_of_this_cluster() -> None:
    found = cloud(created(account="123456789012"), SCALED).cluster_autoscaler
    assert found is not None
    writes = [
        statement
        for statement in found.policy["Statement"]
        if any(not action.partition(":")[2].startswith(("Describe", "Get")) for action in statement["Action"])
    ]
    (only,) = writes
    assert only["Action"] == ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    assert only["Condition"]["StringEquals"] == {
        "aws:ResourceTag/k8s.io/cluster-autoscaler/ml": "owned",
        f"aws:ResourceTag/{SCALED_TAG}": "ml",
    }
    assert only["Resource"].startswith("arn:aws:autoscaling:us-east-2:123456789012:autoScalingGroup:")


def test_it_runs_outside_the_pools_and_never_on_a_node_that_it_may_remove() -> None:
    found = cloud(created(production=True), SCALED).cluster_autoscaler
    assert found is not None
    affinity = found.release.values["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "gpu-platform.dev/pool", "operator": "DoesNotExist"}]
    assert found.release.values["replicaCount"] == 2


def test_on_an_existing_cluster_it_needs_the_pod_identity_agent() -> None:
    why = required_addons(cloud(stack_cluster(), SCALED))["eks-pod-identity-agent"]
    assert why.startswith("Cluster Autoscaler cannot start without credentials from this add-on")


def test_owners_autoscaler_is_unchanged_and_finds_groups_by_eks_tags() -> None:
    found = stack_cluster(parts={"cluster_autoscaler": "present"})
    assert cloud(found, SCALED).cluster_autoscaler is None
    assert [part.install for part in cloud(found, SCALED).parts] == [False]
    chosen, why = decisions(found, SCALED)["Cluster Autoscaler"]
    assert chosen == "present"
    assert "k8s.io/cluster-autoscaler/ml" in why


@pytest.mark.parametrize(
    "pool",
    [
        {"capacity": BLOCK, "count": {"desired": 2}},
        {"capacity": RESERVATION, "count": {"desired": 2}},
        {"count": {"desired": 2}, "zones": ["us-east-2a"]},
    ],
    ids=["block", "reservation", "on-demand"],
)
def test_the_autoscaler_of_the_owner_removes_no_node_of_a_fixed_pool(pool: dict[str, Any]) -> None:
    plan = node_group(eks(parts={"cluster_autoscaler": "present"}), **pool)
    options = {key.removeprefix(OPTIONS): value for key, value in plan.group_tags.items()}
    assert options["scaledownutilizationthreshold"] == options["scaledowngpuutilizationthreshold"] == "0"
    assert not plan.autoscaled
    assert SCALED_TAG not in plan.group_tags
    assert not node_group(**pool).group_tags


def test_without_an_autoscaler_no_part_is_installed_and_no_tag_is_set() -> None:
    found = cloud(stack_cluster(parts={"cluster_autoscaler": "none"}), SCALED)
    assert (found.parts, found.cluster_autoscaler) == ((), None)
    assert not node_group(eks(parts={"cluster_autoscaler": "none"}), **G6).group_tags


def test_a_new_cluster_has_no_autoscaler_of_an_owner() -> None:
    found = problems(created(parts={"cluster_autoscaler": "present"}), SCALED)
    assert "present only on an existing cluster" in found["cluster.parts.cluster_autoscaler"]
