"""The real Pulumi CLI with live objects that are protected, were changed by others, or remain after a killed
`destroy`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.paths import PROJECT_ROOT, STACKS_DIR_VARIABLE
from gpu_platform.base.progress import Progress
from gpu_platform.stack.project import project_settings
from sandbox import control_plane
from tests.e2e.conftest import Platform, platform_of_the_cli
from tests.support.eventually import eventually
from tests.support.pulumi_cli import NEEDS_PULUMI

SANDBOX = "e2e-pulumi-live"
CORDONED = {"unschedulable": True, "taints": [{"key": "mine", "value": "1", "effect": "NoSchedule"}]}

pytestmark = [
    pytest.mark.long,
    *NEEDS_PULUMI,
    pytest.mark.sandbox,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("e2e-pulumi-live"),
]


@pytest.fixture
def running() -> Iterator[control_plane.Status]:
    """A separate sandbox for each test, because each deployment is recorded only in the backend of its test."""
    yield control_plane.up(SANDBOX, progress=Progress(quiet=True))
    control_plane.down(SANDBOX)


@pytest.fixture
def pulumi(running: control_plane.Status, tmp_path: Path, base: dict[str, Any]) -> Platform:
    base["cluster"]["name"] = SANDBOX
    base["validation"]["timeout"] = "10m"
    return platform_of_the_cli(running, tmp_path / "stacks", tmp_path / "backend")


def plain_pulumi(platform: Platform, *command: str) -> subprocess.Popen[str]:
    """Start the Pulumi CLI directly, in a Pulumi project with the stack files of the platform."""
    project = {**project_settings(), "main": str(PROJECT_ROOT), "stackConfigDir": "stacks"}
    project["runtime"] = {"name": "python", "options": {"virtualenv": sys.prefix}}
    (platform.folder.parent / "Pulumi.yaml").write_text(yaml.safe_dump(project), "utf-8")
    env = {**os.environ, **platform.env, STACKS_DIR_VARIABLE: str(platform.folder)}
    whole = ["pulumi", "-C", str(platform.folder.parent), *command, "--yes", "--stack", "shop"]
    return subprocess.Popen(
        [*whole, "--non-interactive"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_no_destroy_deletes_any_object_of_a_protected_stack(pulumi: Platform, base: dict[str, Any]) -> None:
    base["protect"] = True
    ran = pulumi.up(base)
    assert ran.code == 0, ran.err
    destroy = plain_pulumi(pulumi, "destroy", "--skip-preview")
    printed, _ = destroy.communicate()
    assert destroy.returncode != 0
    assert "because it is protected" in printed
    again = pulumi.up(base)
    assert again.json["changes"]["changes"] == []
    assert pulumi.client.get("v1", "ResourceQuota", "gpu-quota", "vision") is not None

    del base["teams"][1]
    removed = pulumi.up(base)
    assert removed.code == 0, removed.err
    base["protect"] = False
    lifted = pulumi.up(base)
    assert lifted.code == 0, lifted.err
    assert lifted.json["changes"]["changes"] == []
    destroyed = pulumi.run("destroy", str(pulumi.write(base)), "--engine", "pulumi", "--yes")
    assert destroyed.code == 0, destroyed.err
    assert list(pulumi.client.objects("v1", "Node")) == []


RBAC = "rbac.authorization.k8s.io/v1"
OF_TEAMS = ((RBAC, "ClusterRole"), (RBAC, "RoleBinding"), ("v1", "ResourceQuota"), ("v1", "LimitRange"))


def objects_of_teams(platform: Platform) -> set[tuple[str, str, str]]:
    return {
        (kind, live["metadata"].get("namespace", ""), live["metadata"]["name"])
        for api_version, kind in OF_TEAMS
        for live in platform.client.objects(api_version, kind)
    }


def test_an_up_creates_objects_again_that_a_killed_destroy_deleted(pulumi: Platform, base: dict[str, Any]) -> None:
    ran = pulumi.up(base)
    assert ran.code == 0, ran.err
    before = objects_of_teams(pulumi)

    destroy = plain_pulumi(pulumi, "destroy", "--skip-preview")
    eventually(lambda: len(objects_of_teams(pulumi)) < len(before))
    os.killpg(destroy.pid, signal.SIGKILL)
    destroy.communicate()
    eventually(lambda: plain_pulumi(pulumi, "cancel").wait() == 0)

    again = pulumi.up(base)
    assert again.code == 0, again.err
    assert objects_of_teams(pulumi) == before


def _is_of_members(binding: dict[str, Any]) -> bool:
    return any(subject["kind"] == "Group" for subject in binding.get("subjects") or ())


def test_what_others_changed_is_named_and_repaired(pulumi: Platform, base: dict[str, Any]) -> None:
    ran = pulumi.up(base)
    assert ran.code == 0, ran.err
    client = pulumi.client
    quota = {"name": "gpu-quota", "namespace": "vision"}
    workload = {"name": "pretrain", "namespace": "vision"}
    hard = {"requests.nvidia.com/gpu": "99"}
    client.merge({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": quota, "spec": {"hard": hard}})
    client.merge({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": workload, "spec": {"replicas": 0}})
    client.merge({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "lab-0"}, "spec": CORDONED})
    (binding,) = [one for one in client.objects(RBAC, "RoleBinding", namespace="vision") if _is_of_members(one)]
    eve = {"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}
    client.merge(
        {key: binding[key] for key in ("apiVersion", "kind")}
        | {"metadata": {key: binding["metadata"][key] for key in ("name", "namespace")}}
        | {"subjects": [*binding["subjects"], eve]}
    )

    previewed = pulumi.run("preview", str(pulumi.write(base)), "--engine", "pulumi", "--format", "json")
    assert previewed.code == 0, previewed.err
    repaired = pulumi.up(base)
    assert repaired.code == 0, repaired.err
    for changes in (previewed.json["changes"]["changes"], repaired.json["changes"]["changes"]):
        assert {(one["kind"], one["action"], field["path"]) for one in changes for field in one["fields"]} == {
            ("ResourceQuota", "update", 'spec.hard["requests.nvidia.com/gpu"]'),
            ("Deployment.apps", "update", "spec.replicas"),
            ("RoleBinding.rbac.authorization.k8s.io", "update", "subjects"),
        }
    live = client.get("v1", "ResourceQuota", "gpu-quota", "vision")
    assert live is not None
    assert live["spec"]["hard"]["requests.nvidia.com/gpu"] == "4"
    restored = client.get(RBAC, "RoleBinding", binding["metadata"]["name"], "vision")
    assert restored is not None
    assert restored["subjects"] == binding["subjects"]
    eventually(lambda: len(list(client.objects("v1", "Pod", namespace="vision"))), 1)
    node = client.get("v1", "Node", "lab-0")
    assert node is not None
    assert node["spec"]["unschedulable"]
