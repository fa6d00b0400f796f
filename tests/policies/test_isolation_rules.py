"""Rules about access to GPUs that were not granted, access to the node, and pods without GPUs on GPU nodes."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    container,
    deployment,
    job,
    kubernetes,
    node,
    not_checked,
    only,
    pod_spec,
    violations,
)

from policies._node_pool import NodeTaint

BYPASS = "gpu-visible-devices-bypass"
ANNOTATION = "gpu-device-annotation"
RUNTIME = "gpu-runtime-class"
NODE_NAME = "gpu-node-name"
HOST = "gpu-privileged-hostpath"
TOLERATION = "gpu-wildcard-toleration"


def with_env(value: Any, limits: Any = None) -> Record:
    main = container(limits)
    main["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
    return main


# -- bare-pod ---------------------------------------------------------------------------------------------


def bare(namespace: Any) -> Record:
    return kubernetes("core/v1:Pod", "shell", pod_spec(container()), namespace=namespace)


def test_a_pod_without_a_controller_is_found_and_its_job_is_not():
    found = only(violations("bare-pod", bare("vision"), bare("search"), job(), namespaces=["vision"]))
    assert found.problem.found == "a pod without a controller in namespace vision"
    assert "allow_bare_pods: true" in found.problem.fix
    assert violations("bare-pod", bare("vision")) == []


def test_a_pod_whose_namespace_is_not_known_is_not_checked():
    assert "namespace" in not_checked("bare-pod", bare(UNKNOWN), namespaces=["vision"])


# -- gpu-visible-devices-bypass ---------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["all", "0", "GPU-5a1b", "0,1", "VOID", "None"])
def test_a_container_without_a_request_that_names_devices_is_found(value: str):
    found = only(violations(BYPASS, deployment(pod_spec(with_env(value)))))
    assert found.problem.path == "spec.template.spec.containers[0].env[0].value"


@pytest.mark.parametrize("value", ["void", "none", ""])
def test_a_container_that_refuses_devices_passes(value: str):
    assert violations(BYPASS, deployment(pod_spec(with_env(value)))) == []


def test_a_variable_from_a_secret_is_found_too():
    main = container()
    main["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}]
    assert "from elsewhere" in only(violations(BYPASS, deployment(pod_spec(main)))).problem.found


def test_a_sidecar_without_a_request_beside_a_container_with_one_is_found():
    spec = pod_spec(container({"nvidia.com/gpu": "1"}), {**with_env("all"), "name": "sidecar"})
    assert only(violations(BYPASS, deployment(spec))).problem.path.startswith("spec.template.spec.containers[1]")


def test_an_init_container_is_no_way_round():
    spec = {**pod_spec(container()), "initContainers": [with_env("all")]}
    assert only(violations(BYPASS, deployment(spec)))


def test_an_ephemeral_container_is_no_way_round():
    spec = {**pod_spec(container()), "ephemeralContainers": [with_env("all")]}
    assert only(violations(BYPASS, deployment(spec))).problem.path.startswith(
        "spec.template.spec.ephemeralContainers[0]"
    )


def test_the_platforms_own_namespaces_are_left_out_and_can_be_changed():
    pods = deployment(pod_spec(with_env("all")), namespace="gpu-operator")
    assert violations(BYPASS, pods) == []
    assert only(violations(BYPASS, pods, systemNamespaces=["kube-system"]))


def test_a_variable_whose_value_is_not_known_is_not_checked():
    assert "env[0].value" in not_checked(BYPASS, deployment(pod_spec(with_env(UNKNOWN))))


# -- gpu-device-annotation --------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{}, {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "8"}])
@pytest.mark.parametrize(
    "key", ["nvidia.cdi.k8s.io/container.main", "cdi.k8s.io/gpus", "devices.gke.io/container.main"]
)
def test_an_annotation_that_names_devices_is_found_whatever_the_pods_request(key: str, limits: Record):
    pods = job(pod_spec(container(limits)), annotations={key: "all"})
    assert key in only(violations(ANNOTATION, pods)).problem.found


def test_an_annotation_that_names_no_devices_passes():
    pods = job(pod_spec(container()), annotations={"k8s.io/gpus": "all", "x.cdi.k8s.io/gpus": "all"})
    assert violations(ANNOTATION, pods) == []


# -- pod-network-annotation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("k8s.v1.cni.cncf.io/networks", "kube-system/rail-0", True),
        ("k8s.v1.cni.cncf.io/networks", '[{"name": "rail-0"}]', True),
        ("k8s.v1.cni.cncf.io/networks", "rail-0, rail-1@net2", False),
        ("k8s.v1.cni.cncf.io/network-status", "[]", False),
        ("v1.multus-cni.io/default-network", "rail-0", True),
        ("cni.projectcalico.org/ipAddrs", '["10.0.0.1"]', True),
        ("cni.projectcalico.org/podIP", "10.0.0.1/32", False),
        ("ipam.cilium.io/ip-pool", "search", True),
    ],
)
def test_annotations_that_choose_networks_or_addresses_are_found(key: str, value: str, found: bool):
    pods = job(pod_spec(container()), annotations={key: value})
    assert bool(violations("pod-network-annotation", pods)) == found


# -- gpu-runtime-class ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nvidia", "nvidia-cdi", "nvidia-legacy"])
def test_every_runtime_class_of_the_operator_without_a_request_is_found(name: str):
    found = only(violations(RUNTIME, deployment(pod_spec(container(), runtimeClassName=name))))
    assert name in found.problem.found
    assert violations(RUNTIME, deployment(pod_spec(runtimeClassName=name))) == []


def test_a_runtime_class_of_others_passes():
    assert violations(RUNTIME, deployment(pod_spec(container(), runtimeClassName="gvisor"))) == []


# -- gpu-node-name ----------------------------------------------------------------------------------------


def test_pods_that_name_their_node_are_found_and_an_empty_name_is_none():
    assert only(violations(NODE_NAME, deployment(pod_spec(nodeName="train-0")))).problem.found.endswith("train-0")
    assert violations(NODE_NAME, deployment(pod_spec(nodeName="")), deployment(pod_spec(), "other")) == []
    assert "nodeName" in not_checked(NODE_NAME, deployment(pod_spec(nodeName=UNKNOWN)))


@pytest.mark.parametrize("rule", [ANNOTATION, RUNTIME, NODE_NAME])
def test_pods_of_the_platforms_own_namespaces_are_left_out(rule: str):
    spec = pod_spec(container(), runtimeClassName="nvidia", nodeName="train-0")
    pods = job(spec, annotations={"cdi.k8s.io/gpus": "all"})
    assert only(violations(rule, pods))
    pods["inputs"]["metadata"]["namespace"] = "gpu-operator"
    assert violations(rule, pods) == []


# -- gpu-privileged-hostpath ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "found"),
    [
        ({"privileged": True}, "privileged: true"),
        ({"capabilities": {"add": ["SYS_ADMIN"]}}, "capability SYS_ADMIN"),
        ({"capabilities": {"add": ["CAP_NET_ADMIN"]}}, "capability NET_ADMIN"),
        ({"capabilities": {"add": ["all"]}}, "capability ALL"),
    ],
)
def test_a_powerful_container_on_gpus_is_found(context: Record, found: str):
    main = {**container({"nvidia.com/gpu": "1"}), "securityContext": context}
    assert only(violations(HOST, deployment(pod_spec(main)))).problem.found == found


def test_harmless_capabilities_pass():
    main = {**container({"nvidia.com/gpu": "1"}), "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}
    assert violations(HOST, deployment(pod_spec(main))) == []


@pytest.mark.parametrize("field", ["hostNetwork", "hostPID", "hostIPC"])
def test_namespaces_of_the_host_are_found(field: str):
    assert only(violations(HOST, deployment(pod_spec(**{field: True})))).problem.path.endswith(field)


def test_a_pod_without_gpus_that_tolerates_gpu_nodes_is_evaluated_too():
    main = {**container(), "securityContext": {"privileged": True}}
    assert only(violations(HOST, node(), deployment(pod_spec(main))))
    assert violations(HOST, node(), deployment(pod_spec(main, tolerations=[]))) == []


def mounting(path: str, read_only: bool) -> Record:
    main = container({"nvidia.com/gpu": "1"})
    main["volumeMounts"] = [{"name": "host", "mountPath": "/x", "readOnly": read_only}]
    return deployment(pod_spec(main, volumes=[{"name": "host", "hostPath": {"path": path}}]))


def test_a_host_path_is_found_unless_the_settings_allow_it_read_only():
    allowed = {"allowedHostPaths": ["/sys"]}
    assert only(violations(HOST, mounting("/sys/class", read_only=True)))
    assert violations(HOST, mounting("/sys/class/", read_only=True), **allowed) == []
    assert only(violations(HOST, mounting("/sys/class", read_only=False), **allowed))
    assert only(violations(HOST, mounting("/system", read_only=True), **allowed))
    assert only(violations(HOST, mounting("/sys/../etc", read_only=True), **allowed))


def test_a_violation_names_the_host_paths_that_are_allowed():
    root = mounting("/", read_only=True)
    assert only(violations(HOST, root)).problem.allowed == "no hostPath"
    found = only(violations(HOST, root, allowedHostPaths=["/sys", "/opt"]))
    assert found.problem.allowed == "/sys (read-only), /opt (read-only)"


# -- gpu-wildcard-toleration ------------------------------------------------------------------------------

CPU = {"cpu": "1"}


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"operator": "Exists", "effect": "NoSchedule"},
    ],
)
def test_a_pod_without_gpus_that_tolerates_gpu_nodes_is_found(toleration: Record):
    assert only(violations(TOLERATION, deployment(pod_spec(container(CPU), tolerations=[toleration]))))


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "karpenter.sh/disrupted", "operator": "Equal", "value": "x"},
        {"key": "ToBeDeletedByClusterAutoscaler", "operator": "Exists"},
    ],
)
def test_a_pod_with_gpus_that_tolerates_a_drain_is_found(toleration: Record):
    assert only(violations(TOLERATION, deployment(pod_spec(tolerations=[toleration]))))


def test_a_pod_without_gpus_that_tolerates_a_pools_own_taint_is_found():
    pool = node(taints=({"key": "team", "value": "vision", "effect": "NoSchedule"},))
    pods = deployment(pod_spec(container(CPU), tolerations=[{"key": "team", "operator": "Exists"}]))
    assert only(violations(TOLERATION, pool, pods))
    assert violations(TOLERATION, pods) == []


def test_a_toleration_of_another_value_of_a_pools_own_taint_is_found_too():
    pool = node(taints=({"key": "team", "value": "vision", "effect": "NoSchedule"},))
    other = {"key": "team", "operator": "Equal", "value": "search"}
    assert only(violations(TOLERATION, pool, deployment(pod_spec(container(CPU), tolerations=[other]))))


def test_daemon_sets_may_tolerate_everything_and_pods_with_gpus_their_taint():
    everything = pod_spec(container(CPU), tolerations=[{"operator": "Exists"}])
    daemons = kubernetes("apps/v1:DaemonSet", "exporter", {"template": {"spec": everything}})
    assert violations(TOLERATION, daemons, deployment(pod_spec())) == []


def test_tolerations_that_are_not_known_are_not_checked():
    assert "tolerations" in not_checked(TOLERATION, deployment(pod_spec(container(CPU), tolerations=UNKNOWN)))


def test_taints_that_a_node_loses_once_it_has_started_need_no_toleration():
    starting = NodeTaint("startup-taint.cluster-autoscaler.kubernetes.io/gpu-unvalidated", "true", "NoSchedule")
    assert not starting.keeps_pods_off
    assert NodeTaint("nvidia.com/gpu", "present", "NoSchedule").keeps_pods_off


def train_job(**spec: Any) -> Record:
    return kubernetes("trainer.kubeflow.org/v1alpha1:TrainJob", "fit", spec, "vision")


def patched(template: Any) -> Record:
    jobs = [{"name": "node", "template": {"spec": {"template": template}}}]
    patch = {"manager": "a", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    return train_job(runtimePatches=[{"manager": "b"}, patch])


PLACE = "spec.runtimePatches[1].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template"


def test_additions_of_a_train_job_to_its_runtime_are_found():
    all_gpus = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    rule = "gpu-visible-devices-bypass"
    found = only(violations(rule, train_job(trainer={"env": [all_gpus]})))
    assert found.problem.path == "spec.trainer.env[0].value"
    found = only(violations(rule, patched({"spec": {"initContainers": [{"name": "a", "env": [all_gpus]}]}})))
    assert found.problem.path == f"{PLACE}.spec.initContainers[0].env[0].value"
    found = only(
        violations("gpu-device-annotation", patched({"metadata": {"annotations": {"cdi.k8s.io/a": "b"}}}))
    )
    assert found.problem.path == f'{PLACE}.metadata.annotations["cdi.k8s.io/a"]'
    assert violations(rule, train_job(trainer={"env": [{"name": "A", "value": "all"}]})) == []
    assert not_checked(rule, patched(UNKNOWN))
