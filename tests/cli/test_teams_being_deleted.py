"""Commands for a team report that its namespace is being deleted, and what blocks the deletion."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base import names
from gpu_platform.base.errors import Finding
from gpu_platform.cli.team_changes import warn_of_teams
from gpu_platform.deploy.retention import kept_namespaces
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.stack import CONFIG_KEY
from gpu_platform.stack.loaded import plan_platform
from sandbox import control_plane
from tests.stack.field_cases import STACKS
from tests.support import command_line
from tests.support.eventually import eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

TEAM = "leaving-team"
LEFT = "team-that-left"


@pytest.fixture
def leaving(start_sandbox: Callable[..., control_plane.Status]) -> Iterator[ClusterAccess]:
    """Yield access to a cluster with a team namespace that is being deleted. A member's finalizer keeps the
    namespace.
    """
    status = start_sandbox()
    client = KubernetesClient(status.kubeconfig)
    live = client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    metadata: dict[str, Any] = {"name": "kept", "namespace": TEAM, "finalizers": ["example.com/mine"]}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    client.delete(live)
    platform = copy.deepcopy(dict(STACKS["existing"]))
    platform["cluster"] = {**platform["cluster"], "kubeconfig": str(status.kubeconfig)}
    platform["teams"] = [{**platform["teams"][0], "name": TEAM}]
    yield ClusterAccess(plan_platform(platform, "test"))
    client.merge({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "finalizers": None}})
    eventually(lambda: client.get("v1", "Namespace", TEAM) is None)


def test_up_names_the_finalizer_that_keeps_the_namespace_of_a_team(leaving: ClusterAccess) -> None:
    def message() -> str:
        with pytest.raises(Finding) as caught:
            warn_of_teams(leaving._plan, "test", {}, leaving)
        return str(caught.value)

    assert f"namespace {TEAM} is being deleted" in message()
    text = eventually(lambda: found if "configmaps. has 1 resource" in (found := message()) else "")
    assert "finalizers remaining: example.com/mine" in text
    assert "no team's" not in text
    assert "held by ConfigMap kept (finalizers example.com/mine)" in text


def test_team_remove_continues_an_interrupted_deletion(
    start_sandbox: Callable[..., control_plane.Status], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = start_sandbox()
    client = KubernetesClient(status.kubeconfig)
    marks = {names.RETAINED_SINCE_ANNOTATION: "2026-11-29T08:00:00Z", names.RETAINED_FROM_ANNOTATION: "shop"}
    labels = {names.TEAM_LABEL: LEFT, names.STACK_LABEL: "shop", names.RETAINED_LABEL: "true"}
    metadata: dict[str, Any] = {"name": LEFT, "labels": labels, "annotations": marks}
    live = client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    kept: dict[str, Any] = {"name": "kept", "namespace": LEFT, "finalizers": ["example.com/mine"]}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept})
    client.delete(live)  # the interrupted command had started to delete the namespace
    platform = copy.deepcopy(dict(STACKS["existing"]))
    platform["cluster"] = {**platform["cluster"], "kubeconfig": str(status.kubeconfig)}
    platform["cluster"].pop("context", None)
    file = tmp_path / "Pulumi.shop.yaml"
    file.write_text(yaml.safe_dump({"config": {CONFIG_KEY: platform}}), "utf-8")
    monkeypatch.setattr(kept_namespaces, "_NAMED_AFTER_SECONDS", 8.0)  # the namespace controller needs 5 seconds

    def let_go() -> None:
        client.merge({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**kept, "finalizers": None}})

    timer = threading.Timer(14, let_go)
    timer.start()
    ran = command_line.run("team", "remove", str(file), LEFT)
    timer.join()
    assert ran.code == 0, ran.err
    assert f"namespace {LEFT} is kept by ConfigMap kept (finalizers example.com/mine)" in ran.out + ran.err
    assert client.get("v1", "Namespace", LEFT) is None
