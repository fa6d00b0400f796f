"""Commands about a team whose namespace is being deleted name that, and what keeps the namespace."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpu_platform.cli.team_changes import warn_of_teams
from gpu_platform.cluster_access import ClusterAccess
from gpu_platform.engine.client import KubernetesClient
from gpu_platform.errors import Finding
from gpu_platform.stacks import plan_platform
from sandbox import control_plane
from tests.spec.field_cases import STACKS
from tests.support.eventually import eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

TEAM = "leaving-team"


@pytest.fixture
def leaving(start_sandbox: Callable[..., control_plane.Status]) -> Iterator[ClusterAccess]:
    """The namespace of a team in deletion, which a finalizer of a member keeps."""
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
    text = eventually(lambda: found if "example.com/mine" in (found := message()) else "")
    assert "configmaps. has 1 resource" in text
    assert "no team's" not in text
