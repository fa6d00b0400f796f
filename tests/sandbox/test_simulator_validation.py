"""Mounts of validation pods, the meaning of the agent's exit codes, and the agent itself on simulated nodes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from simulated_cluster import Cluster

from gpu_platform.base import names
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.expectations import DeclaredNode, expectations_for_machine
from gpu_platform.planning.expectations.section import Expectation
from sandbox.control_plane import Status
from sandbox.simulator.validation import (
    Mounted,
    Result,
    again_after,
    pod_environment,
    pod_status,
    read_mounts,
    read_result,
    shown_result,
)
from tests.support.eventually import eventually
from validators.zipapp import build_agent

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u"},
    "spec": {
        "nodeName": "train-0",
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "agent", "configMap": {"name": "agent"}},
            {"name": "expectations", "configMap": {"name": "train"}},
        ],
        "containers": [{"name": "agent", "image": "python"}],
    },
    "status": {"phase": "Pending"},
}
AGENT_MAP = {"metadata": {"name": "agent", "resourceVersion": "3"}, "binaryData": {"agent.pyz": "UEs="}}
TRAIN_MAP = {"metadata": {"name": "train", "resourceVersion": "7"}, "data": {"expectations.json": "{}"}}


def _report(verdict: str, *checks: tuple[str, str | None, str]) -> str:
    entries = [
        {"id": check, "device": device, "verdict": said, "expected": "8", "observed": "7"}
        for check, device, said in checks
    ]
    return json.dumps({"verdict": verdict, "checks": entries})


def test_agent_and_expectations_come_out_of_the_mounted_config_maps() -> None:
    other = {"metadata": {"name": "other", "resourceVersion": "9"}, "data": {"expectations.json": "wrong"}}
    assert read_mounts(POD, [other, AGENT_MAP, TRAIN_MAP]) == Mounted("UEs=", "{}", (3, 7))


@pytest.mark.parametrize("maps", [[], [AGENT_MAP], [TRAIN_MAP], [AGENT_MAP, {"metadata": {"name": "train"}}]])
def test_a_pod_waits_for_its_volumes(maps: list[dict[str, Any]]) -> None:
    assert read_mounts(POD, maps) is None


def test_the_agent_is_told_who_it_is() -> None:
    assert pod_environment(POD) == {
        "NODE_NAME": "train-0",
        "POD_NAME": "p",
        "POD_UID": "u",
        "POD_NAMESPACE": "n",
    }


@pytest.mark.parametrize(
    ("code", "output", "errors", "expected"),
    [
        (0, _report("pass", ("gpu-count", None, "pass")), "", Result(True, "pass")),
        (
            1,
            _report("fail", ("gpu-count", None, "fail"), ("ecc", "GPU 3", "unknown"), ("mig", None, "pass")),
            "",
            Result(False, "fail: gpu-count: expected 8, observed 7; ecc on GPU 3: expected 8, observed 7"),
        ),
        (
            3,
            _report("pass"),
            "the report could not be published: 403",
            Result(False, "the report could not be published: 403"),
        ),
        (
            2,
            "",
            "expectations: found x\nallowed y",
            Result(False, "unknown: the agent gave no report: allowed y"),
        ),
        (-9, "", "", Result(False, "unknown: the agent gave no report: exit code -9")),
        (0, "not JSON", "", Result(False, "unknown: the agent gave no report: exit code 0")),
    ],
)
def test_what_the_end_of_the_agent_means(code: int, output: str, errors: str, expected: Result) -> None:
    assert read_result(code, output, errors) == expected


def test_a_good_report_is_written_again_every_ten_minutes_as_on_a_real_node() -> None:
    assert again_after(Result(True, "pass"), since=590) == 10
    assert again_after(Result(True, "pass"), since=601) < 0
    assert again_after(Result(False, "fail: gpu-count"), since=6) < 0


def test_the_pods_status_shows_the_result() -> None:
    for result in (Result(True, "pass"), Result(False, "fail: gpu-count")):
        status = pod_status(POD, result)
        assert status["phase"] == "Running"
        assert status["containerStatuses"][0]["ready"] is result.ready
        assert shown_result({"status": status}) == result


def test_the_time_of_a_condition_stays_while_its_status_stays() -> None:
    before = pod_status(POD, Result(False, "one"))
    for condition in before["conditions"]:
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    after = pod_status({**POD, "status": before}, Result(False, "two"))
    assert {condition["lastTransitionTime"] for condition in after["conditions"]} == {"2026-01-01T00:00:00Z"}
    ready = pod_status({**POD, "status": before}, Result(True, "pass"))["conditions"][-1]
    assert ready["lastTransitionTime"] > "2026-01-01T00:00:00Z"


# -- on the sandbox ---------------------------------------------------------------------------------------

NAMESPACE = names.VALIDATION_NAMESPACE
MACHINE = "p4de.24xlarge"


@pytest.fixture
def gate(sandbox: Status) -> Iterator[Cluster]:
    """A cluster with an operator, and with everything that an agent needs in the validation namespace."""
    with Cluster(sandbox) as cluster:
        cluster.operator(default="version: v1")
        cluster.namespace(NAMESPACE)
        core, rbac = (
            f"/api/v1/namespaces/{NAMESPACE}",
            f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}",
        )
        account = {"name": names.VALIDATION_APP}
        cluster.make(f"{core}/serviceaccounts", {"metadata": account})
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update", "patch"]}
        cluster.make(f"{rbac}/roles", {"metadata": account, "rules": [rule]})
        cluster.make(
            f"{rbac}/rolebindings",
            {
                "metadata": account,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", **account},
                "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, **account}],
            },
        )
        cluster_rbac = "/apis/rbac.authorization.k8s.io/v1"
        marks = {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["patch"]}
        events = {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}
        cluster.make(f"{cluster_rbac}/clusterroles", {"metadata": account, "rules": [marks, events]})
        cluster.make(
            f"{cluster_rbac}/clusterrolebindings",
            {
                "metadata": account,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **account},
                "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, **account}],
            },
        )
        agent = {"agent.pyz": base64.b64encode(build_agent()).decode()}
        cluster.make(f"{core}/configmaps", {"metadata": {"name": "agent"}, "binaryData": agent})
        cluster.config_map("expectations", NAMESPACE, **{"expectations.json": _expectations(8)})
        labels = {names.NAME_LABEL: names.VALIDATION_APP, names.POOL_LABEL: "train"}
        cluster.make(
            f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
            {
                "metadata": {"name": "validate-train"},
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            "serviceAccountName": names.VALIDATION_APP,
                            "runtimeClassName": "nvidia",
                            "tolerations": [{"operator": "Exists"}],
                            "volumes": [
                                {"name": name, "configMap": {"name": name}} for name in ("agent", "expectations")
                            ],
                            "containers": [{"name": "agent", "image": "python"}],
                        },
                    },
                },
            },
        )
        yield cluster


def _expectations(gpus: int) -> str:
    catalog = load_catalog()
    expected = expectations_for_machine(
        catalog.machine_types[MACHINE],
        catalog,
        DeclaredNode(pool="train", driver_version="580.95.05", driver_source="test"),
    )
    return json.dumps(
        replace(expected, expect={**expected.expect, "gpu-count": Expectation(gpus, "test")}).to_json()
    )


def _readiness(cluster: Cluster, node: str) -> tuple[bool, str]:
    """Return whether the agent's pod on a node is ready, and the agent's verdict."""
    for pod in cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]:
        result = shown_result(pod)
        if pod["spec"].get("nodeName") == node and result is not None:
            return result.ready, result.message.partition(":")[0]
    return False, "no pod"


def _report_of(cluster: Cluster, node: str) -> dict[str, Any]:
    config_map = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/node-validation-{node}")
    return json.loads(config_map["data"]["report.json"])


def _condition(cluster: Cluster, node: str) -> tuple[str, str, str]:
    conditions = cluster.api.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
    [found] = [each for each in conditions if each["type"] == names.VALIDATED_CONDITION]
    return found["status"], found["reason"], found["message"]


def _validated(cluster: Cluster, node: str) -> str | None:
    return cluster.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"].get(names.VALIDATED_LABEL)


@pytest.mark.sandbox
def test_a_healthy_node_is_ready_and_a_faulty_one_is_not_until_it_is_repaired(gate: Cluster) -> None:
    sound, faulty = gate.node(MACHINE), gate.node(MACHINE)
    gate.faults(**{faulty: '[{"kind": "nvlink-degraded", "index": 0, "link": 5}]'})
    eventually(lambda: _readiness(gate, sound), (True, "pass"))
    eventually(lambda: _readiness(gate, faulty), (False, "fail"))
    failed = [check for check in _report_of(gate, faulty)["checks"] if check["verdict"] == "fail"]
    assert [(check["id"], check["device"]) for check in failed] == [("nvlink-count", "GPU 0")]
    assert _condition(gate, sound) == ("True", "NodePasses", "all checks pass")
    status, reason, message = _condition(gate, faulty)
    assert (status, reason) == ("False", "CheckFailed")
    assert "nvlink-count GPU 0: expected 12, observed 11 of 12 active; inactive: 5" in message
    events = gate.api.get("/api/v1/namespaces/default/events")["items"]
    [event] = [each for each in events if each["involvedObject"]["name"] == faulty and "nvlink" in each["message"]]
    assert (event["type"], event["reason"]) == ("Warning", "GpuCheckFailed")
    assert _validated(gate, sound)
    assert not _validated(gate, faulty)
    gate.faults(**{faulty: None})
    eventually(lambda: _readiness(gate, faulty), (True, "pass"))
    assert _validated(gate, faulty) == _validated(gate, sound)


@pytest.mark.sandbox
def test_changed_expectations_are_checked_by_themselves(gate: Cluster) -> None:
    node = gate.node(MACHINE)
    eventually(lambda: _readiness(gate, node), (True, "pass"))
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/expectations"
    gate.api.patch(path, {"data": {"expectations.json": _expectations(4)}}, "merge")
    eventually(lambda: _readiness(gate, node), (False, "fail"))


@pytest.mark.sandbox
def test_a_node_whose_nvml_hangs_is_unknown(gate: Cluster) -> None:
    node = gate.node(MACHINE)
    gate.faults(**{node: '[{"kind": "nvml-hang"}]'})
    eventually(lambda: _readiness(gate, node), (False, "unknown"))
    assert _report_of(gate, node)["verdict"] == "unknown"
