"""The real Pulumi CLI after an upgrade of a Helm release that failed, so that Helm rolled it back."""

from __future__ import annotations

import json
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
    pytest.mark.xdist_group("e2e-pulumi-release"),
]

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


@pytest.fixture
def running() -> Iterator[control_plane.Status]:
    yield control_plane.up("e2e-release")
    control_plane.down("e2e-release")


def test_values_of_a_failed_upgrade_are_applied_by_the_next_up(
    running: control_plane.Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = environment(tmp_path / "backend")
    env["PYTHONPATH"] = os.pathsep.join((str(PROJECT_ROOT), os.environ.get("PYTHONPATH", "")))
    for key, value in env.items():
        monkeypatch.setenv(key, value)
    settings: dict[str, Any] = {"name": "charts", "main": ".", "stackConfigDir": "stacks"}
    settings["runtime"] = {"name": "python", "options": {"virtualenv": sys.prefix}}
    (tmp_path / "Pulumi.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / f"Pulumi.{STACK}.yaml").write_text("config: {}\n", "utf-8")
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: chart, version: 1.0.0}", "utf-8")
    (chart / "templates" / "all.yaml").write_text(TEMPLATES, "utf-8")
    client = KubernetesClient(running.kubeconfig)

    def engine(values: dict[str, Any]) -> PulumiEngine:
        program = PROGRAM.format(chart=str(chart), values=values, kubeconfig=str(running.kubeconfig))
        (tmp_path / "__main__.py").write_text(program, "utf-8")
        return PulumiEngine(find_cli(install=False), STACK, project=tmp_path, env=env)

    def live() -> dict[str, Any]:
        found = client.get("v1", "ConfigMap", "made", "default")
        assert found is not None
        return json.loads(found["data"]["values"])

    engine({"kept": 1, "removed": 1}).up()
    quota = client.apply(NO_SERVICES)
    changed = engine({"kept": 1, "extra": True})
    with pytest.raises(Finding, match="exceeded quota"):
        changed.up()
    assert live() == {"kept": 1, "removed": 1}
    client.delete(quota)
    assert [one.action for one in changed.preview().changes] == [Action.UPDATE]
    assert [one.action for one in changed.up().changes] == [Action.UPDATE]
    assert live() == {"kept": 1, "extra": True}
    assert [one.action for one in changed.up().changes] == [Action.UNCHANGED]
