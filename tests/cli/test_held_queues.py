"""Messages about a queue that an administrator has stopped during an incident."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import Finding
from gpu_platform.base.progress import Progress
from gpu_platform.cli.engines import PulumiDeployment
from gpu_platform.cli.held_queues import warn_of_held_queues
from gpu_platform.deploy.pulumi.pulumi_cli import find_cli
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.components.test_queues import queued
from tests.deploy.test_choice import put_pulumi
from tests.live.test_connection import answering, kubeconfig

API = "/apis/kueue.x-k8s.io/v1beta2"


@contextmanager
def cluster_with(
    policies: dict[str, str], tmp_path: Path, manager: str = "kubectl-patch"
) -> Generator[LoadedStack]:
    """Yield a stack whose cluster has queues with these stop policies.

    `policies` maps each queue to its stop policy. `manager` is the field manager that has set the policies.
    """

    def answer(_method: str, path: str) -> tuple[int, dict[str, Any]]:
        if path == API:
            plurals = {"ClusterQueue": "clusterqueues", "LocalQueue": "localqueues"}
            return 200, {
                "resources": [
                    {"kind": kind, "name": plural, "namespaced": kind == "LocalQueue"}
                    for kind, plural in plurals.items()
                ]
            }
        name = path.partition("?")[0].rpartition("/")[2]
        if path == "/api/v1":
            return 200, {"resources": [{"kind": "Node", "name": "nodes", "namespaced": False}]}
        if name == "nodes":
            return 200, {"metadata": {}, "items": [{"metadata": {"name": f"train-{index}"}} for index in range(2)]}
        if name not in policies:
            return 404, {"reason": "NotFound", "message": "not found"}
        by = {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:stopPolicy": {}}}}
        kind = "LocalQueue" if name == "default" else "ClusterQueue"
        return 200, {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": kind,
            "metadata": {"name": name, "managedFields": [by]},
            "spec": {"stopPolicy": policies[name]},
        }

    with answering(answer) as port:
        file = kubeconfig(tmp_path, port)
        context = yaml.safe_load(file.read_text())["contexts"][0]["name"]
        stack = queued("existing", monitoring={"prometheus_operator": False})
        stack["cluster"] = {**stack["cluster"], "kubeconfig": str(file), "context": context}
        yield LoadedStack("test", tmp_path / "Pulumi.test.yaml", stack, plan_platform(stack, "test"))


def warnings(policies: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    with cluster_with(policies, tmp_path) as loaded:
        warn_of_held_queues(loaded.plan, ClusterAccess(loaded.plan))
    return capsys.readouterr().err


def test_a_held_queue_is_named_with_its_holder_and_the_release_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = warnings({"vision": "Hold"}, tmp_path, capsys)
    assert "ClusterQueue vision is held (spec.stopPolicy: Hold, set by kubectl-patch)" in said
    assert """kubectl patch clusterqueue vision --type merge -p '{"spec": {"stopPolicy": "None"}}'""" in said


def test_the_pulumi_provider_is_not_named_as_the_holder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster_with({"vision": "Hold"}, tmp_path, "pulumi-kubernetes-c7fda175") as loaded:
        warn_of_held_queues(loaded.plan, ClusterAccess(loaded.plan))
    assert "ClusterQueue vision is held (spec.stopPolicy: Hold): no new" in capsys.readouterr().err


def test_a_held_local_queue_is_named_with_its_namespace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = warnings({"default": "HoldAndDrain"}, tmp_path, capsys)
    assert "running workloads were stopped" in said
    assert "kubectl patch localqueue default -n vision --type merge" in said


def test_queues_that_nobody_holds_are_not_mentioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert warnings({"vision": "None"}, tmp_path, capsys) == ""


@pytest.mark.parametrize(
    ("policies", "held"),
    [({"vision": "Hold"}, {"vision": {"ClusterQueue": "Hold"}}), ({"vision": "None"}, {})],
)
def test_preview_and_up_pass_held_queues_to_the_pulumi_program(
    policies: dict[str, str], held: dict[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, exported = tmp_path / "told", tmp_path / "exported.json"
    own = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "vision"}}
    resource = {"type": f"kubernetes:{own['apiVersion']}:ClusterQueue", "custom": True, "inputs": own}
    exported.write_text(json.dumps({"deployment": {"resources": [resource]}}))
    script = f'printf "%s" "$GPU_PLATFORM_HELD" > {told}; echo "error: stop" >&2; exit 255'
    answers = f'*"stack export"*) /bin/cat {exported} ;; *"stack output"*) echo "{{}}" ;;'
    put_pulumi(tmp_path / "path", version("pulumi"), f'case "$*" in {answers} *) {script} ;; esac')
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///states")
    with cluster_with(policies, tmp_path) as loaded:
        deployment = PulumiDeployment(
            loaded,
            record_stack(loaded),
            Progress(quiet=True),
            ClusterAccess(loaded.plan),
            find_cli(install=False),
        )
        for run in (deployment.preview, lambda: deployment.up({})):
            told.write_text("")
            with pytest.raises(Finding, match="stop"):
                run()
            assert json.loads(told.read_text()) == held
