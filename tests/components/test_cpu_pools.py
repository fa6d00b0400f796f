"""The rendered resources for CPU pools next to GPU pools, on each cloud and in the sandbox."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest

from policies import evaluate
from tests.support.recorded import Recorded, record_platform

TODAY = datetime.date(2026, 11, 23)
Stack = Callable[[str], Recorded]
SANDBOX = {
    "kind": "environment",
    "cluster": {"provider": "sandbox"},
    "pools": [
        {"name": "serve", "machine_type": "g4dn.xlarge", "count": {"desired": 1}, "workload": "inference"},
        {"name": "monitoring", "machine_type": "m7i.2xlarge", "count": {"desired": 2}, "workload": "general"},
    ],
}


def sandbox() -> Recorded:
    return record_platform(SANDBOX)


def test_node_groups_without_gpus_have_plain_images_and_only_declared_taints(stack: Stack) -> None:
    groups = {one.name: one.inputs for one in stack("eks-monitoring").of("NodeGroup")}
    assert groups["monitoring"]["amiType"] == "AL2023_x86_64_STANDARD"
    assert groups["ingress"]["amiType"] == "AL2023_ARM_64_STANDARD"
    assert groups["serve"]["amiType"] == "AL2023_x86_64_NVIDIA"
    assert not groups["monitoring"].get("taints")
    assert [taint["key"] for taint in groups["ingress"]["taints"]] == ["example.com/ingress"]
    assert "nvidia.com/gpu.present" not in groups["monitoring"]["labels"]


def test_karpenters_node_pool_without_gpus_is_limited_by_cpu(stack: Stack) -> None:
    (found,) = [
        one for one in stack("eks-monitoring").of("NodePool") if one.type.startswith("kubernetes:karpenter")
    ]
    assert found.inputs["spec"]["limits"] == {"nodes": "8", "cpu": "128"}


def test_node_pools_of_gke_without_gpus_have_no_guest_accelerators(stack: Stack) -> None:
    pools = [one for one in stack("gke-monitoring").of("NodePool") if one.type.startswith("gcp:")]
    configs = {one.name: one.inputs["nodeConfig"] for one in pools}
    assert "guestAccelerators" in configs["serve"]
    for name in ("monitoring", "ingress", "loaders"):
        assert "guestAccelerators" not in configs[name], name
        assert configs[name]["imageType"] == "COS_CONTAINERD"
    assert configs["loaders"]["ephemeralStorageLocalSsdConfig"] == {"localSsdCount": 4}


@pytest.mark.parametrize("name", ["eks-monitoring", "gke-monitoring"])
def test_the_agent_runs_only_on_gpu_nodes(stack: Stack, name: str) -> None:
    agents = [one.name for one in stack(name).of("DaemonSet") if one.name.startswith("validate-")]
    assert agents == ["validate-serve"]
    assert set(stack(name).one("ConfigMap", "proven-pools").inputs["data"]) == {"serve"}


def test_teams_wait_for_the_nodes_of_cpu_pools_too() -> None:
    proof = sandbox().one("ConfigMap", "proven-pools")
    assert any("monitoring" in urn for urn in proof.dependencies), proof.dependencies


def test_a_simulated_node_without_gpus_has_neither_driver_nor_taint() -> None:
    node = sandbox().one("Node", "monitoring-0").inputs
    assert "sandbox.gpu-platform.dev/driver-version" not in node["metadata"]["annotations"]
    assert not node["spec"].get("taints")


@pytest.mark.parametrize("name", ["eks-monitoring", "gke-monitoring"])
def test_a_workload_on_a_cpu_pool_requests_no_gpu_and_selects_the_pool(stack: Stack, name: str) -> None:
    pod = stack(name).one("Deployment", "assistants/loader").inputs["spec"]["template"]["spec"]
    assert set(pod["containers"][0]["resources"]["limits"]) == {"cpu", "memory"}
    assert pod["nodeSelector"] == {"gpu-platform.dev/pool": "loaders"}
    assert [one["key"] for one in pod["tolerations"]] == ["example.com/spot"]


@pytest.mark.parametrize("name", ["eks-monitoring", "gke-monitoring"])
def test_no_policy_finds_fault_with_a_cpu_pool(stack: Stack, name: str) -> None:
    records = [one.to_json() for one in stack(name).resources]
    assert evaluate(records, {"all": "mandatory"}, TODAY).violations == ()


def test_the_class_of_prometheus_is_rendered(stack: Stack) -> None:
    for name in ("eks-monitoring", "gke-monitoring"):
        assert stack(name).one("StorageClass", "prometheus").inputs["reclaimPolicy"] == "Retain"
