"""Adds an ephemeral container to a running pod, as `kubectl debug` does."""

from __future__ import annotations

from typing import Any

from gpu_platform.live.client import KubernetesClient


def debug(
    client: KubernetesClient, namespace: str, pod: str, container: dict[str, Any], *, dry_run: bool = False
) -> None:
    """Add an ephemeral container to a pod. Raises Refused."""
    client._connection.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/pods/{pod}/ephemeralcontainers",
        "debugging",
        {"dryRun": "All"} if dry_run else None,
        body={"spec": {"ephemeralContainers": [container]}},
        content_type="application/strategic-merge-patch+json",
    )
