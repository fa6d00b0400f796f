"""The resources that the program registers for rack-scale machines on each cloud, with every output unknown."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.support.racks import POOLS, rack
from tests.support.recorded import Recorded, record_platform


@cache
def recorded(provider: str) -> Recorded:
    platform = rack(provider)
    return record_platform(platform)


@pytest.mark.parametrize("provider", sorted(POOLS))
def test_the_dra_driver_is_a_release_in_a_separate_namespace_after_the_operator(provider: str) -> None:
    recording = recorded(provider)
    release = recording.one("Release", "dra-driver-nvidia-gpu")
    assert release.inputs["namespace"] == "dra-driver-nvidia-gpu"
    namespace = recording.one("Namespace", "dra-driver-nvidia-gpu")
    assert namespace.inputs["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "privileged"}
    assert namespace.urn in release.dependencies
    assert recording.one("Release", "gpu-operator").urn in namespace.dependencies


def test_on_gke_a_quota_admits_the_pods_of_the_driver() -> None:
    quota = recorded("gke").one("ResourceQuota", "dra-driver-nvidia-gpu-system-critical")
    assert quota.inputs["metadata"]["namespace"] == "dra-driver-nvidia-gpu"
    assert quota.inputs["spec"]["hard"] == {"pods": "46"}


@pytest.mark.parametrize("provider", sorted(POOLS))
def test_a_workload_has_a_compute_domain_and_its_pods_claim_the_channel(provider: str) -> None:
    recording = recorded(provider)
    domain = recording.one("ComputeDomain", "pretrain")
    assert domain.inputs["apiVersion"] == "resource.nvidia.com/v1beta1"
    assert domain.inputs["metadata"] == {"name": "pretrain", "namespace": "vision"}
    channel = {"resourceClaimTemplate": {"name": "pretrain-channel"}}
    assert domain.inputs["spec"] == {"numNodes": 0, "channel": channel}
    pod = recording.one("Deployment", "pretrain").inputs["spec"]["template"]["spec"]
    claim = {"name": "pretrain-channel", "resourceClaimTemplateName": "pretrain-channel"}
    assert pod["resourceClaims"][0] == claim
    assert pod["containers"][0]["resources"]["claims"][0] == {"name": "pretrain-channel"}
    # The DRA driver, not the program, creates the template.
    templates = [one for one in recording.resources if one.type.endswith(":ResourceClaimTemplate")]
    assert "pretrain-channel" not in [one.inputs["metadata"]["name"] for one in templates]


def test_on_gke_pods_with_all_gpus_of_a_node_claim_its_rdma_nics() -> None:
    template = recorded("gke").one("ResourceClaimTemplate", "rack-nics")
    assert template.inputs["metadata"]["namespace"] == "vision"
    (request,) = template.inputs["spec"]["spec"]["devices"]["requests"]
    wanted = {"deviceClassName": "mrdma.google.com", "allocationMode": "ExactCount", "count": 4}
    assert request["exactly"] == wanted
    pod = recorded("gke").one("Deployment", "pretrain").inputs["spec"]["template"]["spec"]
    assert [claim["name"] for claim in pod["resourceClaims"]] == ["pretrain-channel", "rack-nics"]


def test_members_may_create_compute_domains_only_with_a_rack_pool() -> None:
    rules = recorded("eks").one("Role", "vision/member").inputs["rules"]
    (rule,) = [one for one in rules if one["apiGroups"] == ["resource.nvidia.com"]]
    assert rule["resources"] == ["computedomains"]
    assert "*" not in rule["verbs"]
    plain = {"name": "train", "machine_type": "p5.48xlarge", "count": {"desired": 1}, "workload": "training"}
    platform = rack("eks", pools=[{**plain, "zones": ["us-east-1a"]}])
    platform["teams"][0]["workloads"], platform["teams"][0]["quota"] = [], {"gpus": 8}
    loaded = LoadedStack("test", Path("Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    others = Recorded(record_stack(loaded)).one("Role", "vision/member").inputs["rules"]
    assert all("resource.nvidia.com" not in one["apiGroups"] for one in others)
