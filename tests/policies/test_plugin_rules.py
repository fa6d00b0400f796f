"""Rules about pools with two device plugins, one from GKE or Bottlerocket and one from the GPU Operator."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    cluster_policy,
    eks_node_group,
    gke_node_pool,
    helm_release,
    karpenter_node_pool,
    node,
    not_checked,
    only,
    record,
    violations,
)

RULE = "plugin-ownership"
OPERANDS_OFF = {"nvidia.com/gpu.deploy.operands": "false"}
OPERATOR = helm_release({"devicePlugin": {"enabled": True}})


def bottlerocket(**inputs: Any) -> Record:
    return eks_node_group(amiType="BOTTLEROCKET_x86_64_NVIDIA", **inputs)


def node_class(name: str = "train", **spec: Any) -> Record:
    inputs = {"metadata": {"name": name}, "spec": spec}
    return record("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass", name, inputs)


@pytest.mark.parametrize(
    "pool",
    [
        eks_node_group(),
        bottlerocket(labels=OPERANDS_OFF),
        bottlerocket(labels={"nvidia.com/gpu.deploy.device-plugin": "false"}),
        eks_node_group(amiType="BOTTLEROCKET_x86_64", instanceTypes=["m7i.large"]),
        gke_node_pool(),
        gke_node_pool(labels=OPERANDS_OFF),
        gke_node_pool(machineType="n2-standard-8", guestAccelerators=[], labels={}),
        karpenter_node_pool(),
        node(),
    ],
    ids=[
        "al2023",
        "bottlerocket-operands-off",
        "bottlerocket-plugin-off",
        "bottlerocket-without-nvidia",
        "gke-plugin-off",
        "gke-operands-off",
        "gke-cpu",
        "karpenter",
        "node",
    ],
)
def test_a_pool_with_one_device_plugin_passes(pool: Record):
    assert violations(RULE, pool, OPERATOR) == []


@pytest.mark.parametrize(
    ("pool", "place", "whose"),
    [
        (bottlerocket(), "amiType", "Bottlerocket's own"),
        (gke_node_pool(labels={}), "nodeConfig.labels.gke-no-default-nvidia-gpu-device-plugin", "GKE's own"),
        (
            gke_node_pool(labels={"gke-no-default-nvidia-gpu-device-plugin": "false"}),
            "nodeConfig.labels.gke-no-default-nvidia-gpu-device-plugin",
            "GKE's own",
        ),
    ],
    ids=["bottlerocket", "gke", "gke-label-false"],
)
def test_two_device_plugins_on_one_pool_are_found_where_the_second_comes_from(
    pool: Record, place: str, whose: str
):
    found = only(violations(RULE, pool, OPERATOR))
    assert found.problem.path == place
    assert found.problem.found == f"two device plugins on pool 'train': {whose} and the GPU Operator's"
    assert "nvidia.com/gpu.deploy.operands=false" in found.problem.fix


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"amiFamily": "Bottlerocket"}, "spec.amiFamily"),
        ({"amiSelectorTerms": [{"alias": "bottlerocket@v1.54.0"}]}, "spec.amiSelectorTerms[0].alias"),
    ],
)
def test_karpenters_bottlerocket_nodes_have_a_device_plugin_of_their_own(spec: dict[str, Any], place: str):
    found = only(violations(RULE, karpenter_node_pool(), node_class(**spec), OPERATOR))
    assert found.problem.path == place


def test_karpenters_al2023_nodes_have_none():
    spec: dict[str, Any] = {"amiSelectorTerms": [{"alias": "al2023@v20260709"}]}
    of_another_pool = node_class("serve", amiFamily="Bottlerocket")
    assert violations(RULE, karpenter_node_pool(), of_another_pool, node_class(**spec), OPERATOR) == []


@pytest.mark.parametrize("pool", [bottlerocket(), gke_node_pool(labels={})], ids=["bottlerocket", "gke"])
def test_without_the_operators_device_plugin_the_nodes_own_is_the_only_one(pool: Record):
    assert violations(RULE, pool) == []
    assert violations(RULE, pool, helm_release({"devicePlugin": {"enabled": False}})) == []
    assert violations(RULE, pool, cluster_policy(devicePlugin={"enabled": False})) == []


def test_the_operators_device_plugin_is_on_where_nothing_is_said():
    assert only(violations(RULE, bottlerocket(), helm_release({"toolkit": {"enabled": False}})))


@pytest.mark.parametrize(
    ("pool", "operator"),
    [
        (eks_node_group(amiType=UNKNOWN), OPERATOR),
        (bottlerocket(labels=UNKNOWN), OPERATOR),
        (gke_node_pool(labels=UNKNOWN), OPERATOR),
        (bottlerocket(), helm_release({"devicePlugin": {"enabled": UNKNOWN}})),
        (bottlerocket(), helm_release(UNKNOWN)),
    ],
    ids=["image", "eks-labels", "gke-labels", "enabled", "values"],
)
def test_what_is_not_known_yet_is_not_checked(pool: Record, operator: Record):
    assert "not known yet" in not_checked(RULE, pool, operator)


def test_a_pool_can_be_exempted_with_a_reason_until_a_date():
    exempt = [{"resource": "train", "reason": "moves to AL2023", "owner": "vision", "until": "2026-12-31"}]
    assert violations(RULE, bottlerocket(), OPERATOR, exempt=exempt) == []
    over = [{**exempt[0], "until": "2026-11-20"}]
    assert only(violations(RULE, bottlerocket(), OPERATOR, exempt=over))


def test_the_pulumi_clis_form_of_a_day_without_quotes_is_read():
    day = "2026-12-31 00:00:00 +0000 UTC"
    exempt = [{"resource": "train", "reason": "moves to AL2023", "owner": "vision", "until": day}]
    assert violations(RULE, bottlerocket(), OPERATOR, exempt=exempt) == []
