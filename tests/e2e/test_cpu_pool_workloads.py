"""The nodes of a CPU pool in the sandbox pass validation without an agent, and pods without GPUs run only there.

A test that compares the output of commands with a transcript deploys the stack.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_platform.base import names
from gpu_platform.live.client import KubernetesClient
from tests.e2e.conftest import SANDBOX, VALIDATION_TIMEOUT, Platform
from tests.e2e.transcripts import PLAIN, steady
from tests.support.command_line import Ran
from tests.support.eventually import eventually
from tests.support.recordings import record_node

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-cpu-pools")]

STACK: dict[str, Any] = {
    "kind": "environment",
    "cluster": {"provider": "sandbox", "name": SANDBOX},
    "pools": [
        {"name": "serve", "machine_type": "g4dn.xlarge", "count": {"desired": 1}, "workload": "inference"},
        {"name": "monitoring", "machine_type": "m7i.2xlarge", "count": {"desired": 2}, "workload": "general"},
    ],
    "teams": [
        {
            "name": "vision",
            "quota": {"gpus": 1, "cpu": 8, "memory": "32Gi"},
            "priority": "inference",
            "members": ["group:vision"],
            "workloads": [{"name": "loader", "pool": "monitoring", "gpus": 0, "replicas": 2, "cpu": "2"}],
        }
    ],
    "validation": {"timeout": VALIDATION_TIMEOUT},
}
CPU_NODES = {"monitoring-0", "monitoring-1"}


@pytest.fixture
def deployed(platform: Platform) -> Platform:
    """Deploy the stack, unless a test has already deployed it."""
    if platform.state.get("shop") != STACK:
        ran = platform.up(STACK)
        assert ran.code == 0, ran.err
    platform.write(STACK)
    return platform


CALLS = (
    "preview {file} --engine embedded",
    "up {file} --engine embedded",
    "preview {file} --engine embedded",
    "up {file} --engine embedded",
    "validate {file}",
    "capacity {file}",
    "guide {file} vision --live",
    "place {file} --live",
    "sandbox up --name {sandbox}",
    "sandbox status --name {sandbox}",
    "sandbox list",
    "sandbox fault serve-0 --name {sandbox}",
    "sandbox replay serve-0 {recording} --name {sandbox}",
    "sandbox replay serve-0 --name {sandbox}",
)


def test_commands_on_a_cluster_print_their_transcript(platform: Platform, snapshot: SnapshotAssertion) -> None:
    file = platform.write(STACK)
    platform.env = PLAIN
    recording = platform.folder / "node.json"
    record_node(recording, machine_type="g4dn.xlarge", driver_version="580.65.06")
    parts: list[str] = []
    for call in CALLS:
        words = [word.format(file=file, sandbox=SANDBOX, recording=recording) for word in call.split(" ")]
        ran = platform.run(*words)
        shown = call.format(file="Pulumi.shop.yaml", sandbox="SANDBOX", recording="node.json")
        answer = steady(platform, ran.out + ran.err)
        # The output also lists the sandboxes of other workers, and the column widths depend on their names.
        if call == "sandbox list":
            rows = [re.sub("(?<=\\S) {2,}", "  ", row) for row in answer.splitlines()]
            answer = "\n".join(row for row in rows if row.split()[:1] in (["name"], ["SANDBOX"]))
        parts.append(f"$ gpu-platform {shown}\n{answer}\n(exit {ran.code})\n")
    platform.state["shop"] = STACK
    assert "\n".join(parts) == snapshot


def test_a_workload_without_gpus_runs_on_the_cpu_pool(deployed: Platform) -> None:
    def loaders() -> list[dict[str, Any]]:
        pods = deployed.client.objects("v1", "Pod", namespace="vision")
        running = [dict(pod) for pod in pods if pod["status"].get("phase") == "Running"]
        return running if len(running) == 2 else []

    found = eventually(loaders)
    assert {pod["spec"]["nodeName"] for pod in found} <= CPU_NODES
    assert all("nvidia.com/gpu" not in str(pod["spec"]["containers"][0]["resources"]) for pod in found)


def test_a_pod_that_names_no_pool_and_tolerates_nothing_runs_on_the_cpu_pool(deployed: Platform) -> None:
    deployed.pod("prometheus", "ephemeral-storage", 1024, tolerate=False)
    eventually(lambda: deployed.find_pod("prometheus")["status"].get("phase") == "Running")
    assert deployed.find_pod("prometheus")["spec"]["nodeName"] in CPU_NODES


def test_cpu_nodes_pass_with_kubernetes_checks_only(deployed: Platform) -> None:
    def validate() -> Ran:
        return deployed.run("validate", str(deployed.folder / "Pulumi.shop.yaml"), "--format", "json")

    # The agent may still run a pass that began during the transcript's replay.
    eventually(lambda: validate().code, 0)
    ran = validate()
    nodes = {node["node"]: node for node in json.loads(ran.out)["nodes"]}
    assert {node: nodes[node]["verdict"] for node in CPU_NODES} == dict.fromkeys(CPU_NODES, "pass")
    assert {check["id"] for check in nodes["monitoring-0"]["checks"]} == {"node-ready", "label"}
    assert deployed.allocatable("monitoring-0") == {}
    assert [key for key in _labels(deployed.client, "monitoring-0") if key.startswith(names.NVIDIA_PREFIX)] == []


def test_destroy_on_a_cluster_prints_its_transcript(deployed: Platform, snapshot: SnapshotAssertion) -> None:
    deployed.env = PLAIN
    file = str(deployed.folder / "Pulumi.shop.yaml")
    ran = deployed.run("destroy", file, "--engine", "embedded", "--yes")
    assert f"{steady(deployed, ran.out + ran.err)}\n(exit {ran.code})" == snapshot


def _labels(client: KubernetesClient, node: str) -> dict[str, str]:
    found = client.get("v1", "Node", node)
    assert found is not None
    return found["metadata"]["labels"]
