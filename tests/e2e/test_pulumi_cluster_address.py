"""The real Pulumi CLI on an existing cluster whose API server gets another address."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gpu_platform.base.errors import Finding
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.deploy.changes import Action
from gpu_platform.deploy.pulumi.pulumi_cli import find_cli
from gpu_platform.deploy.pulumi.pulumi_engine import PulumiEngine
from gpu_platform.live.client import KubernetesClient
from sandbox import control_plane
from tests.support.pulumi_cli import NEEDS_PULUMI, environment

pytestmark = [
    pytest.mark.long,
    *NEEDS_PULUMI,
    pytest.mark.sandbox,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("e2e-pulumi-address"),
]

STACK: Final = "moved"
IDENTIFIED: Final = """
from components.cluster import Cluster, ClusterArgs

plan = replace(load_stack("dev").plan.cluster, kubeconfig=KUBECONFIG, context=None)
cluster = Cluster("dev", ClusterArgs(plan=plan))
"""
OF_VERSION_0_2: Final = """
class Cluster(pulumi.ComponentResource):
    def __init__(self, name):
        super().__init__("gpu-platform:index:Cluster", name)
        child = pulumi.ResourceOptions(parent=self)
        self.provider = k8s.Provider(
            name, kubeconfig=KUBECONFIG, upsert_existing_objects=True, enable_patch_force=True, opts=child
        )


cluster = Cluster("dev")
"""
PROGRAM: Final = """
from dataclasses import replace

import pulumi
import pulumi_kubernetes as k8s

from gpu_platform.stack.loaded import load_stack

KUBECONFIG = {kubeconfig!r}
{cluster}
k8s.core.v1.ConfigMap(
    "kept",
    metadata={{"name": "kept", "namespace": "default"}},
    opts=pulumi.ResourceOptions(provider=cluster.provider),
)
"""


@pytest.fixture(scope="module")
def running() -> Iterator[control_plane.Status]:
    yield control_plane.up("e2e-address")
    control_plane.down("e2e-address")


class Project:
    """A Pulumi project with one object on an existing cluster."""

    def __init__(self, folder: Path, running: control_plane.Status, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._kubeconfig = running.kubeconfig
        self.client = KubernetesClient(running.kubeconfig)
        self._env = environment(folder / "backend")
        for key, value in self._env.items():
            monkeypatch.setenv(key, value)
        settings: dict[str, Any] = {"name": "address", "main": ".", "stackConfigDir": "stacks"}
        settings["runtime"] = {"name": "python", "options": {"virtualenv": sys.prefix}}
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump(settings), "utf-8")
        (folder / "stacks").mkdir()
        (folder / "stacks" / f"Pulumi.{STACK}.yaml").write_text("config: {}\n", "utf-8")

    def engine(self, cluster: str, host: str) -> PulumiEngine:
        """Write the program with a kubeconfig that names the API server by `host`."""
        kubeconfig = self.folder / f"{host}.kubeconfig"
        document = yaml.safe_load(self._kubeconfig.read_text("utf-8"))
        [entry] = document["clusters"]
        entry["cluster"]["server"] = entry["cluster"]["server"].replace("127.0.0.1", host)
        entry["cluster"]["tls-server-name"] = "kubernetes"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(yaml.safe_dump(document), "utf-8")
        program = PROGRAM.format(kubeconfig=str(kubeconfig), cluster=cluster)
        (self.folder / "__main__.py").write_text(program, "utf-8")
        env = {**self._env, "PYTHONPATH": os.pathsep.join((str(PROJECT_ROOT), os.environ.get("PYTHONPATH", "")))}
        return PulumiEngine(find_cli(install=False), STACK, project=self.folder, env=env)

    def uid(self) -> str:
        live = self.client.get("v1", "ConfigMap", "kept", "default")
        return "" if live is None else live["metadata"]["uid"]


@pytest.fixture
def project(running: control_plane.Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    project = Project(tmp_path, running, monkeypatch)
    yield project
    live = project.client.get("v1", "ConfigMap", "kept", "default")
    if live is not None:
        project.client.delete(live)


def test_objects_stay_when_an_existing_cluster_gets_another_address(project: Project) -> None:
    project.engine(IDENTIFIED, "127.0.0.1").up()
    before = project.uid()
    moved = project.engine(IDENTIFIED, "localhost")
    assert {change.action for change in moved.preview().changes} == {Action.UNCHANGED}
    moved.up()
    assert project.uid() == before != ""


def test_an_upgrade_adds_the_identity_and_keeps_all_objects(project: Project) -> None:
    project.engine(OF_VERSION_0_2, "127.0.0.1").up()
    before = project.uid()
    project.engine(IDENTIFIED, "127.0.0.1").up()
    project.engine(IDENTIFIED, "localhost").up()
    assert project.uid() == before != ""


def test_an_upgrade_together_with_another_address_is_refused_at_preview(project: Project) -> None:
    project.engine(OF_VERSION_0_2, "127.0.0.1").up()
    before = project.uid()
    with pytest.raises(Finding, match="does not identify the cluster yet"):
        project.engine(IDENTIFIED, "localhost").preview()
    assert project.uid() == before != ""
