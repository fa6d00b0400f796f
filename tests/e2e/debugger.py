"""An ephemeral container in a pod that runs, as `kubectl debug` adds it."""

from __future__ import annotations

from typing import Any

from gpu_platform.live.client import KubernetesClient


def debug(
    client: KubernetesClient, namespace: str, pod: str, container: dict[str, Any], *, dry_run: bool = False
) -> None:
    """Add a container to a pod; raises Refused."""
    client._connection.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/pods/{pod}/ephemeralcontainers",
        "debugging",
        {"dryRun": "All"} if dry_run else None,
        body={"spec": {"ephemeralContainers": [container]}},
        content_type="application/strategic-merge-patch+json",
    )
