"""A new driver is announced with the affected pods and budgets, rolled out node by node, and validated."""

from __future__ import annotations

import copy
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.base import names
from tests.e2e.conftest import TOLERATION, Platform
from tests.support.command_line import COMMAND
from tests.support.eventually import eventually

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-base")]

SHARED = "nvidia.com/gpu.shared"
NEW = "580.173.02"


@pytest.fixture
def guarded(deployed: Platform) -> Iterator[Platform]:
    """A Deployment on the pool `serve` whose only pod is protected by a disruption budget."""
    amount = {"cpu": "100m", "memory": "64Mi", SHARED: "1"}
    spec = {
        "nodeSelector": {names.HOSTNAME_LABEL: "serve-0"},
        "tolerations": [TOLERATION],
        "containers": [{"name": "main", "image": "none", "resources": {"limits": amount}}],
    }
    labels = {"app": "guarded"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "guarded", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    made = [deployed.client.create(deployment), deployed.client.create(budget(1))]
    eventually(lambda: (found(deployed, "apps/v1", "Deployment").get("status") or {}).get("readyReplicas"))
    policy = ("policy/v1", "PodDisruptionBudget")
    eventually(lambda: (found(deployed, *policy).get("status") or {}).get("expectedPods"))
    yield deployed
    for live in reversed(made):
        deployed.client.delete(live)
    eventually(lambda: not list(deployed.client.objects("v1", "Pod", namespace="default")))


def budget(least: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guarded", "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "guarded"}}},
    }


def found(platform: Platform, version: str, kind: str) -> dict[str, Any]:
    return platform.client.get(version, kind, "guarded", "default") or {}


def labels(platform: Platform, node: str) -> dict[str, str]:
    live = platform.client.get("v1", "Node", node)
    assert live is not None
    return live["metadata"]["labels"]


def test_the_upgrade_report_reads_what_runs(deployed: Platform, base: dict[str, Any]) -> None:
    document = deployed.run("upgrade", str(deployed.write(base)), "--format", "json").json
    assert document["cluster_read"] is True
    software = {item["subject"]: item for item in document["software"]}
    assert software["Kubernetes (sandbox)"]["running"].startswith("v1.")
    assert software["GPU Operator"]["running"] == software["GPU Operator"]["planned"]
    assert software["driver"]["running"] == software["driver"]["planned"]


def test_a_pinned_older_driver_shows_the_impact_of_its_upgrade(deployed: Platform, base: dict[str, Any]) -> None:
    old = copy.deepcopy(base)
    old["operator"] = {"driver": {"version": "535.309.01"}}
    document = deployed.run("upgrade", str(deployed.write(old)), "--format", "json").json
    (step,) = document["steps"]
    assert (step["subject"], step["edits"]) == ("driver", {"operator.driver.version": "595.91.07"})
    (train,) = [impact for impact in step["disturbs"] if impact["subject"] == "pool train"]
    assert [(pod["namespace"], pod["owner"]) for pod in train["pods"]] == [("vision", "Deployment pretrain")]


# This test runs last in the group.
# Going back to the older driver would replace the driver on all nodes again.
def test_a_driver_upgrade_is_announced_rolled_under_a_budget_and_validated(
    guarded: Platform, base: dict[str, Any]
) -> None:
    changed = copy.deepcopy(base)
    changed["operator"] = {"driver": {"version": NEW}}
    file = str(guarded.write(changed))

    report = guarded.run("preview", file, "--engine", "embedded", "--format", "json")
    impacts = {one["subject"]: one for one in report.json["impact"]["changes"] if one["effect"] == "rolls-nodes"}
    assert set(impacts) == {"pool train", "pool serve", "pool lab"}
    serve, train = impacts["pool serve"], impacts["pool train"]
    assert [(pod["owner"], pod["node"]) for pod in serve["pods"]] == [("Deployment guarded", "serve-0")]
    assert serve["budgets"] == ["default/guarded"]
    assert [(pod["namespace"], pod["owner"], pod["node"]) for pod in train["pods"]] == [
        ("vision", "Deployment pretrain", "train-0")
    ]
    assert train["budgets"] == []
    (before,) = guarded.client.objects("v1", "Pod", namespace="vision")

    guarded.state.clear()
    command = [*COMMAND, "up", file, "--engine", "embedded", "--format", "json"]
    env = {**os.environ, **guarded.env}
    up = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        state = names.DRIVER_UPGRADE_STATE_LABEL
        eventually(lambda: labels(guarded, "serve-0").get(state) == "pod-deletion-required")
        assert found(guarded, "apps/v1", "Deployment")["status"].get("readyReplicas") == 1
        assert labels(guarded, "serve-0")[names.DRIVER_VERSION_LABEL] != NEW
        guarded.client.apply(budget(0))
        out, errors = up.communicate()
    finally:
        up.kill()
    assert up.returncode == 0, errors
    for node in ("train-0", "serve-0", "lab-0"):
        assert labels(guarded, node)[names.DRIVER_VERSION_LABEL] == NEW
        assert labels(guarded, node)[state] == "upgrade-done"
    checks = [check for node in json.loads(out)["validation"]["nodes"] for check in node["checks"]]
    drivers = [check for check in checks if check["id"] == "driver-version"]
    assert {(check["verdict"], check["observed"]) for check in drivers} == {("pass", NEW)}
    (after,) = guarded.client.objects("v1", "Pod", namespace="vision")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_a_pod_without_a_controller_stops_up_with_helpful_commands(
    deployed: Platform, base: dict[str, Any]
) -> None:
    amount = {"cpu": "100m", "memory": "64Mi", SHARED: "1"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": "default"},
        "spec": {
            "nodeSelector": {names.HOSTNAME_LABEL: "serve-0"},
            "tolerations": [TOLERATION],
            "containers": [{"name": "main", "image": "none", "resources": {"limits": amount}}],
        },
    }
    made = deployed.client.create(pod)
    eventually(lambda: (deployed.client.get("v1", "Pod", "bare", "default") or {})["status"]["phase"] == "Running")
    changed = copy.deepcopy(base)
    changed["operator"] = {"driver": {"version": NEW}}
    file = str(deployed.write(changed))

    preview = deployed.run("preview", file, "--engine", "embedded", "--fail-on", "blocked")
    assert preview.code == 1
    assert "never evicted: default/bare: no controller would start the pod again" in one_line(preview.out)
    assert "pool serve blocked" in preview.err

    up = deployed.run("up", file, "--engine", "embedded")
    assert up.code == 1
    assert "node serve-0: driver-upgrade is upgrade-failed; remaining pods: default/bare" in up.err
    assert "kubectl delete pod -n default bare" in up.err
    again = f"kubectl label node serve-0 --overwrite {names.DRIVER_UPGRADE_STATE_LABEL}=upgrade-required"
    assert again in up.err
    validated = deployed.run("validate", file, "--format", "json")
    checks = [check for node in validated.json["nodes"] for check in node["checks"]]
    assert [check["remediation"] for check in checks if again in check["remediation"]]

    deployed.client.delete(made)
    required = {"name": "serve-0", "labels": {names.DRIVER_UPGRADE_STATE_LABEL: "upgrade-required"}}
    deployed.client.merge({"apiVersion": "v1", "kind": "Node", "metadata": required})
    assert deployed.run("up", file, "--engine", "embedded").code == 0
    assert labels(deployed, "serve-0")[names.DRIVER_UPGRADE_STATE_LABEL] == "upgrade-done"
