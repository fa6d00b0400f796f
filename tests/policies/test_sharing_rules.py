"""Rules about time-slicing and MPS: who may share GPUs, the maximum number of replicas, resource names and
requests.
"""

from __future__ import annotations

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    bottlerocket_pool,
    bottlerocket_sharing,
    cluster_policy,
    config_map,
    container,
    deployment,
    device_plugin_config_map,
    ec2_node_class,
    eks_node_group,
    gke_node_pool,
    gke_shares,
    helm_release,
    karpenter_node_pool,
    launch_template,
    mig_node,
    node,
    not_checked,
    only,
    pod_spec,
    shared,
    violations,
)

# -- sharing-for-training ---------------------------------------------------------------------------------


def test_a_training_pool_with_whole_gpus_passes():
    stack = [node(), cluster_policy(), device_plugin_config_map(train="version: v1\nflags: {migStrategy: none}")]
    assert violations("sharing-for-training", *stack) == []


def test_time_slicing_on_a_training_pool_is_found_at_the_label_that_chose_it():
    found = only(
        violations("sharing-for-training", node(), cluster_policy(), device_plugin_config_map(train=shared()))
    )
    assert found.problem.path == 'metadata.labels["nvidia.com/device-plugin.config"]'
    assert "training pool 'train'" in found.problem.found
    assert found.name == "train-0"


def test_time_slicing_on_an_inference_pool_passes():
    stack = [node("serve-0", workload="inference"), cluster_policy(), device_plugin_config_map(serve=shared())]
    assert violations("sharing-for-training", *stack) == []


def test_a_training_pool_without_a_label_gets_the_operators_default_config():
    plain = node(labels={"nvidia.com/device-plugin.config": None})
    found = violations("sharing-for-training", plain, cluster_policy(), device_plugin_config_map(default=shared()))
    assert only(found).subject == "train"


def test_the_config_that_helm_values_carry_inline_is_read():
    values = {"devicePlugin": {"config": {"create": True, "name": "plugin", "data": {"train": shared()}}}}
    assert only(violations("sharing-for-training", node(), helm_release(values)))


def test_a_training_pool_whose_config_is_not_in_the_stack_is_not_checked():
    assert "config 'train' is not in this stack" in not_checked("sharing-for-training", node())


def test_a_training_pool_with_an_unknown_config_label_is_not_checked():
    hidden = node(labels={"nvidia.com/device-plugin.config": UNKNOWN})
    assert "not known yet" in not_checked("sharing-for-training", hidden, device_plugin_config_map(train=shared()))


def test_the_nodes_of_one_pool_give_one_violation_that_counts_the_others():
    nodes = [node(f"train-{index}") for index in range(3)]
    found = only(violations("sharing-for-training", *nodes, device_plugin_config_map(train=shared())))
    assert found.name == "train-0"
    assert [urn.rpartition("::")[2] for urn in found.also] == ["train-1", "train-2"]


# -- sharing-replicas-bounded -----------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "replicas"), [("timeSlicing", 4), ("mps", 8)])
def test_replicas_at_the_limit_pass(mode: str, replicas: int):
    stack = device_plugin_config_map(serve=shared(mode, replicas))
    assert violations("sharing-replicas-bounded", stack) == []


@pytest.mark.parametrize(("mode", "replicas", "allowed"), [("timeSlicing", 5, 4), ("mps", 9, 8)])
def test_replicas_over_the_limit_are_found_at_their_place(mode: str, replicas: int, allowed: int):
    found = only(violations("sharing-replicas-bounded", device_plugin_config_map(serve=shared(mode, replicas))))
    assert found.problem.path == f"data.serve.sharing.{mode}.resources[0].replicas"
    assert found.problem.allowed == f"at most {allowed}"
    assert found.subject == "serve"


def test_the_limits_can_be_configured():
    stack = device_plugin_config_map(serve=shared("timeSlicing", 8))
    assert violations("sharing-replicas-bounded", stack, maxTimeSlicingReplicas=8) == []
    assert only(violations("sharing-replicas-bounded", stack, maxTimeSlicingReplicas=7))


def test_replicas_that_are_not_known_yet_are_not_checked():
    hidden = config_map("device-plugin-config-1a2b", {"serve": UNKNOWN})
    assert "data.serve: not known" in not_checked("sharing-replicas-bounded", cluster_policy(), hidden)


def test_a_config_map_about_something_else_is_not_checked():
    other = config_map("app", {"config.yaml": "sharing: {timeSlicing: {resources: [{replicas: 99}]}}"})
    assert violations("sharing-replicas-bounded", other) == []


# -- sharing-rename ---------------------------------------------------------------------------------------


def test_a_renamed_shared_resource_passes():
    assert violations("sharing-rename", device_plugin_config_map(serve=shared())) == []


@pytest.mark.parametrize("mode", ["timeSlicing", "mps"])
def test_a_shared_resource_under_a_whole_gpus_name_is_found(mode: str):
    found = only(violations("sharing-rename", device_plugin_config_map(serve=shared(mode, 2, rename=False))))
    assert found.problem.path == f"data.serve.sharing.{mode}.renameByDefault"


def _karpenter(**labels: object) -> Record:
    found = karpenter_node_pool(
        [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6e.xlarge"]}]
    )
    found["inputs"]["spec"]["template"]["metadata"]["labels"] = {
        "gpu-platform.dev/workload": "inference",
        **labels,
    }
    return found


CONFIG = "nvidia.com/device-plugin.config"
PLAIN = {"serve": shared(rename=False)}


def test_karpenter_knows_no_shared_name_so_its_pools_keep_the_name():
    assert violations("sharing-rename", _karpenter(**{CONFIG: "serve"}), device_plugin_config_map(**PLAIN)) == []


@pytest.mark.parametrize("also", [_karpenter(), node("serve-0", labels={CONFIG: "serve"})])
def test_other_nodes_that_name_the_config_need_the_rename(also: Record):
    other = [] if also["type"].endswith("NodePool") else [_karpenter(**{CONFIG: "serve"})]
    assert only(violations("sharing-rename", *other, also, device_plugin_config_map(**PLAIN)))


def test_pools_whose_label_is_not_known_leave_the_rename_open():
    stack = [_karpenter(**{CONFIG: "serve"}), node(labels={CONFIG: UNKNOWN}), device_plugin_config_map(**PLAIN)]
    assert "labels" in not_checked("sharing-rename", *stack)


def test_a_rename_under_flags_is_named_as_ignored():
    text = """\
        version: v1
        flags: {renameByDefault: true}
        sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
        """
    found = only(violations("sharing-rename", device_plugin_config_map(serve=text)))
    assert "under flags is ignored" in found.problem.found


def test_a_sharing_block_that_replicates_nothing_needs_no_rename():
    text = "version: v1\nsharing: {timeSlicing: {resources: []}}"
    assert violations("sharing-rename", device_plugin_config_map(serve=text)) == []


def test_a_rename_that_is_secret_is_not_checked():
    hidden = config_map("device-plugin-config-1a2b", {"serve": "[secret]"})
    assert "not known yet" in not_checked("sharing-rename", cluster_policy(), hidden)


# -- gpu-shared-request-one -------------------------------------------------------------------------------


def test_one_share_passes_and_so_do_several_whole_gpus():
    one = deployment(pod_spec(container({"nvidia.com/gpu.shared": 1})), "one")
    whole = deployment(pod_spec(container({"nvidia.com/gpu": 8})), "whole")
    assert violations("gpu-shared-request-one", one, whole) == []


@pytest.mark.parametrize("resource", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb.shared"])
def test_two_shares_are_found_at_the_containers_limit(resource: str):
    spec = pod_spec(container({"cpu": "1"}, name="sidecar"), container({resource: "2"}))
    found = only(violations("gpu-shared-request-one", deployment(spec)))
    assert found.problem.path == f'spec.template.spec.containers[1].resources.limits["{resource}"]'
    assert found.problem.found.startswith("2 of the shared resource")


def test_two_gpus_of_a_pool_that_shares_without_renaming_are_found():
    pool = [
        node("serve-0", workload="inference"),
        cluster_policy(),
        device_plugin_config_map(serve=shared(rename=False)),
    ]
    spec = pod_spec(container({"nvidia.com/gpu": 2}), nodeSelector={"gpu-platform.dev/pool": "serve"})
    assert only(violations("gpu-shared-request-one", *pool, deployment(spec)))


def test_two_gpus_of_a_pool_of_whole_gpus_pass_beside_one_that_shares():
    stack = [
        node("serve-0", workload="inference"),
        mig_node(),
        node("train-0"),
        device_plugin_config_map(serve=shared(rename=False), train="version: v1\nflags: {migStrategy: none}"),
    ]
    spec = pod_spec(container({"nvidia.com/gpu": 2}), nodeSelector={"gpu-platform.dev/pool": "train"})
    assert violations("gpu-shared-request-one", *stack, deployment(spec)) == []


def test_an_unknown_number_of_shares_is_not_checked():
    spec = pod_spec(container({"nvidia.com/gpu.shared": UNKNOWN}))
    assert "gpu.shared" in not_checked("gpu-shared-request-one", deployment(spec))


# -- sharing-memory-fits ----------------------------------------------------------------------------------


def served(memory: str, resource: str = "nvidia.com/gpu.shared") -> Record:
    found = deployment(pod_spec(container({resource: 1}), nodeSelector={"gpu-platform.dev/pool": "serve"}))
    found["inputs"]["spec"]["template"]["metadata"] = {"annotations": {"gpu-platform.dev/gpu-memory": memory}}
    return found


def test_models_that_do_not_fit_side_by_side_are_found():
    stack = [cluster_policy(), device_plugin_config_map(serve=shared(replicas=4)), T4]
    assert violations("sharing-memory-fits", *stack, served("3Gi")) == []
    found = only(violations("sharing-memory-fits", *stack, served("6Gi")))
    assert found.problem.fix.startswith("lower replicas to 2")


def test_a_pod_of_a_whole_gpu_and_one_that_declares_no_memory_pass():
    stack = [cluster_policy(), device_plugin_config_map(serve=shared(replicas=4)), T4]
    assert violations("sharing-memory-fits", *stack, served("60Gi", "nvidia.com/gpu")) == []
    assert "gpu-memory" in not_checked("sharing-memory-fits", *stack, served(UNKNOWN))


T4 = node("serve-0", machine_type="g4dn.xlarge", workload="inference")


# -- device plugins of images and clouds ------------------------------------------------------------------

KARPENTER = [
    karpenter_node_pool(
        [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p4d.24xlarge"]}]
    ),
    ec2_node_class(bottlerocket_sharing(replicas=16, rename=False)),
]
OWN_PLUGINS = {
    "bottlerocket": [*bottlerocket_pool(bottlerocket_sharing(replicas=16))],
    "bottlerocket with karpenter": KARPENTER,
    "gke": [gke_node_pool(**gke_shares(16))],
}


@pytest.mark.parametrize("stack", OWN_PLUGINS.values(), ids=OWN_PLUGINS.keys())
def test_time_slicing_by_the_image_or_the_cloud_is_found_like_the_operators(stack: list[Record]) -> None:
    assert "on training pool 'train'" in only(violations("sharing-for-training", *stack)).problem.found
    found = only(violations("sharing-replicas-bounded", *stack)).problem
    assert (found.found, found.allowed) == (
        "16 time-slicing replicas of nvidia.com/gpu in pool 'train'",
        "at most 4",
    )


def test_bottlerocket_renames_shares_unless_karpenter_creates_the_nodes() -> None:
    assert violations("sharing-rename", *bottlerocket_pool(bottlerocket_sharing())) == []
    kept = bottlerocket_pool(bottlerocket_sharing(rename=False))
    assert "in pool 'train'" in only(violations("sharing-rename", *kept)).problem.found
    assert violations("sharing-rename", *KARPENTER) == []
    assert violations("sharing-rename", gke_node_pool(**gke_shares())) == []


def test_bottlerocket_without_sharing_is_not_a_shared_pool() -> None:
    assert violations("sharing-replicas-bounded", *bottlerocket_pool("[settings.kernel]")) == []
    hidden = [eks_node_group(amiType="BOTTLEROCKET_x86_64_NVIDIA"), launch_template(userData=UNKNOWN)]
    assert "userData" in not_checked("sharing-replicas-bounded", *hidden)
    other = [eks_node_group(), launch_template(userData=UNKNOWN)]
    assert violations("sharing-replicas-bounded", *other) == []
