"""Rules about the taints of all kinds of GPU node pools, and the Topology Manager policy of training pools."""

from __future__ import annotations

import base64

import pytest
import yaml
from policy_records import (
    GPU_TAINT,
    UNKNOWN,
    Record,
    deployment,
    ec2_node_class,
    eks_node_group,
    gke_node_pool,
    karpenter_node_pool,
    launch_template,
    node,
    not_checked,
    only,
    pod_spec,
    violations,
)

# -- gpu-node-taint ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pool",
    [node(), eks_node_group(), gke_node_pool(), karpenter_node_pool(), node(taints=(GPU_TAINT,), patch=True)],
    ids=["node", "eks", "gke", "karpenter", "patch"],
)
def test_a_tainted_gpu_pool_passes(pool: Record):
    assert violations("gpu-node-taint", pool) == []


@pytest.mark.parametrize(
    ("pool", "place"),
    [
        (node(taints=()), "spec.taints"),
        (node(taints=(), patch=True), "spec.taints"),
        (eks_node_group(taints=[]), "taints"),
        (gke_node_pool(taints=None), "nodeConfig.taints"),
        (karpenter_node_pool(taints=[]), "spec.template.spec.taints"),
    ],
    ids=["node", "patch", "eks", "gke", "karpenter"],
)
def test_a_gpu_pool_without_a_taint_is_found_where_the_taint_belongs(pool: Record, place: str):
    found = only(violations("gpu-node-taint", pool))
    assert found.problem.path == place
    assert found.problem.found == "no taint on GPU pool 'train'"
    assert "nvidia.com/gpu=present:NoSchedule" in found.problem.fix


@pytest.mark.parametrize(
    "pool",
    [
        eks_node_group(taints=[], labels={"gpu-platform.dev/pool": "monitoring"}, instanceTypes=["m7i.2xlarge"],
                       amiType="AL2023_x86_64_STANDARD"),
        gke_node_pool(taints=None, machineType="n2-standard-8", guestAccelerators=None,
                      labels={"gpu-platform.dev/pool": "monitoring"}),
    ],
    ids=["eks", "gke"],
)  # fmt: skip
def test_a_pool_of_machines_without_gpus_needs_no_taint(pool: Record):
    assert violations("gpu-node-taint", pool) == []


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "PreferNoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ],
)
def test_a_taint_that_keeps_no_pod_off_for_good_does_not_count(taint: dict[str, str]):
    assert only(violations("gpu-node-taint", node(taints=(taint,)))).problem.found.startswith("only ")


@pytest.mark.parametrize(
    "live", [(), (GPU_TAINT, {"key": "mine", "value": "1", "effect": "NoSchedule"})], ids=["removed", "added"]
)
def test_the_declared_taints_of_a_live_node_count(live: tuple[dict[str, str], ...]) -> None:
    declared = {"gpu-platform.dev/taints": "nvidia.com/gpu=present:NoSchedule"}
    pool = node(annotations=declared, taints=live)
    assert violations("gpu-node-taint", pool) == []
    assert violations("gpu-toleration", pool, deployment(pod_spec())) == []


def test_a_startup_taint_of_karpenter_does_not_count():
    pool = karpenter_node_pool(taints=[], startupTaints=[GPU_TAINT])
    assert only(violations("gpu-node-taint", pool))


def test_any_other_lasting_taint_keeps_pods_off_too():
    team = {"key": "team", "value": "vision", "effect": "NoExecute"}
    assert violations("gpu-node-taint", node(taints=(team,))) == []


def test_a_pool_without_gpus_needs_no_taint():
    plain = {"instanceTypes": ["m7i.4xlarge"], "amiType": "AL2023_x86_64_STANDARD", "labels": {}, "taints": []}
    assert violations("gpu-node-taint", eks_node_group(**plain)) == []
    assert (
        violations("gpu-node-taint", gke_node_pool(machineType="n2-standard-8", guestAccelerators=[], taints=[]))
        == []
    )


def test_a_gpu_machine_in_the_launch_template_makes_a_gpu_pool():
    plain = {"instanceTypes": [], "amiType": "CUSTOM", "labels": {}, "taints": []}
    template = launch_template(instanceType="p5.48xlarge")
    assert only(violations("gpu-node-taint", template, eks_node_group(**plain)))


def test_an_accelerator_makes_a_gpu_pool_of_any_machine_type():
    accelerators = [{"type": "nvidia-tesla-t4", "count": 1}]
    pool = gke_node_pool(machineType="n1-standard-8", guestAccelerators=accelerators, labels={}, taints=[])
    assert only(violations("gpu-node-taint", pool))


def test_taints_that_are_not_known_yet_are_not_checked():
    assert "spec.taints: not known" in not_checked("gpu-node-taint", node(taints=UNKNOWN))


def test_a_patch_that_leaves_the_taints_alone_is_not_checked():
    assert "does not change the node's taints" in not_checked("gpu-node-taint", node(taints=None, patch=True))


# -- topology-for-multi-gpu -------------------------------------------------------------------------------

LABEL = "gpu-platform.dev/topology-policy"


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_a_training_pool_with_a_topology_policy_passes(policy: str):
    assert violations("topology-for-multi-gpu", node(labels={LABEL: policy})) == []


@pytest.mark.parametrize("policy", ["none", "best-effort", None])
def test_a_training_pool_with_a_lesser_policy_is_found(policy: str | None):
    found = only(violations("topology-for-multi-gpu", node(labels={LABEL: policy})))
    assert found.problem.path == f'metadata.labels["{LABEL}"]'
    assert "8 GPUs a node" in found.problem.found


def test_pools_that_do_not_train_and_nodes_with_one_gpu_or_none_pass():
    inference = node("serve-0", workload="inference")
    single = node("small-0", machine_type="g5.xlarge")
    without = eks_node_group(
        instanceTypes=["m7i.4xlarge"],
        amiType="AL2023_x86_64_STANDARD",
        labels={"gpu-platform.dev/workload": "training"},
    )
    assert violations("topology-for-multi-gpu", inference, single, without) == []


def test_two_gpus_are_several():
    assert (
        "2 GPUs a node"
        in only(violations("topology-for-multi-gpu", node(machine_type="g5g.16xlarge"))).problem.found
    )


def test_a_visible_policy_suffices_without_the_number_of_gpus():
    unnamed = {"node.kubernetes.io/instance-type": None}
    assert violations("topology-for-multi-gpu", node(patch=True, labels={LABEL: "restricted", **unnamed})) == []
    assert "names no machine type" in not_checked("topology-for-multi-gpu", node(patch=True, labels=unnamed))


def test_the_kubelet_configuration_of_gke_is_read():
    assert violations("topology-for-multi-gpu", gke_node_pool()) == []
    lesser = gke_node_pool(kubeletConfig={"topologyManager": {"policy": "best-effort"}})
    found = only(violations("topology-for-multi-gpu", lesser))
    assert found.problem.path == "nodeConfig.kubeletConfig.topologyManager.policy"


NODE_CONFIG = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      cpuManagerPolicy: static
      topologyManagerPolicy: restricted
--//--
"""


def test_the_user_data_of_an_eks_launch_template_is_read():
    template = launch_template(userData=base64.b64encode(NODE_CONFIG.encode()).decode())
    assert violations("topology-for-multi-gpu", template, eks_node_group()) == []
    without = launch_template(userData=base64.b64encode(b"#!/bin/bash\n").decode())
    assert only(violations("topology-for-multi-gpu", without, eks_node_group()))


def test_the_user_data_of_a_karpenter_node_class_is_read():
    assert violations("topology-for-multi-gpu", ec2_node_class(NODE_CONFIG), karpenter_node_pool()) == []
    assert only(violations("topology-for-multi-gpu", ec2_node_class("#!/bin/bash"), karpenter_node_pool()))


def test_user_data_that_is_not_known_yet_is_not_checked_unless_a_label_says_it():
    hidden = launch_template(userData=UNKNOWN)
    said = {"gpu-platform.dev/workload": "training", LABEL: "restricted"}
    assert "userData" in not_checked("topology-for-multi-gpu", hidden, eks_node_group())
    assert violations("topology-for-multi-gpu", hidden, eks_node_group(labels=said)) == []


def test_a_launch_template_of_another_stack_is_not_checked():
    group = eks_node_group(launchTemplate={"id": "lt-0a1b2c3d", "version": "3"})
    assert "not a resource of this stack" in not_checked("topology-for-multi-gpu", group)


def test_the_kubelet_of_an_existing_node_is_not_checked_unless_a_label_says_it():
    assert "kubelet configuration of existing nodes is not visible" in not_checked(
        "topology-for-multi-gpu", node(patch=True)
    )
    assert violations("topology-for-multi-gpu", node(patch=True, labels={LABEL: "restricted"})) == []


# -- numa-policy-complete ---------------------------------------------------------------------------------


def kubelet(**config: str) -> Record:
    text = yaml.safe_dump({"spec": {"kubelet": {"config": config}}})
    return launch_template(userData=base64.b64encode(text.encode()).decode(), instanceType="p5.48xlarge")


def test_a_topology_policy_without_static_cpus_is_found():
    rule, group = "numa-policy-complete", eks_node_group()
    aligned = kubelet(topologyManagerPolicy="restricted", cpuManagerPolicy="static")
    assert violations(rule, group, aligned) == []
    assert only(violations(rule, group, kubelet(topologyManagerPolicy="restricted")))
    assert only(violations(rule, group, kubelet(topologyManagerPolicy="restricted", cpuManagerPolicy="none")))
    assert violations(rule, group, kubelet(topologyManagerPolicy="none"), gke_node_pool()) == []


def test_static_memory_without_reserved_memory_is_found():
    rule, group = "numa-policy-complete", eks_node_group()
    assert only(violations(rule, group, kubelet(memoryManagerPolicy="Static")))
    assert violations(rule, group, kubelet(memoryManagerPolicy="Static", reservedMemory="0=1Gi")) == []


def test_a_gke_pool_needs_static_cpus_too_and_reserves_its_memory_itself():
    numa = {"topologyManager": {"policy": "restricted"}, "memoryManager": {"policy": "Static"}}
    assert only(violations("numa-policy-complete", gke_node_pool(kubeletConfig=numa)))
    static = gke_node_pool(kubeletConfig={**numa, "cpuManagerPolicy": "static"})
    assert violations("numa-policy-complete", static) == []


def test_a_kubelet_that_is_not_known_is_not_checked():
    assert "userData" in not_checked("numa-policy-complete", eks_node_group(), launch_template(userData=UNKNOWN))
    assert violations("numa-policy-complete", node(patch=True)) == []
