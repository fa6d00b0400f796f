"""Pools without GPUs are planned without NVIDIA software, next to GPU pools, on every provider."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.online.quota import gpu_demands
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.capacity import report_capacity
from gpu_platform.planning.changes import pool_changes, pool_facts
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.gke.plan import GkePoolPlan
from gpu_platform.planning.nodes import allocatable
from gpu_platform.planning.nodes.software import NO_GPU_SOFTWARE
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.prerequisites import gpu_quotas
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import PlanMaker, pool, team
from tests.support.eks_stacks import EXISTING, plan_eks

CATALOG = load_catalog()
GKE = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
ZONE = ["us-central1-a"]


def cpu(name: str = "monitoring", machine_type: str = "m7i.2xlarge", **rest: Any) -> dict[str, Any]:
    return {"name": name, "machine_type": machine_type, "count": {"desired": 2}, "workload": "general", **rest}


def loader(**rest: Any) -> dict[str, Any]:
    return {"name": "loader", "pool": "monitoring", "gpus": 0, "cpu": "2", "memory": "4Gi", **rest}


def plan_gke(*pools: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    plan = plan_platform({"kind": "environment", "cluster": GKE, "pools": list(pools), **rest}, "test")
    assert plan.kind == "environment"
    return plan


def problems(make_plan: PlanMaker, *pools: dict[str, Any], **rest: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as error:
        make_plan(*pools, **rest)
    return {problem.path: str(problem) for problem in error.value.problems}


# -- the nodes --------------------------------------------------------------------------------------------


def test_a_cpu_pool_has_no_gpu_software_resources_or_taint(make_plan: PlanMaker) -> None:
    plan = make_plan(pool(), cpu()).pools[1]
    assert not plan.has_gpus
    assert plan.software == NO_GPU_SOFTWARE
    assert (plan.resources, plan.devices, plan.taints, plan.driver_version, plan.kubelet) == (
        (),
        (),
        (),
        None,
        None,
    )
    assert plan.labels == {
        names.POOL_LABEL: "monitoring",
        names.MACHINE_TYPE_LABEL: "m7i.2xlarge",
        names.WORKLOAD_LABEL: "general",
    }


def test_its_allocatable_cpu_and_memory_follow_the_formulas_of_gpu_pools(make_plan: PlanMaker) -> None:
    plan = make_plan(cpu()).pools[0]
    assert (plan.cpu_millicores, plan.memory_mib) == allocatable(CATALOG.machine_types["m7i.2xlarge"])
    assert plan.memory_mib == 32 * 1024 - (255 + 11 * 58) - 100


def test_its_nodes_are_compared_with_kubernetes_alone(make_plan: PlanMaker) -> None:
    taint = {"key": "example.com/ingress", "effect": "NoSchedule"}
    plan = make_plan(cpu(taints=[taint], labels={"role": "ingress"})).pools[0]
    assert not plan.expectations.by_agent
    assert plan.node_expectation.allocatable == {}
    assert plan.node_expectation.labels["role"] == "ingress"
    assert [one["key"] for one in plan.node_expectation.taints] == ["example.com/ingress"]


def test_the_operator_is_planned_as_if_the_cpu_pool_were_not_there(make_plan: PlanMaker) -> None:
    taint = {"key": "example.com/ingress", "effect": "NoSchedule"}
    alone, beside = make_plan(pool()), make_plan(pool(), cpu(taints=[taint]))
    assert beside.operator == alone.operator
    assert beside.validation == alone.validation
    assert "example.com/ingress" not in str(beside.operator.helm_values)


def test_an_environment_may_have_cpu_pools_alone(make_plan: PlanMaker) -> None:
    plan = make_plan(cpu())
    assert plan.operator.mig_config is None
    (driver,) = [one for one in plan.decisions if (one.subject, one.what) == ("operator", "driver")]
    assert (driver.chosen, driver.why) == ("none", "no pool has GPUs")


def test_a_cpu_pool_stands_beside_pools_with_dra(make_plan: PlanMaker) -> None:
    dra = pool("h100", "p5.48xlarge", sharing={"mode": "dra"})
    plan = make_plan(dra, cpu(), operator={"toolkit": "host"})
    assert [one.name for one in plan.pools if one.devices] == ["h100"]


# -- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("sharing", {"mode": "time-slicing", "replicas": 4}, "it sets how pods share a GPU"),
        ("sharing", "quarters", "it sets how pods share a GPU"),
        ("per_node", [{"nodes": ["monitoring-0"], "sharing": "quarters"}], "it gives some nodes another"),
        ("topology", {"policy": "restricted"}, "its policies align GPUs and NICs with CPUs"),
        ("utilisation", 0.5, "it describes the utilisation of GPUs"),
    ],
)
def test_a_field_about_gpus_is_refused_with_the_reason(
    make_plan: PlanMaker, field: str, value: Any, reason: str
) -> None:
    sharing = {"quarters": {"mode": "time-slicing", "replicas": 4}}
    found = problems(make_plan, cpu(**{field: value}), sharing=sharing)
    assert list(found) == [f"pools[0].{field}"]
    assert f"{field} on m7i.2xlarge, which has no GPUs" in found[f"pools[0].{field}"]
    assert reason in found[f"pools[0].{field}"]


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"device_plugin": "operator"}, "pools[0].device_plugin"),
        ({"network": {"rdma": False}}, "pools[0].network"),
        ({"image": {"ami": "ami-0a1b2c3d4e5f60718", "driver": "580.95.05"}}, "pools[0].image.driver"),
        (
            {"capacity": {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}},
            "pools[0].capacity.type",
        ),
    ],
)
def test_a_field_of_gpu_nodes_in_a_cloud_is_refused(said: dict[str, Any], path: str) -> None:
    with pytest.raises(BadInput) as error:
        plan_eks(cpu(**said), cluster=EXISTING)
    assert [problem.path for problem in error.value.problems] == [path]


def test_flex_start_is_for_gpu_pools() -> None:
    with pytest.raises(BadInput) as error:
        plan_gke(cpu("x", "n2-standard-8", count={"desired": 0, "max": 2}, capacity={"type": "flex-start"}))
    assert [problem.path for problem in error.value.problems] == ["pools[0].capacity.type"]


@pytest.mark.parametrize("workload", ["training", "inference", "development"])
def test_the_workload_of_a_cpu_pool_is_general(make_plan: PlanMaker, workload: str) -> None:
    found = problems(make_plan, cpu(workload=workload))
    assert list(found) == ["pools[0].workload"]
    assert "write workload: general" in found["pools[0].workload"]


def test_the_workload_general_is_refused_on_gpus(make_plan: PlanMaker) -> None:
    assert list(problems(make_plan, pool(workload="general"))) == ["pools[0].workload"]


def test_the_taint_of_gpu_nodes_is_refused_on_a_cpu_pool(make_plan: PlanMaker) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    assert list(problems(make_plan, cpu(taints=[taint]))) == ["pools[0].taints[0]"]


# -- EKS --------------------------------------------------------------------------------------------------


def node_group(**said: Any) -> EksPoolPlan:
    cloud = plan_eks(cpu(**said), cluster=EXISTING).pools[0].cloud
    assert isinstance(cloud, EksPoolPlan)
    return cloud


@pytest.mark.parametrize(
    ("machine", "family", "ami_type"),
    [
        ("m7i.2xlarge", None, "AL2023_x86_64_STANDARD"),
        ("m8g.2xlarge", None, "AL2023_ARM_64_STANDARD"),
        ("m7i.2xlarge", "bottlerocket", "BOTTLEROCKET_x86_64"),
        ("c7g.xlarge", "bottlerocket", "BOTTLEROCKET_ARM_64"),
    ],
)
def test_its_nodes_on_eks_have_the_image_without_nvidias_software(
    machine: str, family: str | None, ami_type: str
) -> None:
    image = {"image": {"family": family}} if family is not None else {}
    cloud = node_group(machine_type=machine, **image)
    assert cloud.ami_type == ami_type
    assert names.GPU_PRESENT_LABEL not in cloud.labels
    assert cloud.taints == ()


def test_a_node_group_without_gpus_grows_and_is_bought_as_others_are() -> None:
    cloud = node_group(count={"min": 1, "desired": 2, "max": 5}, capacity={"type": "spot"})
    assert (cloud.min_size, cloud.desired_size, cloud.max_size, cloud.keeps_size) == (1, 2, 5, True)
    assert cloud.capacity_type == "SPOT"


def test_its_own_image_registers_the_node_without_taints() -> None:
    user_data = node_group(image={"ami": "ami-0a1b2c3d4e5f60718"}).user_data
    assert user_data is not None
    flags = user_data.settings["spec"]["kubelet"]["flags"]
    assert [flag.partition("=")[0] for flag in flags] == ["--node-labels"]


def test_local_disks_of_a_machine_without_gpus_hold_images_and_pods() -> None:
    user_data = node_group(machine_type="i4i.4xlarge").user_data
    assert user_data is not None
    assert user_data.settings["spec"]["instance"] == {"localStorage": {"strategy": "RAID0"}}


def karpenter(**said: Any) -> KarpenterPoolPlan:
    form = cpu(count={"desired": 0, "max": 8}, provisioner="karpenter", **said)
    cloud = plan_eks(form, cluster=EXISTING).pools[0].cloud
    assert isinstance(cloud, KarpenterPoolPlan)
    return cloud


def test_karpenter_limits_a_cpu_pool_by_nodes_and_cpu() -> None:
    spec = karpenter().node_pool
    assert spec["limits"] == {"nodes": "8", "cpu": "64"}
    assert karpenter(karpenter={"limits": {"cpu": "64"}}).node_pool["limits"]["cpu"] == "64"
    assert spec["template"]["spec"]["taints"] == []
    assert spec["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    assert names.GPU_PRESENT_LABEL not in spec["template"]["metadata"]["labels"]


def test_karpenter_may_take_other_machines_that_are_no_smaller() -> None:
    alternatives = ["m7a.2xlarge", "r7i.2xlarge"]
    requirements = karpenter(karpenter={"alternatives": alternatives}).node_pool["template"]["spec"][
        "requirements"
    ]
    types = next(one for one in requirements if one["key"] == names.INSTANCE_TYPE_LABEL)
    assert types["values"] == ["m7i.2xlarge", *alternatives]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ("m7i.xlarge", "at least 8 vCPUs and 32768Mi"),
        ("c7i.2xlarge", "at least 8 vCPUs and 32768Mi"),
        ("m8g.2xlarge", "amd64, like m7i.2xlarge"),
        ("g5.2xlarge", "no GPUs, like m7i.2xlarge"),
    ],
)
def test_karpenter_may_not_take_a_machine_on_which_planned_pods_do_not_run(other: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        karpenter(karpenter={"alternatives": [other]})


def test_a_gpu_pool_has_no_alternative_without_gpus() -> None:
    form = {"machine_type": "g6.4xlarge", "workload": "inference", "count": {"desired": 0, "max": 2}}
    with pytest.raises(BadInput, match=r"GPU l4, like g6\.4xlarge"):
        plan_eks(
            {**form, "provisioner": "karpenter", "karpenter": {"alternatives": ["m7i.4xlarge"]}}, cluster=EXISTING
        )


# -- GKE --------------------------------------------------------------------------------------------------


def gke(**said: Any) -> PoolPlan:
    form: dict[str, Any] = {"machine_type": "n2-standard-8", "zones": ZONE, **said}
    return plan_gke(cpu(**form)).pools[0]


def gke_cloud(**said: Any) -> GkePoolPlan:
    cloud = gke(**said).cloud
    assert isinstance(cloud, GkePoolPlan)
    return cloud


def test_a_node_pool_without_gpus_has_no_accelerator() -> None:
    cloud = gke_cloud(count={"min": 1, "desired": 2, "max": 4})
    assert cloud.accelerator is None
    assert (cloud.image_type, cloud.disk_type, cloud.taints) == ("COS_CONTAINERD", "pd-balanced", ())
    assert (cloud.autoscaled, cloud.min_nodes, cloud.max_nodes) == (True, 1, 4)
    assert names.GPU_PRESENT_LABEL not in cloud.labels


@pytest.mark.parametrize(
    ("machine", "disk", "ssds"),
    [
        ("e2-standard-4", "pd-balanced", 0),
        ("n4-standard-8", "hyperdisk-balanced", 0),
        ("c3-standard-8-lssd", "pd-balanced", 2),
    ],
)
def test_its_disks_are_those_of_its_machine_series(machine: str, disk: str, ssds: int) -> None:
    cloud = gke_cloud(machine_type=machine)
    assert (cloud.disk_type, cloud.local_ssd_count) == (disk, ssds)


def test_nodes_without_nvidias_driver_boot_securely_on_ubuntu_too() -> None:
    assert gke_cloud(image={"family": "ubuntu"}).secure_boot


def test_pods_on_arm_nodes_tolerate_the_taint_that_gke_adds() -> None:
    workload = loader()
    plan = plan_gke(
        cpu(machine_type="c4a-standard-8", zones=ZONE),
        teams=[team(quota={}, members=["user:a@example.com"], workloads=[workload])],
    )
    assert plan.pools[0].taints == ()
    assert [str(one) for one in plan.teams[0].workloads[0].tolerations] == ["kubernetes.io/arch=arm64:NoSchedule"]


def test_no_driver_is_installed_on_nodes_without_gpus() -> None:
    plan = plan_gke(
        {"name": "serve", "machine_type": "g2-standard-12", "count": {"desired": 1}, "zones": ZONE,
         "workload": "inference"},
        cpu(machine_type="n2-standard-8", zones=ZONE, image={"family": "ubuntu"}),
    )  # fmt: skip
    cluster = plan.cluster.cloud
    assert cluster is not None
    (installer,) = cluster.installers  # pyrefly: ignore[missing-attribute]
    assert "monitoring" not in str(installer.pod_spec)


# -- existing clusters ------------------------------------------------------------------------------------


def test_nodes_of_an_existing_cluster_can_form_a_cpu_pool() -> None:
    form = cpu(machine_type="m7i.2xlarge", nodes={"names": ["a", "b"]})
    cluster = {"provider": "existing", "name": "ml", "context": "ml"}
    platform = {"kind": "environment", "cluster": cluster, "pools": [form]}
    plan = plan_platform(platform, "test")
    assert plan.kind == "environment"
    assert plan.pools[0].nodes.ownership == "labelled"
    assert names.DEPLOY_OPERANDS_LABEL not in plan.pools[0].labels


# -- quotas, cost, capacity, changes ----------------------------------------------------------------------


def test_cpu_nodes_count_against_the_quota_of_standard_instances() -> None:
    spot = cpu("loaders", "c7i.4xlarge", capacity={"type": "spot"})
    plan = plan_eks({"zones": ["us-east-2a"]}, cpu(), spot, cluster=EXISTING)
    found = {need.name: (need.unit, need.pools) for need in gpu_quotas(plan, CATALOG)}
    assert found == {
        "Running On-Demand P instances": ("vCPU", ("train",)),
        "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances": ("vCPU", ("monitoring",)),
        "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests": ("vCPU", ("loaders",)),
    }
    standard = next(one for one in gpu_demands(plan, CATALOG) if one.wanted_by == "monitoring")
    assert standard.desired == 2 * 8


def test_cpu_nodes_on_gke_count_against_vcpus_of_their_series() -> None:
    plan = plan_gke(cpu(machine_type="n2-standard-8", zones=ZONE), cpu("x", "n4-standard-8", zones=ZONE))
    assert [(need.name, need.unit) for need in gpu_quotas(plan, CATALOG)] == [("N2_CPUS", "vCPU"), (None, "vCPU")]


def test_cpu_nodes_cost_and_waste_no_gpus(make_plan: PlanMaker) -> None:
    plan = make_plan(pool("one", "g5.xlarge"), cpu(), teams=[team(quota={"gpus": 1})])
    assert plan.cost.usd_per_hour == pytest.approx(1.006 + 2 * 0.4032)
    assert plan.cost.unallocated_usd_per_hour == pytest.approx(0)
    use = report_capacity(plan, CATALOG).uses[1]
    assert (use.gpus, use.price, sum(one or 0 for one in use.wasted.values())) == (0, None, 0)


def test_workloads_without_gpus_are_placed_by_cpu_and_memory(make_plan: PlanMaker) -> None:
    workloads = [loader(replicas=6)]
    plan = make_plan(pool("one", "g5.xlarge"), cpu(), teams=[team(quota={"gpus": 1}, workloads=workloads)])
    proof = report_capacity(plan, CATALOG).desired.proof
    assert proof.verdict == "placed"
    assert sum(pods.pods for pods in proof.pods if pods.pool == "monitoring") == 6


def test_workloads_that_exceed_the_cpu_of_autoscaled_nodes_are_no_fit() -> None:
    workloads = [loader(replicas=40, memory="1Gi")]
    teams = [team(quota={"gpus": 0}, workloads=workloads)]
    plan = plan_eks(cpu(count={"min": 1, "desired": 2, "max": 4}), cluster=EXISTING, teams=teams)
    most = report_capacity(plan, CATALOG).most
    assert most is not None
    assert most.proof.verdict == "impossible"
    assert most.conflict is not None
    assert most.conflict.lacking == ("CPU on the CPU nodes",)


def test_a_replaced_cpu_pool_is_announced_by_its_nodes() -> None:
    before = plan_gke(cpu(machine_type="n2-standard-8", zones=ZONE))
    after = plan_gke(cpu(machine_type="n2-standard-8", zones=ZONE, capacity={"type": "spot"}))
    (change,) = pool_changes(pool_facts(before), after, CATALOG)
    assert str(change).startswith("pool monitoring is replaced: 2 nodes without GPUs are lost")


# -- workloads of teams -----------------------------------------------------------------------------------


def test_a_workload_on_a_cpu_pool_requests_cpu_and_memory_alone(make_plan: PlanMaker) -> None:
    plan = make_plan(cpu(), teams=[team(quota={}, workloads=[loader()])])
    (workload,) = plan.teams[0].workloads
    assert workload.requests == {"cpu": "2", "memory": "4Gi"}
    assert workload.node_selector == {names.POOL_LABEL: "monitoring"}


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"gpus": 1}, "gpus"),
        ({"gpu_memory": "8Gi"}, "gpu_memory"),
        ({"profile": "1g.10gb"}, "profile"),
        ({"cpu": "9"}, "cpu"),
        ({"memory": "40Gi"}, "memory"),
        ({"replicas": 7}, "replicas"),
    ],
)
def test_a_workload_that_a_cpu_pool_cannot_run_is_refused(
    make_plan: PlanMaker, said: dict[str, Any], field: str
) -> None:
    found = problems(make_plan, cpu(), teams=[team(quota={}, workloads=[loader(**said)])])
    assert f"teams[0].workloads[0].{field}" in found


def test_a_workload_without_gpus_is_refused_on_gpu_nodes(make_plan: PlanMaker) -> None:
    found = problems(make_plan, pool("monitoring"), teams=[team(workloads=[loader()])])
    assert "a pod without GPUs would occupy a GPU node" in found["teams[0].workloads[0].gpus"]
