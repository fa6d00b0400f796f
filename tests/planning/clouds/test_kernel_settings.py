"""Kernel settings that suit a pool's workload, their format on each cloud, and settings that are refused."""

from __future__ import annotations

import email
from typing import Any

import pytest
import yaml

from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from tests.planning.clouds.eks.eks_pools import node_group, planned, pool, problems_of, user_data_text
from tests.planning.clouds.eks.test_eks_user_data import node_config, settings
from tests.planning.clouds.gke.test_gke_decisions import decided
from tests.planning.clouds.gke.test_gke_decisions import planned as planned_on_gke
from tests.planning.clouds.gke.test_gke_invalid_pools import G2
from tests.planning.clouds.gke.test_gke_invalid_pools import problems_of as problems_on_gke

WITHOUT_EFA: dict[str, Any] = {"machine_type": "g6e.12xlarge", "network": {"rdma": False}}
TUNED: dict[str, Any] = {"tuning": {"intent": "training", "sysctls": {"vm.max_map_count": 1048576}}}


def cloud_config(text: str) -> dict[str, Any]:
    """Parse user data as cloud-init does, and return the only part with the cloud-config content type."""
    parts: Any = email.message_from_string(text).get_payload()
    (part,) = [one for one in parts if one.get_content_type() == "text/cloud-config"]
    assert part.get_payload().startswith("#cloud-config\n")
    return yaml.safe_load(part.get_payload())


def parameters(text: str) -> dict[str, str]:
    (file,) = cloud_config(text)["write_files"]
    assert cloud_config(text)["runcmd"] == [["sysctl", "--load", file["path"]]]
    return dict(line.split(" = ") for line in file["content"].splitlines())


def test_al2023_loads_kernel_parameters_before_its_kubelet_and_again_at_each_boot() -> None:
    text = user_data_text(node_group(**WITHOUT_EFA, **TUNED))
    found = parameters(text)
    assert found["vm.max_map_count"] == "1048576"
    assert found["net.core.rmem_max"] == "536870912"
    assert "application/node.eks.aws" in text


def test_a_declared_parameter_replaces_that_of_the_intent() -> None:
    tuning = {"intent": "training", "sysctls": {"net.core.rmem_max": "67108864"}}
    assert parameters(user_data_text(node_group(tuning=tuning)))["net.core.rmem_max"] == "67108864"


def test_nodes_without_tuning_have_the_settings_of_their_image() -> None:
    assert node_config(user_data_text(node_group()))["kind"] == "NodeConfig"
    assert (decided().sysctls, decided().huge_pages) == ({}, 0)


def test_bottlerocket_settings_have_kernel_parameters_and_huge_pages() -> None:
    found = settings(node_group(image={"family": "bottlerocket"}, **TUNED))["kernel"]["sysctl"]
    assert (found["vm.max_map_count"], found["vm.nr_hugepages"]) == ("1048576", "5128")


def test_nodes_of_karpenter_are_tuned_by_the_user_data_of_their_node_class() -> None:
    karpenter = {"provisioner": "karpenter", "count": {"desired": 0, "max": 2}, "workload": "development"}
    found = planned(**WITHOUT_EFA, **karpenter, **TUNED).cloud
    assert isinstance(found, KarpenterPoolPlan)
    assert parameters(found.node_class["userData"])["vm.max_map_count"] == "1048576"


def test_huge_pages_exist_before_the_kubelet_and_reduce_pod_memory() -> None:
    tuned = planned(**WITHOUT_EFA, tuning={"huge_pages": 2048})
    assert tuned.huge_pages_mib == 4096
    assert parameters(user_data_text(node_group(**WITHOUT_EFA, tuning={"huge_pages": 2048}))) == {
        "vm.nr_hugepages": "2048"
    }
    pool = {**G2, "tuning": {"huge_pages": 2048, "intent": "inference"}}
    on_gke = decided(**pool)
    assert (on_gke.huge_pages, planned_on_gke(pool).huge_pages_mib) == (2048, 4096)
    assert on_gke.sysctls == {"vm.swappiness": "1"}


@pytest.mark.parametrize(
    ("said", "place", "word"),
    [
        ({"tuning": {"huge_pages": 512}}, "tuning.huge_pages", "the EFA installer of the image reserves"),
        (
            {**WITHOUT_EFA, "tuning": {"huge_pages": 400000}},
            "tuning.huge_pages",
            "half of the machine's memory",
        ),
        (
            {
                **WITHOUT_EFA,
                "provisioner": "karpenter",
                "count": {"desired": 0, "max": 2},
                "workload": "development",
                "tuning": {"huge_pages": 512},
            },
            "tuning.huge_pages",
            "Karpenter does not support huge pages",
        ),
        ({"tuning": {"sysctls": {"vm.nr_hugepages": 512}}}, "tuning.sysctls.vm.nr_hugepages", "huge_pages"),
    ],
)
def test_what_nodes_of_eks_cannot_have_is_refused(said: dict[str, Any], place: str, word: str) -> None:
    (problem,) = problems_of(pool(**said))
    assert place in problem.path.replace('["', ".").replace('"]', "")
    assert word in str(problem)


def test_a_parameter_that_gke_does_not_allow_is_refused() -> None:
    (problem,) = problems_on_gke({"tuning": {"sysctls": {"kernel.sem": "250 32000 100 128"}}})
    assert "kernel.sem" in problem.path
    assert "net.core.rmem_max" in problem.allowed
    assert problems_on_gke({"tuning": {"sysctls": {"vm.max_map_count": 1048576}}}) == []
