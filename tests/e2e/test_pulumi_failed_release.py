"""The real Pulumi CLI with a Helm release whose upgrade failed, or whose cluster is gone."""

from __future__ import annotations

import json
import os
import re
import subprocess
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
    pytest.mark.xdist_group("e2e-pulumi-release"),
]

SANDBOX: Final = "e2e-release"
STACK: Final = "charts"
TEMPLATES: Final = """
apiVersion: v1
kind: ConfigMap
metadata: {name: made}
data: {values: {{ .Values | toJson | quote }}}
{{ if .Values.extra }}
---
apiVersion: v1
kind: Service
metadata: {name: extra}
spec: {ports: [{port: 80}]}
{{ end }}
"""
PROGRAM: Final = """
import pulumi
import pulumi_kubernetes as k8s

k8s.helm.v3.Release(
    "chart", name="chart", chart={chart!r}, namespace="default", values={values!r}, atomic=True, timeout=60,
    opts=pulumi.ResourceOptions(provider=k8s.Provider("cluster", kubeconfig={kubeconfig!r})),
)
"""
NO_SERVICES: Final = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "no-services", "namespace": "default"},
    "spec": {"hard": {"services": "1"}},  # the Service `kubernetes`
}


class Project:
    """A Pulumi project with one release of a chart in a cluster."""

    def __init__(self, folder: Path, running: control_plane.Status, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.kubeconfig = running.kubeconfig
        self.client = KubernetesClient(running.kubeconfig)
        self.env = environment(folder / "backend")
        self.env["PYTHONPATH"] = os.pathsep.join((str(PROJECT_ROOT), os.environ.get("PYTHONPATH", "")))
        for key, value in self.env.items():
            monkeypatch.setenv(key, value)
        settings: dict[str, Any] = {"name": "charts", "main": ".", "stackConfigDir": "stacks"}
        settings["runtime"] = {"name": "python", "options": {"virtualenv": sys.prefix}}
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump(settings), "utf-8")
        (folder / "stacks").mkdir()
        (folder / "stacks" / f"Pulumi.{STACK}.yaml").write_text("config: {}\n", "utf-8")
        self.chart = folder / "chart"
        (self.chart / "templates").mkdir(parents=True)
        (self.chart / "Chart.yaml").write_text("{apiVersion: v2, name: chart, version: 1.0.0}", "utf-8")
        (self.chart / "templates" / "all.yaml").write_text(TEMPLATES, "utf-8")

    def engine(self, **values: Any) -> PulumiEngine:
        program = PROGRAM.format(chart=str(self.chart), values=values, kubeconfig=str(self.kubeconfig))
        (self.folder / "__main__.py").write_text(program, "utf-8")
        return PulumiEngine(find_cli(install=False), STACK, project=self.folder, env=self.env)

    def live(self) -> dict[str, Any]:
        found = self.client.get("v1", "ConfigMap", "made", "default")
        assert found is not None
        return json.loads(found["data"]["values"])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    yield Project(tmp_path, control_plane.up(SANDBOX), monkeypatch)
    control_plane.down(SANDBOX)


def test_values_of_a_failed_upgrade_are_applied_by_the_next_up(project: Project) -> None:
    project.engine(kept=1, removed=1).up()
    quota = project.client.apply(NO_SERVICES)
    changed = project.engine(kept=1, extra=True)
    with pytest.raises(Finding, match="exceeded quota"):
        changed.up()
    assert project.live() == {"kept": 1, "removed": 1}
    project.client.delete(quota)
    assert [one.action for one in changed.preview().changes] == [Action.UPDATE]
    assert [one.action for one in changed.up().changes] == [Action.UPDATE]
    assert project.live() == {"kept": 1, "extra": True}
    assert [one.action for one in changed.up().changes] == [Action.UNCHANGED]


def test_a_stack_whose_cluster_is_gone_can_be_destroyed_as_the_error_says(project: Project) -> None:
    engine = project.engine()
    engine.up()
    control_plane.down(SANDBOX)
    with pytest.raises(Finding, match="If the cluster no longer exists, run") as caught:
        engine.destroy()
    [command] = re.findall("If the cluster no longer exists, run `([^`]*)`", str(caught.value))
    command = command.replace(str(PROJECT_ROOT), str(project.folder)).replace("STACK", STACK)
    subprocess.run(command, shell=True, check=True, env={**os.environ, **project.env})
    engine.destroy()
    assert not engine.objects()
    assert not engine.helm_releases()
