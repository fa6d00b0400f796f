"""The rendered operator and node agent on GKE, with one pool of each kind in the same cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.recorded import Recorded


@pytest.fixture
def rendered(program: Callable[[str], Recorded]) -> Recorded:
    return program("operator_on_gke")


def pod(rendered: Recorded, pool: str) -> dict[str, Any]:
    return dict(rendered.one("DaemonSet", f"validate-{pool}").inputs["spec"]["template"]["spec"])


def test_gke_9_the_release_has_the_host_paths_and_no_driver(rendered: Recorded) -> None:
    values = rendered.one("Release", "gpu-operator").inputs["values"]
    assert values["driver"]["enabled"] is False
    assert values["hostPaths"]["driverInstallDir"] == "/home/kubernetes/bin/nvidia"
    assert values["toolkit"]["installDir"] == "/home/kubernetes/bin/nvidia"
    assert values["toolkit"]["env"][1:] == [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}]


def test_gke_9_the_operators_namespace_admits_system_critical_pods_first(
    rendered: Recorded,
) -> None:
    quota = rendered.one("ResourceQuota", "gpu-operator-system-critical")
    assert quota.inputs["metadata"]["namespace"] == "gpu-operator"
    assert quota.inputs["spec"]["scopeSelector"]["matchExpressions"] == [
        {
            "scopeName": "PriorityClass",
            "operator": "In",
            "values": ["system-node-critical", "system-cluster-critical"],
        }
    ]
    assert int(quota.inputs["spec"]["hard"]["pods"]) > 0
    assert quota.urn in rendered.one("Release", "gpu-operator").dependencies


def test_the_node_agent_is_system_node_critical_and_admitted(
    rendered: Recorded,
) -> None:
    agents = [one for one in rendered.of("DaemonSet") if one.name.startswith("validate-")]
    assert agents
    for agent in agents:
        assert agent.inputs["spec"]["template"]["spec"]["priorityClassName"] == "system-node-critical"
    quota = rendered.one("ResourceQuota", "gpu-node-validation-system-critical")
    assert quota.inputs["metadata"]["namespace"] == agents[0].inputs["metadata"]["namespace"]
    assert quota.inputs["spec"]["scopeSelector"]["matchExpressions"][0]["values"] == ["system-node-critical"]
    assert all(quota.urn in one.dependencies for one in agents)


def test_gke_9_no_operator_sharing_config_is_written_for_gpus_that_gke_shares(rendered: Recorded) -> None:
    configs = [r for r in rendered.of("ConfigMap") if r.name.startswith("device-plugin-config")]
    assert [set(config.inputs["data"]) for config in configs] == [{"default", "ours"}]


def test_without_a_gpu_runtime_the_agent_mounts_the_hosts_driver_library(rendered: Recorded) -> None:
    spec = pod(rendered, "googles")
    container = spec["containers"][0]
    assert "runtimeClassName" not in spec
    host = {v["name"]: v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v}
    mounts = {m["name"]: m for m in container["volumeMounts"]}
    assert host == {"driver": "/home/kubernetes/bin/nvidia"}
    assert mounts["driver"]["readOnly"] is True
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert environment["LD_LIBRARY_PATH"] == mounts["driver"]["mountPath"] + "/lib64"
    assert container["securityContext"]["privileged"] is True


def test_the_agent_uses_its_runtime_class_instead_of_host_directories(
    rendered: Recorded,
) -> None:
    spec = pod(rendered, "ours")
    assert spec["runtimeClassName"] == "nvidia"
    assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
    security = spec["containers"][0]["securityContext"]
    assert (security["privileged"], security["runAsNonRoot"]) == (True, True)


def test_the_agents_namespace_admits_what_its_pods_need(rendered: Recorded) -> None:
    labels = rendered.one("Namespace", "gpu-platform-validation").inputs["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
