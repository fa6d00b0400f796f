"""The settings that nodes receive at their first boot (tests/components/eks/checklist.md, line 7)."""

from __future__ import annotations

import email
import tomllib
from typing import Any

import pytest
import yaml

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning.clouds.eks.launch_plan import ClusterAccess
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.clouds.eks.user_data import write_user_data
from gpu_platform.planning.clouds.provider_sharing import BOTTLEROCKET_MIG_MODELS
from tests.planning.clouds.eks.eks_pools import AMI, eks, node_group, planned, user_data_text

BOTTLEROCKET: dict[str, Any] = {"image": {"family": "bottlerocket"}}
STATIC: dict[str, Any] = {"topology": {"policy": "restricted", "memory": "static"}}
ACCESS = ClusterAccess(
    name="ml", endpoint="https://abc.eks.amazonaws.com", certificate_authority="Y2E=", service_cidr="172.20.0.0/16"
)


def node_config(text: str) -> dict[str, Any]:
    """Parse user data as nodeadm does. The only part of the MIME document has nodeadm's content type."""
    document = email.message_from_string(text)
    assert document.get_content_type() == "multipart/mixed"
    (part,) = document.get_payload()
    assert part.get_content_type() == "application/node.eks.aws"  # pyrefly: ignore[missing-attribute]
    return yaml.safe_load(part.get_payload())  # pyrefly: ignore[missing-attribute]


def kubelet_config(plan: EksPoolPlan) -> dict[str, Any]:
    return node_config(user_data_text(plan))["spec"]["kubelet"]["config"]


def settings(plan: EksPoolPlan) -> dict[str, Any]:
    return tomllib.loads(user_data_text(plan))["settings"]


def test_eks_7_mime_part_application_node_eks_aws_with_a_node_config() -> None:
    config = node_config(user_data_text(node_group()))
    assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")


def test_user_data_is_deterministic() -> None:
    assert user_data_text(node_group()) == user_data_text(node_group())


def test_eks_7_local_storage_strategy_raid0_where_the_machine_has_local_nvme() -> None:
    assert node_config(user_data_text(node_group()))["spec"]["instance"]["localStorage"]["strategy"] == "RAID0"


@pytest.mark.parametrize("said", [{"local_nvme": False}, {"machine_type": "g5g.metal"}])
def test_no_local_storage_where_there_is_none_or_it_is_left_alone(said: dict[str, Any]) -> None:
    assert "instance" not in node_config(user_data_text(node_group(**said)))["spec"]


def test_eks_7_topology_manager_policy_and_scope_with_cpu_manager_policy_static() -> None:
    config = kubelet_config(
        node_group(topology={"policy": "single-numa-node", "scope": "pod"}, workload="inference")
    )
    assert config["topologyManagerPolicy"] == "single-numa-node"
    assert config["topologyManagerScope"] == "pod"
    assert config["cpuManagerPolicy"] == "static"


@pytest.mark.parametrize("machine_type", ["p5.48xlarge", "g5.12xlarge", "p6-b300.48xlarge"])
def test_eks_7_reserved_memory_is_the_sum_of_all_reservations(
    machine_type: str,
) -> None:
    config = kubelet_config(node_group(machine_type=machine_type, **STATIC))
    assert config["memoryManagerPolicy"] == "Static"
    kept = parse_quantity(config["kubeReserved"]["memory"]) + parse_quantity(
        config["evictionHard"]["memory.available"]
    )
    assert sum(parse_quantity(one["limits"]["memory"]) for one in config["reservedMemory"]) == kept


def test_what_the_kubelet_keeps_is_what_the_plan_says_pods_cannot_have() -> None:
    plan = planned(**STATIC)
    assert isinstance(plan.cloud, EksPoolPlan)
    config = kubelet_config(plan.cloud)
    reserved = parse_quantity(config["reservedMemory"][0]["limits"]["memory"]) / 1024**2
    assert plan.memory_mib == 2097152 - reserved
    assert plan.cpu_millicores == 192_000 - int(config["kubeReserved"]["cpu"].removesuffix("m"))


def test_without_static_memory_the_image_reckons_what_it_keeps() -> None:
    assert not {"kubeReserved", "evictionHard", "reservedMemory"} & kubelet_config(node_group()).keys()


def test_a_pool_with_nothing_to_say_has_no_user_data() -> None:
    assert node_group(machine_type="g5g.xlarge", workload="inference").user_data is None


def test_user_data_of_eks_images_does_not_name_the_cluster() -> None:
    plan = node_group()
    assert plan.user_data is not None
    assert not plan.user_data.needs_cluster_access
    assert "cluster" not in node_config(write_user_data(plan.user_data, ACCESS))["spec"]


def test_an_own_image_is_told_the_cluster_that_it_joins() -> None:
    plan = node_group(image={"ami": AMI})
    assert plan.user_data is not None
    spec = node_config(write_user_data(plan.user_data, ACCESS))["spec"]
    assert spec["cluster"] == {
        "name": "ml",
        "apiServerEndpoint": "https://abc.eks.amazonaws.com",
        "certificateAuthority": "Y2E=",
        "cidr": "172.20.0.0/16",
    }
    assert spec["instance"]["localStorage"]["strategy"] == "RAID0"
    assert spec["kubelet"]["config"]["cpuManagerPolicy"] == "static"


def test_a_custom_image_registers_with_labels_and_taints() -> None:
    plan = node_group(
        machine_type="g5g.xlarge",
        image={"ami": AMI},
        taints=[{"key": "team", "value": "vision", "effect": "NoExecute"}],
    )
    labels, taints = node_config(user_data_text(plan))["spec"]["kubelet"]["flags"]
    told = dict(pair.split("=") for pair in labels.removeprefix("--node-labels=").split(","))
    assert told == plan.labels
    assert taints == "--register-with-taints=nvidia.com/gpu=present:NoSchedule,team=vision:NoExecute"


def test_bottlerocket_gets_toml_settings_of_the_kubelet() -> None:
    said = settings(node_group(**BOTTLEROCKET, **STATIC))["kubernetes"]
    assert said["topology-manager-policy"] == "restricted"
    assert said["topology-manager-scope"] == "container"
    assert said["cpu-manager-policy"] == "static"
    assert said["memory-manager-policy"] == "Static"
    kept = parse_quantity(said["kube-reserved"]["memory"]) + parse_quantity(
        said["eviction-hard"]["memory.available"]
    )
    (reserved,) = said["memory-manager-reserved-memory"].values()
    assert reserved["enabled"]
    assert parse_quantity(reserved["memory"]) == kept


def test_bottlerocket_binds_pods_and_images_to_local_nvme_at_every_boot() -> None:
    (command,) = settings(node_group(**BOTTLEROCKET))["bootstrap-commands"].values()
    assert command["commands"][0] == ["apiclient", "ephemeral-storage", "init"]
    assert command["commands"][1][:3] == ["apiclient", "ephemeral-storage", "bind"]
    assert {"/var/lib/containerd", "/var/lib/kubelet"} <= set(command["commands"][1])
    assert (command["essential"], command["mode"]) == (True, "always")
    assert "bootstrap-commands" not in settings(node_group(**BOTTLEROCKET, local_nvme=False))


def test_bottlerocket_sets_aside_the_huge_pages_that_pods_with_efa_ask_for() -> None:
    pages = int(settings(node_group(**BOTTLEROCKET))["kernel"]["sysctl"]["vm.nr_hugepages"])
    assert pages * 2 >= 5120  # pods with EFA request 5120 MiB of huge pages
    assert "kernel" not in settings(node_group(**BOTTLEROCKET, network={"rdma": False}))


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        (
            {"mode": "time-slicing", "replicas": 4},
            {
                "device-sharing-strategy": "time-slicing",
                "time-slicing": {
                    "replicas": 4,
                    "rename-by-default": True,
                    "fail-requests-greater-than-one": True,
                },
            },
        ),
        (
            {"mode": "mps", "replicas": 8, "rename": False},
            {"device-sharing-strategy": "mps", "mps": {"replicas": 8, "rename-by-default": False}},
        ),
        (
            {"mode": "mig", "layout": {"1g.10gb": 7}, "strategy": "single"},
            {"device-partitioning-strategy": "mig", "mig": {"profile": {"h100.80gb": "1g.10gb"}}},
        ),
    ],
)
def test_bottlerocket_shares_gpus_by_the_settings_of_its_own_device_plugin(
    sharing: dict[str, Any], expected: dict[str, Any]
) -> None:
    plan = node_group(**BOTTLEROCKET, workload="development", sharing=sharing)
    assert settings(plan)["kubelet-device-plugins"]["nvidia"] == expected


def test_al2023_leaves_sharing_to_the_operator() -> None:
    plan = node_group(workload="development", sharing={"mode": "time-slicing", "replicas": 4})
    assert list(node_config(user_data_text(plan))["spec"]) == ["instance"]


MIG_MACHINES = {
    "a100-40gb": ("p4d.24xlarge", "1g.5gb"),
    "a100-80gb": ("p4de.24xlarge", "1g.10gb"),
    "h100-80gb": ("p5.48xlarge", "1g.10gb"),
    "h200-141gb": ("p5en.48xlarge", "1g.18gb"),
    "b200": ("p6-b200.48xlarge", "1g.23gb"),
}


@pytest.mark.parametrize("model", BOTTLEROCKET_MIG_MODELS)
def test_every_gpu_that_bottlerocket_cuts_has_its_name_there(model: str) -> None:
    machine_type, profile = MIG_MACHINES[model]
    plan = node_group(
        **BOTTLEROCKET,
        machine_type=machine_type,
        workload="development",
        sharing={"mode": "mig", "layout": {profile: 7}, "strategy": "single"},
    )
    (named,) = settings(plan)["kubelet-device-plugins"]["nvidia"]["mig"]["profile"]
    assert named.split(".")[0] == model.split("-")[0]


def test_an_own_bottlerocket_image_is_told_cluster_labels_and_taints() -> None:
    plan = node_group(image={"family": "bottlerocket", "ami": AMI}, cluster=eks())
    assert plan.user_data is not None
    said = tomllib.loads(write_user_data(plan.user_data, ACCESS))["settings"]["kubernetes"]
    assert said["cluster-name"] == "ml"
    assert said["api-server"] == "https://abc.eks.amazonaws.com"
    assert said["cluster-certificate"] == "Y2E="
    assert said["node-labels"] == plan.labels
    assert said["node-taints"] == {"nvidia.com/gpu": ["present:NoSchedule"]}
