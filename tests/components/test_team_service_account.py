"""Pods that use a team's service account have its pull secret but mount no token, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.deploy.embedded.apply import apply
from gpu_platform.deploy.embedded.destroy import destroy
from gpu_platform.deploy.recorded.record import record_program
from gpu_platform.live.client import KubernetesClient
from sandbox.control_plane import Status
from tests.support.eventually import eventually
from tests.support.terminating import finalized_at_once

STACK = "registry-team"


@pytest.fixture(scope="module")
def client(sandbox: Status) -> Iterator[KubernetesClient]:
    """Yield a client for a sandbox whose team has an image pull secret."""
    program = record_program(
        Path(__file__).parent / "programs" / "team_with_pull_secret.py",
        project="gpu-platform",
        config={},
        secret_config=[],
        stack=STACK,
        preview=False,
        unknown_outputs=False,
    )
    client = KubernetesClient(sandbox.kubeconfig)
    apply(client, program)
    yield client
    with finalized_at_once(sandbox.kubeconfig):
        destroy(client, STACK)


def pod_with(client: KubernetesClient, **spec: Any) -> dict[str, Any]:
    """Return the spec of a pod as the API server would store it."""
    container = {
        "name": "main",
        "image": "registry.example.com/train:1",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": STACK},
        "spec": {"containers": [container], **spec},
    }
    return client.create(pod, dry_run=True)["spec"]


@pytest.mark.sandbox
def test_a_pod_with_the_service_account_has_pull_secrets_and_no_token(
    client: KubernetesClient,
) -> None:
    spec = pod_with(client, serviceAccountName="team")
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert not spec.get("volumes")


@pytest.mark.sandbox
def test_a_pod_of_the_default_service_account_has_neither(client: KubernetesClient) -> None:
    eventually(lambda: client.get("v1", "ServiceAccount", "default", STACK) is not None)
    spec = pod_with(client)
    assert spec["serviceAccountName"] == "default"
    assert "imagePullSecrets" not in spec
