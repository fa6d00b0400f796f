"""How rules recognise GPU pools, the GPU Operator and the operator's configs."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    cluster_policy,
    config_map,
    container,
    deployment,
    device_plugin_config_map,
    eks_node_group,
    gke_node_pool,
    helm_release,
    karpenter_node_pool,
    launch_template,
    layout,
    mig_node,
    mig_parted_config_map,
    namespace,
    node,
    not_checked,
    only,
    pod_spec,
    quota,
    record,
    shared,
    violations,
    with_strategy,
)

from gpu_platform.catalog import load_catalog
from policies._gpu_operator import operator
from policies._inputs import NotVisible
from policies._stack import Stack

NO_MACHINE = {"node.kubernetes.io/instance-type": None}


def untainted_gpu_pool(pool: Record) -> bool:
    """Return whether the rules recognise a pool without taints as a GPU pool."""
    return bool(violations("gpu-node-taint", pool))


def renamed(pool: Record, name: str | None) -> Record:
    """Return a GKE node pool with another name. If `name` is None, Pulumi chooses the name."""
    pool["inputs"]["name"] = name
    return pool


# -- GPU pools --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["nvidia.com/gpu.present", "nvidia.com/gpu.product", "nvidia.com/mig.config"])
def test_a_gpu_label_makes_a_gpu_pool_of_a_machine_outside_the_catalogue(label: str):
    plain: dict[str, Any] = {"nvidia.com/device-plugin.config": None}
    assert not untainted_gpu_pool(node(machine_type="m7i.large", taints=(), labels=plain))
    assert untainted_gpu_pool(node(machine_type="m7i.large", taints=(), labels={**plain, label: "true"}))


def test_the_platforms_label_makes_a_gpu_pool_without_a_machine():
    plain = {**NO_MACHINE, "nvidia.com/device-plugin.config": None}
    assert untainted_gpu_pool(node(taints=(), labels=plain))
    assert not untainted_gpu_pool(node(taints=(), labels={**plain, "gpu-platform.dev/pool": None}))


def test_a_node_that_lists_no_taints_has_none():
    assert untainted_gpu_pool(node(taints=None))


def test_a_simulated_nodes_annotation_names_its_machine():
    annotated = {"sandbox.gpu-platform.dev/machine-type": "p4de.24xlarge"}
    found = only(violations("topology-for-multi-gpu", node(labels=NO_MACHINE, annotations=annotated)))
    assert "8 GPUs a node" in found.problem.found


def test_an_nvidia_image_makes_a_gpu_pool_of_a_machine_outside_the_catalogue():
    plain = {"instanceTypes": ["p9.48xlarge"], "labels": {}, "taints": []}
    assert untainted_gpu_pool(eks_node_group(amiType="BOTTLEROCKET_x86_64_NVIDIA", **plain))
    assert not untainted_gpu_pool(eks_node_group(amiType="BOTTLEROCKET_x86_64", **plain))
    assert not untainted_gpu_pool(eks_node_group(amiType=None, **plain))


def test_the_launch_template_is_found_among_the_dependencies():
    cluster = record("aws:eks/cluster:Cluster", "ml-prod", {})
    group = eks_node_group(instanceTypes=[], amiType="CUSTOM", labels={}, taints=[])
    group["dependencies"].insert(0, cluster["urn"])
    assert only(violations("gpu-node-taint", cluster, launch_template(instanceType="p5.48xlarge"), group))
    assert violations("gpu-node-taint", cluster, launch_template(instanceType="m7i.large"), group) == []


def test_a_tpu_pool_is_no_gpu_pool():
    tpu = [{"type": "tpu-v5-lite-podslice", "count": 4}]
    assert not untainted_gpu_pool(
        gke_node_pool(machineType="ct5lp-hightpu-4t", guestAccelerators=tpu, labels={}, taints=[])
    )


@pytest.mark.parametrize(
    ("requirement", "gpus"),
    [
        ({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g6e", "p5"]}, True),
        ({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m7i"]}, False),
        ({"key": "karpenter.k8s.aws/instance-family", "operator": "NotIn", "values": ["p5"]}, False),
        ({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]}, True),
        ({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"}, False),
        ({"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["8"]}, False),
    ],
)
def test_karpenters_requirements_say_whether_a_pool_has_gpus(requirement: dict[str, Any], gpus: bool):
    assert untainted_gpu_pool(karpenter_node_pool([requirement], taints=[])) is gpus


@pytest.mark.parametrize(
    ("pool", "name"),
    [
        (eks_node_group(nodeGroupName="blue", labels={}, taints=[]), "blue"),
        (eks_node_group(nodeGroupName=None, labels={}, taints=[]), "train"),
        (eks_node_group(nodeGroupName="blue", labels={"gpu-platform.dev/pool": "red"}, taints=[]), "red"),
        (eks_node_group(nodeGroupName="blue", labels={"gpu-platform.dev/pool": UNKNOWN}, taints=[]), "blue"),
        (renamed(gke_node_pool(labels={}, taints=[]), "green"), "green"),
        (renamed(gke_node_pool(labels={}, taints=[]), None), "train"),
    ],
)
def test_a_pools_name_is_its_label_or_the_providers_name(pool: Record, name: str):
    assert only(violations("gpu-node-taint", pool)).subject == name


def test_a_pool_without_gpus_is_no_place_for_a_gpu_pod():
    cpu_pool = node("cpu-0", machine_type="m7i.large", taints=(), labels={"nvidia.com/device-plugin.config": None})
    assert only(violations("gpu-toleration", cpu_pool, deployment(pod_spec(tolerations=[]))))


# -- the operator and its configs -------------------------------------------------------------------------


@pytest.mark.parametrize("chart", ["gpu-operator", "nvidia/gpu-operator", "oci://ghcr.io/nvidia/gpu-operator"])
def test_the_operators_chart_is_recognised_however_it_is_named(chart: str):
    values = {"devicePlugin": {"config": {"name": "plugin", "data": {"train": shared()}}}}
    assert only(violations("sharing-for-training", node(), helm_release(values, chart)))


def test_the_values_of_another_chart_are_not_the_operators():
    values = {"devicePlugin": {"config": {"name": "plugin", "data": {"train": shared()}}}}
    assert "not in this stack" in not_checked(
        "sharing-for-training", node(), helm_release(values, "network-operator")
    )


def test_a_config_without_flags_is_recognised_by_its_sharing():
    text = "version: v1\nsharing: {mps: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 9}]}}"
    assert only(violations("sharing-replicas-bounded", config_map("any", {"serve": text})))


def test_the_config_map_that_the_operator_names_wins_over_another_with_the_same_key():
    whole = "version: v1\nflags: {migStrategy: none}"
    stack = [node(), cluster_policy(), device_plugin_config_map("old", train=shared())]
    assert violations("sharing-for-training", *stack, device_plugin_config_map(train=whole)) == []


def test_the_layouts_that_the_operator_names_win_over_others_of_the_same_name():
    old = mig_parted_config_map(layout("notebooks", g3_40gb=2, g1_10gb=1), name="old")
    new = mig_parted_config_map(layout("notebooks", g1_10gb=7))
    assert violations("mig-geometry-valid", mig_node(), cluster_policy(), old, new) == []


def test_layouts_in_helm_values_are_read():
    text = mig_parted_config_map(layout("notebooks", g1_5gb=7))["inputs"]["data"]["config.yaml"]
    values = {"migManager": {"config": {"create": True, "name": "layouts", "data": {"config.yaml": text}}}}
    found = only(violations("mig-profile-matches-model", mig_node(), helm_release(values)))
    assert found.problem.path.startswith('values.migManager.config.data["config.yaml"].mig-configs.notebooks')


def test_a_generated_layout_is_not_checked_without_the_config():
    hidden = config_map("mig-parted-config-3c4d", {"config.yaml": UNKNOWN})
    assert "not in this stack" in not_checked(
        "mig-geometry-valid", mig_node(layout="all-1g.5gb"), cluster_policy(), hidden
    )


def test_a_profile_with_no_instances_is_no_part_of_a_layout():
    stack = [mig_node(), cluster_policy(), mig_parted_config_map(layout("notebooks", g1_10gb=7, g3_40gb=0))]
    config = device_plugin_config_map(notebooks=with_strategy("single"))
    assert violations("mig-strategy-consistent", *stack, config) == []


def test_a_generated_layout_offers_its_profile():
    platform = [
        mig_node(layout="all-2g.20gb"),
        cluster_policy(migManager={"enabled": True}),
        device_plugin_config_map(notebooks=with_strategy("mixed")),
    ]
    found = only(violations("gpu-namespace-quota", *platform, namespace(), quota({"cpu": "8"})))
    assert "nvidia.com/mig-2g.20gb" in found.problem.found


def test_a_resource_of_another_vendor_is_no_gpu_matter():
    spec = pod_spec(container({"amd.com/gpu": 2}, {"amd.com/gpu": 1}), tolerations=[])
    assert violations("gpu-toleration", deployment(spec)) == []
    assert violations("gpu-requests-equal-limits", deployment(spec)) == []


def test_an_unknown_operator_has_unknown_values():
    found = operator(Stack.from_records([{**cluster_policy(), "inputs": UNKNOWN}], load_catalog()))
    assert found is not None
    with pytest.raises(NotVisible):
        found.values.get("mig", "strategy")
