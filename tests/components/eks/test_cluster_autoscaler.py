"""The rendered Cluster Autoscaler, and the tags that it uses to find the Auto Scaling groups."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_platform.deploy.recorded.properties import UNKNOWN
from tests.components.eks.aws_model import problems
from tests.components.eks.aws_requests import requests_of
from tests.support.eks_stacks import CREATED, EXISTING, record_eks
from tests.support.recorded import Recorded

SERVE: dict[str, Any] = {
    "name": "serve",
    "machine_type": "g6e.12xlarge",
    "count": {"min": 0, "desired": 1, "max": 8},
    "workload": "inference",
    "sharing": {"mode": "time-slicing", "replicas": 4},
}
FIXED = {**SERVE, "name": "fixed", "count": {"desired": 1}}


def tags_of(recorded: Recorded) -> dict[str, str]:
    return {one.inputs["tag"]["key"]: one.inputs["tag"]["value"] for one in recorded.of("Tag")}


@pytest.mark.parametrize("cluster", [CREATED, EXISTING])
def test_the_auto_scaling_group_is_tagged_even_if_its_name_is_unknown(
    cluster: dict[str, Any],
) -> None:
    recorded = record_eks(SERVE, FIXED, cluster=cluster)
    tags = recorded.of("Tag")
    assert tags
    node_group = recorded.one("NodeGroup", "serve")
    for tag in tags:
        assert tag.inputs["autoscalingGroupName"] == UNKNOWN
        assert tag.property_dependencies["autoscalingGroupName"] == (node_group.urn,)
        assert tag.inputs["tag"]["propagateAtLaunch"] is False
        assert "index:EksNodePool" in tag.parent
    found = tags_of(recorded)
    assert found["k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu.shared"] == "16"
    assert found["gpu-platform.dev/cluster-autoscaler"] == "ml"


@pytest.mark.parametrize("cluster", [CREATED, EXISTING])
def test_its_requests_pass_the_parameter_validation_of_the_aws_api(cluster: dict[str, Any]) -> None:
    recorded = record_eks(SERVE, cluster=cluster)
    records = [one for one in recorded.resources if one.type.startswith("aws:") and not one.external]
    assert {"Tag", "RolePolicy", "PodIdentityAssociation"} <= {one.type.rsplit(":", 1)[-1] for one in records}
    for record in records:
        for request in requests_of(record):
            assert problems(request) == [], record.urn


def test_the_release_is_pinned_and_waits_for_the_role_of_its_service_account() -> None:
    recorded = record_eks(SERVE, cluster=CREATED)
    release = recorded.one("Release", "cluster-autoscaler")
    assert release.inputs["version"].startswith("9.")
    assert release.inputs["repositoryOpts"] == {"repo": "https://kubernetes.github.io/autoscaler"}
    association = recorded.one("PodIdentityAssociation", "cluster-autoscaler")
    policy = recorded.one("RolePolicy", "cluster-autoscaler")
    assert {association.urn, policy.urn} <= set(release.dependencies)
    account = release.inputs["values"]["rbac"]["serviceAccount"]["name"]
    assert association.inputs["serviceAccount"] == account
    trusted = json.loads(recorded.one("Role", "cluster-autoscaler").inputs["assumeRolePolicy"])
    (statement,) = trusted["Statement"]
    assert statement["Condition"]["StringEquals"]["aws:RequestTag/kubernetes-service-account"] == account


def test_the_autoscaler_is_left_out_if_every_pool_has_a_fixed_size() -> None:
    recorded = record_eks(FIXED)
    assert not recorded.has("Tag")
    assert not recorded.has("ClusterAutoscaler")


def test_with_an_existing_autoscaler_only_the_groups_are_tagged() -> None:
    recorded = record_eks(SERVE, cluster={**EXISTING, "parts": {"cluster_autoscaler": "present"}})
    assert recorded.has("Tag")
    for kind in ("ClusterAutoscaler", "PodIdentityAssociation"):
        assert not recorded.has(kind)
