"""The real Pulumi CLI deploys to the sandbox with the Automation API and a file backend.

The tests also compare this engine with the embedded engine. They run if `pulumi` and its Kubernetes provider are
on PATH.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.base.progress import Progress
from gpu_platform.live.client import KubernetesClient
from sandbox import control_plane
from tests.e2e.conftest import Platform, platform_of_the_cli
from tests.support.eventually import eventually
from tests.support.pulumi_cli import NEEDS_PULUMI, environment

SANDBOX = "e2e-pulumi"
KINDS = [
    ("v1", "Namespace"),
    ("v1", "Node"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
    ("v1", "ResourceQuota"),
    ("v1", "LimitRange"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("nvidia.com/v1", "ClusterPolicy"),
    ("monitoring.coreos.com/v1", "ServiceMonitor"),
    ("monitoring.coreos.com/v1", "PrometheusRule"),
]
SERVERS_OWN = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "annotations",
    "labels",
}
# Labels and annotations that an engine, the controllers or the simulated operator add to the declared ones.
NOT_DECLARED = ("applyset.kubernetes.io/", "pulumi.com/", "deployment.kubernetes.io/", "deprecated.", "sandbox.")

pytestmark = [
    pytest.mark.long,
    *NEEDS_PULUMI,
    pytest.mark.sandbox,
    pytest.mark.timeout(5400),  # the test covers a stack's life, which takes minutes, or longer on a busy machine
    pytest.mark.xdist_group("e2e-pulumi"),
]


@pytest.fixture(scope="module")
def running() -> Iterator[control_plane.Status]:
    yield control_plane.up(SANDBOX, progress=Progress(quiet=True))
    control_plane.down(SANDBOX)


@pytest.fixture
def pulumi(
    running: control_plane.Status, tmp_path_factory: pytest.TempPathFactory, base: dict[str, Any]
) -> Platform:
    base["cluster"]["name"] = SANDBOX
    base["validation"]["timeout"] = "10m"
    folder = tmp_path_factory.getbasetemp() / "pulumi-stacks"
    backend = tmp_path_factory.getbasetemp() / "pulumi-backend"
    return platform_of_the_cli(running, folder, backend)


def test_the_whole_life_of_a_stack(pulumi: Platform, base: dict[str, Any]) -> None:
    previewed = pulumi.run("preview", str(pulumi.write(base)), "--engine", "pulumi", "--format", "json")
    assert previewed.code == 0, previewed.err
    declared = previewed.json["changes"]["counts"]["create"]
    assert declared > 30
    assert list(pulumi.client.objects("v1", "Node")) == [], "a preview changes nothing"

    ran = pulumi.up(base)
    assert ran.code == 0, ran.err
    assert ran.json["engine"]["name"] == "pulumi"
    assert ran.json["changes"]["counts"]["create"] == declared
    assert ran.json["validation"]["verdict"] == "pass"
    assert pulumi.allocatable("serve-0") == {"nvidia.com/gpu.shared": "4"}

    again = pulumi.up(base)
    assert again.code == 0, again.err
    assert again.json["changes"]["changes"] == []

    base["pools"][1]["sharing"]["replicas"] = 2
    assert pulumi.up(base).code == 0
    assert pulumi.allocatable("serve-0") == {"nvidia.com/gpu.shared": "2"}

    del base["pools"][1], base["teams"][1]
    removed = pulumi.up(base)
    assert removed.code == 0, removed.err
    assert {n["metadata"]["name"] for n in pulumi.client.objects("v1", "Node")} == {"train-0", "lab-0"}

    destroyed = pulumi.run("destroy", str(pulumi.write(base)), "--engine", "pulumi", "--yes")
    assert destroyed.code == 0, destroyed.err
    assert list(pulumi.client.objects("v1", "Node")) == []
    assert pulumi.client.get("v1", "Namespace", "vision") is None
    assert pulumi.client.get("nvidia.com/v1", "ClusterPolicy", "cluster-policy") is None


def test_the_policy_pack_stops_what_it_must_and_lets_advice_pass(pulumi: Platform, base: dict[str, Any]) -> None:
    base["pools"][0]["sharing"] = {"mode": "time-slicing", "replicas": 2}
    base["teams"] = []
    base["policy"] = {"rules": {"sharing-for-training": {"enforcementLevel": "mandatory"}}}
    refused = pulumi.run("preview", str(pulumi.write(base)), "--engine", "pulumi")
    assert refused.code == 1
    assert "sharing-for-training" in refused.out + refused.err
    base["policy"] = {"level": "advisory"}
    advised = pulumi.run("preview", str(pulumi.write(base)), "--engine", "pulumi")
    assert advised.code == 0, advised.err
    assert "sharing-for-training" in advised.out


OWN_PROGRAM = """
import pulumi_kubernetes as k8s

k8s.batch.v1.Job(
    "fit",
    metadata={"name": "fit", "namespace": "default", "annotations": {"pulumi.com/skipAwait": "true"}},
    spec={
        "suspend": True,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": "main", "image": "train:1", "resources": {"requests": {"nvidia.com/gpu": 2}}}
                ],
            }
        },
    },
)
"""


def test_a_remedy_fills_in_fields_before_a_user_program_deploys(
    running: control_plane.Status, tmp_path: Path
) -> None:
    runtime = {"name": "python", "options": {"virtualenv": sys.prefix}}
    (tmp_path / "Pulumi.yaml").write_text(json.dumps({"name": "own", "runtime": runtime}), "utf-8")
    (tmp_path / "__main__.py").write_text(OWN_PROGRAM, "utf-8")
    rule = "gpu-requests-equal-limits"
    settings = {"all": "disabled", rule: "mandatory", f"{rule}-remedy": "remediate"}
    (tmp_path / "settings.json").write_text(json.dumps(settings), "utf-8")
    env = {**os.environ, **environment(tmp_path / "backend"), "KUBECONFIG": str(running.kubeconfig)}

    def pulumi(*command: str) -> subprocess.CompletedProcess[str]:
        whole = ["pulumi", "-C", str(tmp_path), *command, "--stack", "dev", "--non-interactive"]
        return subprocess.run(whole, env=env, capture_output=True, text=True, check=False)

    assert pulumi("stack", "init").returncode == 0
    pack = (
        "--policy-pack",
        str(PROJECT_ROOT / "policies"),
        "--policy-pack-config",
        str(tmp_path / "settings.json"),
    )
    client = KubernetesClient(running.kubeconfig)
    ran = pulumi("up", "--yes", "--skip-preview", *pack)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    live = client.get("batch/v1", "Job", "fit", "default")
    assert live is not None
    (container,) = live["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}}
    (tmp_path / "settings.json").write_text(json.dumps({"all": "disabled"}), "utf-8")
    ran = pulumi("preview", *pack)
    assert ran.returncode != 0
    assert "Limit must be set for non overcommitable resources" in ran.stdout + ran.stderr
    assert pulumi("destroy", "--yes", "--skip-preview").returncode == 0
    eventually(lambda: client.get("batch/v1", "Job", "fit", "default") is None)


def test_a_broken_node_fails_the_update_within_its_timeout_and_is_named(
    pulumi: Platform, base: dict[str, Any]
) -> None:
    base["validation"]["timeout"] = "20s"
    fault: dict[str, Any] = {"kind": "gpu-missing", "index": 3}
    pulumi.write_faults(**{"train-0": [fault]})
    try:
        assert pulumi.up(base).code == 1
        file = str(pulumi.folder / "Pulumi.shop.yaml")

        def failed() -> tuple[str, str] | None:
            nodes = pulumi.run("validate", file, "--format", "json").json["nodes"]
            checks = [check for node in nodes if node["node"] == "train-0" for check in node["checks"]]
            found = [check for check in checks if (check["id"], check["verdict"]) == ("gpu-count", "fail")]
            return (found[0]["expected"], found[0]["observed"]) if found else None

        assert eventually(failed) == ("8", "7")
    finally:
        pulumi.write_faults()
        pulumi.run("destroy", str(pulumi.write(base)), "--engine", "pulumi", "--yes")


def test_both_engines_give_the_same_objects(pulumi: Platform, base: dict[str, Any]) -> None:
    def objects() -> dict[str, dict[str, Any]]:
        found = {}
        for api_version, kind in KINDS:
            for live in pulumi.client.objects(api_version, kind):
                metadata = live["metadata"]
                if not metadata["name"].startswith(("node-validation-", "kube-", "applyset", "gpu-platform-shop")):
                    found[f"{kind} {metadata.get('namespace', '')}/{metadata['name']}"] = _declared(live)
        return found

    results = {}
    for engine in ("pulumi", "embedded"):
        pulumi.engine = engine
        ran = pulumi.up(base)
        assert ran.code == 0, ran.err
        results[engine] = objects()
        gone = pulumi.run("destroy", str(pulumi.write(base)), "--engine", engine, "--yes")
        assert gone.code == 0, gone.err
        eventually(lambda: pulumi.client.get("v1", "Namespace", "vision") is None)
    assert results["pulumi"].keys() == results["embedded"].keys()
    for name, found in results["pulumi"].items():
        assert found == results["embedded"][name], name


def _declared(live: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in live["metadata"].items() if key not in SERVERS_OWN}
    for part in ("labels", "annotations"):
        entries = (live["metadata"].get(part) or {}).items()
        metadata[part] = {k: v for k, v in entries if not k.startswith(NOT_DECLARED)}
    rest = {key: value for key, value in live.items() if key not in {"metadata", "status"}}
    return {**rest, "metadata": metadata}
