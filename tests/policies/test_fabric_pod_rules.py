"""The test pods that clouds publish for their fabrics pass in a stack with pools of the matching machine type, and
fail in other stacks.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from policy_records import Record, gke_node_pool, kubernetes, violations

from tests.support.fabric_pods import FabricPod, fabric_pods

HOST = "gpu-privileged-hostpath"
ANNOTATION = "gpu-device-annotation"
PODS = {one.name: one for one in fabric_pods()}
ESCAPES = yaml.load(
    (Path(__file__).parents[1] / "e2e" / "fabric_escapes.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader
)
FABRICS = {
    "a3-highgpu-8g": "tcpx",
    "a3-megagpu-8g": "tcpxo",
    "a3-ultragpu-8g": "rdma",
    "a4-highgpu-8g": "rdma",
    "a4x-highgpu-4g": "rdma",
}
# The rules that these tests cover.
# Users, devices in annotations and networks of GPUs are checked only at admission.
JUDGED = ("fabric-daemon", "pod-security-host-path", "pod-security-privileged", "pod-security-host-namespaces")


def found(pod: dict[str, Any], *pools: Record) -> list[str]:
    record = kubernetes("core/v1:Pod", "attempt", pod["spec"])
    return [one.problem.path for one in violations(HOST, record, *pools)]


@pytest.mark.parametrize("machine", FABRICS)
@pytest.mark.parametrize("pod", [one for one in PODS.values() if one.provider == "gke"], ids=lambda one: one.name)
def test_a_published_pod_passes_only_with_pools_of_its_fabric(pod: FabricPod, machine: str):
    paths = found(pod.admitted("vision"), gke_node_pool(machineType=machine))
    gpus = 4 if machine == "a4x-highgpu-4g" else 8
    own = 4 if pod.machine_type == "a4x-highgpu-4g" else 8
    assert (paths == []) == (FABRICS[machine] == FABRICS[pod.machine_type] and gpus == own), paths


@pytest.mark.parametrize("pod", PODS.values(), ids=lambda one: one.name)
def test_a_published_pod_needs_no_exemption_in_a_team_s_own_stack(pod: FabricPod):
    assert found(pod.admitted("vision")) == []


@pytest.mark.parametrize("pod", [one for one in PODS.values() if one.written], ids=lambda one: one.name)
def test_a_published_pod_that_could_replace_libraries_is_found(pod: FabricPod):
    assert found(pod.published("vision"), gke_node_pool(machineType=pod.machine_type))


@pytest.mark.parametrize(
    "attempt",
    [
        one
        for one in ESCAPES
        if one["refused"].startswith(JUDGED) and "nodes" not in one["name"] and "NICs" not in one["name"]
    ],
    ids=lambda one: one["name"].replace(" ", "-"),
)
def test_what_admission_refuses_is_found_before_a_deploy(attempt: dict[str, Any]):
    published = PODS[attempt["pod"]]
    pod = published.admitted("vision")
    containers = pod["spec"]["containers"]
    daemon = next((one for one in containers if one["name"] == published.devices), {})
    test = next(one for one in containers if one["name"] != published.devices)
    for target, key in ((daemon, "daemon"), (test, "test"), (pod["spec"], "spec")):
        for name, value in copy.deepcopy(attempt.get(key, {})).items():
            target.pop(name, None)
            if value is not None:
                target[name] = value
    pod["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert found(pod, gke_node_pool(machineType=published.machine_type))


# -- annotations that request devices for daemons ---------------------------------------------------------

WITH_DAEMONS = [one for one in PODS.values() if one.devices]


def annotated(pod: dict[str, Any], *pools: Record) -> list[str]:
    record = kubernetes("core/v1:Pod", "attempt", pod["spec"])
    record["inputs"]["metadata"]["annotations"] = pod["metadata"]["annotations"]
    return [one.problem.found for one in violations(ANNOTATION, record, *pools)]


@pytest.mark.parametrize("machine", FABRICS)
@pytest.mark.parametrize("pod", WITH_DAEMONS, ids=lambda one: one.name)
def test_published_devices_of_a_daemon_pass_only_with_its_fabric(pod: FabricPod, machine: str):
    found = annotated(pod.admitted("vision"), gke_node_pool(machineType=machine))
    assert (found == []) == (FABRICS[machine] == FABRICS[pod.machine_type]), found


@pytest.mark.parametrize("more", ["- path: /dev/mem\n", "- path: /dev/nvidia0 /dev/mem\n", "x"])
@pytest.mark.parametrize("pod", WITH_DAEMONS, ids=lambda one: one.name)
def test_other_devices_by_the_annotation_of_a_daemon_are_found(pod: FabricPod, more: str):
    attempt = pod.admitted("vision")
    attempt["metadata"]["annotations"][f"devices.gke.io/container.{pod.devices}"] += more
    assert annotated(attempt, gke_node_pool(machineType=pod.machine_type))


@pytest.mark.parametrize("pod", WITH_DAEMONS, ids=lambda one: one.name)
def test_devices_by_the_annotation_of_another_container_are_found(pod: FabricPod):
    attempt = pod.admitted("vision")
    annotations = attempt["metadata"]["annotations"]
    annotations["devices.gke.io/container.main"] = annotations[f"devices.gke.io/container.{pod.devices}"]
    (found,) = annotated(attempt, gke_node_pool(machineType=pod.machine_type))
    assert found.endswith("container.main")


@pytest.mark.parametrize("pod", WITH_DAEMONS, ids=lambda one: one.name)
def test_daemon_devices_are_found_on_pods_with_fewer_gpus(pod: FabricPod):
    attempt = pod.admitted("vision")
    for container in attempt["spec"]["containers"]:
        if "nvidia.com/gpu" in container.get("resources", {}).get("limits", {}):
            container["resources"]["limits"]["nvidia.com/gpu"] = 4
    assert annotated(attempt, gke_node_pool(machineType=pod.machine_type))
