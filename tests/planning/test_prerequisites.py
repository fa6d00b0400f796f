"""Quotas that must be requested, and the fields of a shipped stack file that still have example values."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.prerequisites import vcpus_of
from gpu_platform.planning.clouds.gke.plan import (
    CreateGkePlan,
    ExistingVpcPlan,
    GkeClusterPlan,
    GkePoolPlan,
    UpgradeSettings,
)
from gpu_platform.planning.clouds.gke.prerequisites import gke_prerequisites
from gpu_platform.planning.prerequisites import account_needs, all_quotas, examples_left, gpu_quotas, prerequisites
from gpu_platform.stack.loaded import load_stack, plan_platform
from tests.support.cloud_plans import environment, filled, on_cloud

EKS = filled(EksClusterPlan, name="ml", region="us-east-2")
GKE = filled(GkeClusterPlan, name="ml", region="us-central1")


def with_pools(cluster: EksClusterPlan | GkeClusterPlan, **pools: dict[str, Any]) -> EnvironmentPlan:
    """Return a plan with these pools, each with a machine type, maximum number of nodes and capacity type."""
    one_by_one = filled(EksPoolPlan, update_strategy="MINIMAL") if cluster.kind == "eks" else filled(GkePoolPlan)
    clouds = {name: form.get("cloud", one_by_one) for name, form in pools.items()}
    plan = on_cloud(environment(dict.fromkeys(pools, 1)), cluster, **clouds)
    changed = [
        dataclasses.replace(
            pool,
            machine_type=pools[pool.name]["machine_type"],
            gpus_per_node=load_catalog().machine_types[pools[pool.name]["machine_type"]].gpu_count,
            capacity={"type": pools[pool.name].get("capacity", "on-demand")},
            nodes=dataclasses.replace(pool.nodes, max=pools[pool.name]["most"]),
        )
        for pool in plan.pools
    ]
    return dataclasses.replace(plan, pools=tuple(changed))


def quotas(plan: EnvironmentPlan) -> dict[tuple[str | None, str], tuple[int, str]]:
    return {(need.name, need.region): (need.amount, need.unit) for need in gpu_quotas(plan, load_catalog())}


def test_aws_counts_vcpus_of_the_most_nodes_by_family_and_region() -> None:
    plan = with_pools(
        EKS,
        train={"machine_type": "p5.48xlarge", "most": 4},
        learn={"machine_type": "p4de.24xlarge", "most": 1},
        serve={"machine_type": "g6e.12xlarge", "most": 10},
    )
    assert quotas(plan) == {
        ("Running On-Demand P instances", "us-east-2"): (4 * 192 + 96, "vCPU"),
        ("Running On-Demand G and VT instances", "us-east-2"): (10 * 48, "vCPU"),
    }


def test_nodes_that_eks_adds_for_an_upgrade_count_two_in_each_zone() -> None:
    one_zone = filled(EksPoolPlan, update_strategy="DEFAULT", zones=("us-east-2a",), max_unavailable=1)
    many = dataclasses.replace(one_zone, max_unavailable=5)
    plan = with_pools(
        dataclasses.replace(EKS, zones=("us-east-2a", "us-east-2b", "us-east-2c")),
        one={"machine_type": "p4de.24xlarge", "most": 3, "cloud": one_zone},
        five={"machine_type": "p4de.24xlarge", "most": 10, "cloud": many},
        all={"machine_type": "g6e.12xlarge", "most": 10, "cloud": dataclasses.replace(one_zone, zones=())},
    )
    assert quotas(plan) == {
        ("Running On-Demand P instances", "us-east-2"): ((3 + 2) * 96 + (10 + 5) * 96, "vCPU"),
        ("Running On-Demand G and VT instances", "us-east-2"): ((10 + 6) * 48, "vCPU"),
    }


def test_nodes_of_karpenter_count_as_the_largest_machine_type_that_they_may_have() -> None:
    types = {"key": "node.kubernetes.io/instance-type", "values": ["g6.4xlarge", "g6.16xlarge", "g6.8xlarge"]}
    node_pool = {"template": {"spec": {"requirements": [types]}}, "disruption": {"budgets": []}}
    pool = filled(KarpenterPoolPlan, node_pool=node_pool)
    plan = with_pools(EKS, develop={"machine_type": "g6.4xlarge", "most": 8, "cloud": pool})
    assert quotas(plan) == {("Running On-Demand G and VT instances", "us-east-2"): (8 * 64, "vCPU")}


def test_aws_also_counts_system_vcpus_and_nat_addresses() -> None:
    plan = load_stack("eks-training").plan
    assert plan.kind == "environment"
    needed = prerequisites(plan, ())
    assert needed is not None
    assert {(quota.name, quota.unit): quota.amount for quota in needed.quotas} == {
        # 4 x m7i.xlarge, and two more in each of three zones while EKS updates them
        ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "vCPU"): (4 + 6) * 4,
        ("EC2-VPC Elastic IPs", "Elastic IP addresses"): 3,
    }


@pytest.mark.parametrize(
    ("stack", "pool", "name"),
    [
        (
            "eks-training",
            {"machine_type": "m7i.2xlarge", "zones": ["us-east-2a"]},
            "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
        ),
        ("gke-training", {"machine_type": "n2-standard-8", "zones": ["us-central1-a"]}, "N2_CPUS"),
    ],
    ids=["EKS", "GKE"],
)
def test_a_quota_of_system_nodes_and_cpu_pools_is_named_once_with_their_sum(
    stack: str, pool: dict[str, Any], name: str
) -> None:
    shipped = cast("dict[str, Any]", load_stack(stack).platform)
    cluster = shipped["cluster"]
    if stack == "gke-training":
        create = {**cluster["create"], "system": {"machine_type": "n2-standard-8"}}
        cluster = {**cluster, "create": create}
    pools = [*shipped["pools"], {"name": "cpu", "workload": "general", "count": {"desired": 6}, **pool}]
    plan = plan_platform({**shipped, "cluster": cluster, "pools": pools}, "test")
    assert plan.kind == "environment"
    needed = prerequisites(plan, ())
    assert needed is not None
    alone = [one.amount for one in (*gpu_quotas(plan, load_catalog()), *needed.quotas) if one.name == name]
    [found] = [one for one in all_quotas(plan, needed, load_catalog()) if one.name == name]
    assert len(alone) == 2
    assert found.amount == sum(alone)
    assert found.what.startswith("cpu")
    assert ", and of " in found.what


@pytest.mark.parametrize(
    ("instance_type", "vcpus"),
    [("m7i.large", 2), ("m7i.xlarge", 4), ("m6i.24xlarge", 96), ("m7i.metal-24xl", None), ("t3.medium", None)],
)
def test_vcpus_of_an_instance_type_follow_from_its_size(instance_type: str, vcpus: int | None) -> None:
    assert vcpus_of(instance_type) == vcpus


def test_blue_green_counts_all_nodes_twice_and_surge_its_nodes_on_google_cloud() -> None:
    green = filled(GkePoolPlan, max_nodes=3, upgrade=filled(UpgradeSettings, strategy="BLUE_GREEN"))
    surge = filled(GkePoolPlan, upgrade=filled(UpgradeSettings, strategy="SURGE", max_surge=1))
    plan = with_pools(
        GKE,
        serve={"machine_type": "g2-standard-48", "most": 3, "cloud": green},
        train={"machine_type": "a3-megagpu-8g", "most": 4, "cloud": surge},
    )
    assert quotas(plan)[("NVIDIA_L4_GPUS", "us-central1")] == ((3 + 3) * 4, "GPU")
    assert quotas(plan)[("GPUS_PER_GPU_FAMILY, gpu_family NVIDIA_H100_MEGA", "us-central1")] == (5 * 8, "GPU")


def test_spot_counts_against_quotas_of_its_own() -> None:
    plan = with_pools(EKS, train={"machine_type": "p5.48xlarge", "most": 2, "capacity": "spot"})
    assert quotas(plan) == {("All P5 Spot Instance Requests", "us-east-2"): (384, "vCPU")}


def test_a_quota_whose_name_is_not_known_is_not_left_out() -> None:
    plan = with_pools(EKS, train={"machine_type": "p6-b200.48xlarge", "most": 1, "capacity": "spot"})
    assert quotas(plan) == {(None, "us-east-2"): (192, "vCPU")}


def test_reservations_and_capacity_blocks_counted_when_they_were_made() -> None:
    for capacity in ("reservation", "capacity-block"):
        plan = with_pools(EKS, train={"machine_type": "p5.48xlarge", "most": 4, "capacity": capacity})
        assert quotas(plan) == {}


def test_google_counts_gpus_by_family_and_over_all_regions_and_flex_start_as_spot() -> None:
    plan = with_pools(
        GKE,
        train={"machine_type": "a3-megagpu-8g", "most": 4},
        burst={"machine_type": "a3-ultragpu-8g", "most": 2, "capacity": "flex-start"},
        serve={"machine_type": "g2-standard-48", "most": 3, "capacity": "spot"},
    )
    assert quotas(plan) == {
        ("GPUS_PER_GPU_FAMILY, gpu_family NVIDIA_H100_MEGA", "us-central1"): (32, "GPU"),
        ("PREEMPTIBLE_NVIDIA_H200_GPUS", "us-central1"): (16, "GPU"),
        ("PREEMPTIBLE_NVIDIA_L4_GPUS", "us-central1"): (12, "GPU"),
        ("GPUS_ALL_REGIONS", "all regions"): (60, "GPU"),
    }


def test_google_counts_vpc_networks_disks_and_vcpus_beside_gpus() -> None:
    plan = load_stack("gke-training").plan
    assert plan.kind == "environment"
    needed = prerequisites(plan, ())
    assert needed is not None
    assert {(quota.name, quota.unit): quota.amount for quota in needed.quotas} == {
        ("NETWORKS", "VPC networks"): 9,
        ("CPUS", "vCPU"): (6 + 1) * 4,
        # one more node each for serve and develop while GKE upgrades them
        ("SSD_TOTAL_GB", "GB"): (4 + (2 + 1) + (8 + 1)) * 200 + (6 + 1) * 100,
        (None, "vCPU"): 4 * 208 + (2 + 1) * 48 + (8 + 1) * 12,
    }


@pytest.mark.parametrize(
    ("machine_type", "cpus", "disks"),
    [("n2-standard-8", "N2_CPUS", "SSD_TOTAL_GB"), ("n4-standard-8", None, "HDB_TOTAL_GB")],
)
def test_system_nodes_count_against_the_quotas_of_their_machine_type(
    machine_type: str, cpus: str | None, disks: str
) -> None:
    shipped = cast("dict[str, Any]", load_stack("gke-training").platform)
    create = {**shipped["cluster"]["create"], "system": {"machine_type": machine_type}}
    plan = plan_platform({**shipped, "cluster": {**shipped["cluster"], "create": create}}, "test")
    assert plan.kind == "environment"
    needed = prerequisites(plan, ())
    assert needed is not None
    quotas = [
        (quota.name, quota.unit)
        for quota in needed.quotas
        if quota.what == "system nodes, including rolling updates"
    ]
    assert quotas == [(cpus, "vCPU")]
    assert disks in [quota.name for quota in needed.quotas]


def test_hyperdisks_count_against_a_quota_of_their_own() -> None:
    cluster = filled(GkeClusterPlan, name="ml", disks_gb={"hyperdisk-balanced": 400, "pd-ssd": 100})
    quotas = gke_prerequisites(cluster, ["gcp:container/nodePool:NodePool"]).quotas
    found = {quota.name: quota.amount for quota in quotas if quota.unit == "GB"}
    assert found == {"HDB_TOTAL_GB": 400, "SSD_TOTAL_GB": 100}


def test_an_existing_account_of_nodes_and_an_existing_subnetwork_need_roles_on_them() -> None:
    own = filled(GkeClusterPlan, name="ml", node_email="nodes@p.iam.gserviceaccount.com")
    vpc = ExistingVpcPlan(network="n", subnetwork="projects/host/s", pods_range="p", services_range="s")
    create = filled(CreateGkePlan, existing_vpc=vpc, system_nodes=(2, 6), system_disk_type="pd-balanced")
    shared = dataclasses.replace(own, create=create)
    needed = gke_prerequisites(shared, ["gcp:container/cluster:Cluster"]).permissions
    assert "roles/iam.serviceAccountUser on nodes@p.iam.gserviceaccount.com" in needed
    assert "roles/compute.networkUser on projects/host/s" in needed


def test_the_account_needs_of_spot_nodes_are_named_once() -> None:
    requirement = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
    spot = filled(KarpenterPoolPlan, node_pool={"template": {"spec": {"requirements": [requirement]}}})
    plan = on_cloud(
        environment({"serve": 1, "develop": 1, "train": 1}),
        EKS,
        serve=spot,
        develop=spot,
        train=filled(EksPoolPlan),
    )
    assert [need.name for need in account_needs(plan)] == ["role AWSServiceRoleForEC2Spot"]


def test_clusters_that_are_no_clouds_need_no_quota_and_have_no_examples() -> None:
    plan = environment({"train": 1})
    assert gpu_quotas(plan, load_catalog()) == ()
    assert examples_left(plan) == ()


def test_examples_of_the_shipped_stacks_are_told_from_the_real() -> None:
    fields: dict[str, set[str]] = {}
    for stack in ("eks-training", "gke-training"):
        plan = load_stack(stack).plan
        assert plan.kind == "environment"
        fields[stack] = {example.field for example in examples_left(plan)}

    create = "cluster.create"
    assert fields["eks-training"] == {
        "cluster.account",
        f"{create}.admins",
        f"{create}.api_access",
        "cluster.logins",
        "pools[0].capacity.reservation",
    }
    assert fields["gke-training"] == {
        "cluster.project",
        f"{create}.api_access",
        f"{create}.authenticator_groups",
    }
