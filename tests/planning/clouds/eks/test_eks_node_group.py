"""Disks, images, labels, taints and sizes of node groups (tests/components/eks/checklist.md, lines 6, 8, 10)."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice
from gpu_platform.planning.clouds.eks.plan import EksTaint
from tests.planning.clouds.eks.eks_pools import AMI, BLOCK, eks, node_group, plan_and_decisions, planned

KEY = "arn:aws:kms:us-east-2:123456789012:key/11111111-2222-3333-4444-555555555555"
BOTTLEROCKET = {"image": {"family": "bottlerocket"}}


def devices(**said: Any) -> dict[str, BlockDevice]:
    return {one.device_name: one for one in node_group(**said).block_devices}


def test_eks_6_disk_in_the_template_dev_xvda_al2023() -> None:
    (disk,) = devices(disk={"size_gb": 300}).values()
    assert (disk.device_name, disk.size_gib, disk.volume_type) == ("/dev/xvda", 300, "gp3")


def test_eks_6_dev_xvdb_has_the_size_and_both_disks_are_encrypted() -> None:
    said = devices(**BOTTLEROCKET, disk={"size_gb": 300, "kms_key": KEY})
    assert (said["/dev/xvdb"].size_gib, said["/dev/xvdb"].kms_key) == (300, KEY)
    assert said["/dev/xvda"].size_gib < 20
    assert said["/dev/xvda"].kms_key == KEY


def test_io2_says_how_many_iops_it_has_and_gp3_takes_those_included() -> None:
    assert devices(disk={"type": "io2"})["/dev/xvda"].iops == 3000
    assert devices(disk={"type": "gp3"})["/dev/xvda"].iops is None


@pytest.mark.parametrize(
    ("said", "throughput"),
    [
        ({}, None),
        ({"local_nvme": False}, 500),
        ({"machine_type": "g5g.metal"}, 500),
        ({"machine_type": "g5g.metal", "disk": {"type": "io2"}}, None),
    ],
)
def test_gp3_has_more_throughput_only_where_images_are_pulled_to_it(
    said: dict[str, Any], throughput: int | None
) -> None:
    assert devices(**said)["/dev/xvda"].throughput_mibps == throughput


@pytest.mark.parametrize(
    ("said", "ami_type"),
    [
        ({}, "AL2023_x86_64_NVIDIA"),
        ({"image": {"family": "al2023"}}, "AL2023_x86_64_NVIDIA"),
        ({"machine_type": "g5g.metal"}, "AL2023_ARM_64_NVIDIA"),
        (BOTTLEROCKET, "BOTTLEROCKET_x86_64_NVIDIA"),
        ({"machine_type": "g5g.metal", **BOTTLEROCKET}, "BOTTLEROCKET_ARM_64_NVIDIA"),
    ],
)
def test_eks_8_ami_type_al2023_and_bottlerocket_by_architecture(said: dict[str, Any], ami_type: str) -> None:
    plan = node_group(**said)
    assert (plan.ami_type, plan.ami) == (ami_type, None)


def test_an_own_ami_has_the_type_that_eks_takes_beside_it() -> None:
    plan = node_group(image={"ami": AMI})
    assert (plan.ami_type, plan.ami) == ("CUSTOM", AMI)


def test_eks_10_g7_needs_driver_595_and_a_custom_ami() -> None:
    plan = planned(machine_type="g7.8xlarge", image={"ami": AMI, "driver": "595.71.05"})
    assert plan.software.driver_branch == 595


def test_eks_8_labels_nvidia_com_gpu_present_true_beside_the_pools_own() -> None:
    plan = planned(labels={"example.com/tier": "gold"})
    assert plan.cloud is not None
    labels = plan.cloud.labels  # pyrefly: ignore[missing-attribute]
    assert labels["nvidia.com/gpu.present"] == "true"
    assert labels["example.com/tier"] == "gold"
    assert plan.labels.items() <= labels.items()


def test_eks_8_taint_nvidia_com_gpu_and_others_in_eks_spelling() -> None:
    plan = node_group(
        taints=[
            {"key": "a", "effect": "NoExecute"},
            {"key": "b", "value": "x", "effect": "PreferNoSchedule"},
            {"key": "c", "effect": "NoSchedule"},
        ]
    )
    assert plan.taints == (
        EksTaint(key="nvidia.com/gpu", value="present", effect="NO_SCHEDULE"),
        EksTaint(key="a", value="", effect="NO_EXECUTE"),
        EksTaint(key="b", value="x", effect="PREFER_NO_SCHEDULE"),
        EksTaint(key="c", value="", effect="NO_SCHEDULE"),
    )


def test_eks_8_scaling_config_and_update_config_follow_from_the_pool() -> None:
    plan = node_group(
        machine_type="g6.xlarge",
        workload="inference",
        count={"min": 1, "desired": 2, "max": 10},
        upgrade={"max_unavailable": 3},
    )
    assert (plan.min_size, plan.desired_size, plan.max_size, plan.max_unavailable) == (1, 2, 10, 3)
    assert node_group().max_unavailable == 1


def test_a_max_that_is_not_set_is_the_desired_size() -> None:
    assert node_group(machine_type="g6.xlarge", workload="inference", count={"desired": 4}).max_size == 4


@pytest.mark.parametrize("production", [True, False])
def test_pools_of_production_clusters_are_protected(production: bool) -> None:
    assert node_group(cluster=eks(production=production)).protect == production


def test_tags_name_cluster_and_pool() -> None:
    plan = node_group()
    assert plan.tags["Name"] == "ml-train"
    assert plan.tags["gpu-platform.dev/pool"] == "train"


def test_decisions_name_who_scales_and_who_uses_the_disk_key() -> None:
    count = {"min": 1, "desired": 2, "max": 10}
    _, said = plan_and_decisions(
        machine_type="g6.xlarge", workload="inference", count=count, disk={"kms_key": KEY}
    )
    assert (said["disk key"].chosen, "AWSServiceRoleForAutoScaling" in said["disk key"].why) == (KEY, True)
    assert said["size"].chosen == "2 at first, then 1 to 10"
    assert "the Cluster Autoscaler adds nodes" in said["size"].why
    _, said = plan_and_decisions(machine_type="g6.xlarge", workload="inference", count={"desired": 2})
    assert (said["size"].chosen, said["size"].why) == ("2", "max equals desired, so `up` sets the number of nodes")
    _, said = plan_and_decisions(capacity=BLOCK, count={"desired": 2})
    assert "at the end of the block, EKS sets the number of nodes" in said["size"].why


@pytest.mark.parametrize(
    ("ends", "who"),
    [("2026-12-14T11:30:00Z", "a scheduled action"), (None, "the person who scales the pool")],
    ids=["ends", "no-ends"],
)
def test_who_empties_a_block_is_the_same_in_each_decision(ends: str | None, who: str) -> None:
    block = {**BLOCK, **({"starts": "2026-12-01T11:30:00Z", "ends": ends} if ends else {})}
    _, said = plan_and_decisions(machine_type="p6e-gb200.36xlarge", capacity=block, count={"desired": 2})
    assert said["size"].why.startswith(f"at the end of the block, {who} sets")
    assert (f"{who} drains" in said["capacity"].why) == bool(ends)


def test_a_decision_states_that_a_capacity_block_must_have_begun() -> None:
    _, said = plan_and_decisions(capacity=BLOCK)
    assert "otherwise set starts, or write desired: 0" in said["capacity"].why


def test_every_choice_of_a_node_group_has_its_reason() -> None:
    _, decisions = plan_and_decisions()
    expected = {"network", "placement", "image", "local NVMe", "instance metadata", "repair", "update"}
    assert expected <= decisions.keys()
    assert all(decision.why for decision in decisions.values())


def test_every_instance_type_of_the_catalogue_has_a_family() -> None:
    catalog = load_catalog()
    for machine in catalog.machine_types.values():
        if machine.vendor == "aws":
            assert catalog.aws_family(machine).name == machine.name.split(".")[0]
