"""The clean-up on a real API server, with only the permissions that its component grants."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes
import pytest
import yaml

from gpu_platform.base import names
from gpu_platform.cleanup.packed import build_cleanup
from gpu_platform.live.client import KubernetesClient
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from sandbox.control_plane import Status
from tests.deploy.conftest import Stack, namespace
from tests.support.recorded import Recorded

TEAM = "cleanup-vision"
OWN = names.CLEANUP_NAMESPACE
Run = Callable[..., dict[str, Any]]


def recorded(folder: Path, *, delete: bool) -> Recorded:
    platform: dict[str, Any] = {
        "kind": "environment",
        "cluster": {"provider": "sandbox", "name": "local"},
        "pools": [{"name": "a", "machine_type": "g5.xlarge", "count": {"desired": 1}, "workload": "inference"}],
        "teams": [
            {
                "name": TEAM,
                "quota": {"gpus": 1},
                "priority": "inference",
                "members": ["group:vision"],
                "workloads": [{"name": "declared", "pool": "a", "gpus": 1, "cpu": "1", "memory": "1Gi"}],
            }
        ],
        "cleanup": {"delete": delete, "finished_after": "1h"},
    }
    plan = plan_platform(platform, "test")
    return Recorded(record_stack(LoadedStack("test", folder / "Pulumi.test.yaml", platform, plan)))


def manifest(record: Any, api_version: str) -> dict[str, Any]:
    kind = record.type.rsplit(":", 1)[-1]
    return {
        "name": f"{kind}-{record.name}",
        "manifest": {"apiVersion": api_version, "kind": kind, **record.inputs},
    }


@pytest.fixture
def clean(stack: Stack, sandbox: Status, tmp_path: Path) -> Run:
    """Return a function that deploys the service account with its permissions, runs the program, and returns its
    report.
    """
    program = tmp_path / "cleanup.pyz"
    program.write_bytes(build_cleanup())
    kubeconfig = yaml.safe_load(sandbox.kubeconfig.read_text())
    cluster = kubeconfig["clusters"][0]["cluster"]

    def run(*, delete: bool) -> dict[str, Any]:
        found = recorded(tmp_path, delete=delete)
        rbac = "rbac.authorization.k8s.io/v1"
        objects = [namespace(TEAM), manifest(found.one("Namespace", OWN), "v1")]
        objects += [manifest(found.one("ServiceAccount", "gpu-cleanup"), "v1")]
        objects += [
            manifest(found.one(kind, f"gpu-cleanup-{place}"), rbac)
            for kind in ("Role", "RoleBinding")
            for place in (OWN, TEAM)
        ]
        stack.up(objects)
        [settings] = [one for one in found.of("ConfigMap") if one.name.startswith("gpu-cleanup-settings-")]
        (tmp_path / "settings.json").write_text(settings.inputs["data"]["settings.json"])
        api = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(sandbox.kubeconfig)))
        request: Any = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": None},
        }
        answer: Any = api.create_namespaced_service_account_token("gpu-cleanup", OWN, request)
        (tmp_path / "token").write_text(answer.status.token)
        environment = {
            **os.environ,
            "GPU_PLATFORM_API_SERVER": cluster["server"],
            "GPU_PLATFORM_TOKEN_FILE": str(tmp_path / "token"),
            "GPU_PLATFORM_CA_FILE": str(authority(cluster, tmp_path)),
        }
        command = [sys.executable, "-I", str(program), str(tmp_path / "settings.json")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        report = stack.client.get("v1", "ConfigMap", "cleanup-report", OWN)
        assert report is not None
        return json.loads(report["data"]["report.json"])

    return run


def authority(cluster: dict[str, Any], folder: Path) -> Path:
    if "certificate-authority" in cluster:
        return Path(cluster["certificate-authority"])
    path = folder / "ca.crt"
    path.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return path


def job(client: KubernetesClient, name: str, **labels: str) -> None:
    """Create a suspended Job."""
    made = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": TEAM,
            "labels": {f"gpu-platform.dev/{k}": v for k, v in labels.items()},
        },
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}},
        },
    }
    client.create(made)


def test_a_dry_run_reports_and_a_run_with_delete_deletes_what_it_reported(clean: Run, stack: Stack) -> None:
    assert clean(delete=False)["found"] == []
    client = stack.client
    job(client, "over", **{"expires-on": "2020-01-01"})
    job(client, "mine", **{"expires-on": "2020-01-01", "cleanup": "never"})
    job(client, "later", **{"expires-on": "2999-01-01"})
    job(client, "declared", **{"expires-on": "2020-01-01"})

    def left() -> set[str]:
        return {one["metadata"]["name"] for one in client.objects("batch/v1", "Job", namespace=TEAM)}

    [found] = clean(delete=False)["found"]
    assert (found["kind"], found["name"], found["rule"], found["done"]) == (
        "Job",
        "over",
        "expired",
        "would be deleted",
    )
    assert left() == {"over", "mine", "later", "declared"}
    [found] = clean(delete=True)["found"]
    assert (found["name"], found["done"]) == ("over", "deleted")
    assert left() == {"mine", "later", "declared"}
    events = [one for one in client.objects("v1", "Event", namespace=TEAM) if one.get("reason") == "CleanedUp"]
    assert [one["involvedObject"]["name"] for one in events] == ["over"]
    assert clean(delete=True)["found"] == []
