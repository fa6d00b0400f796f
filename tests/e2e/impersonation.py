"""Sends requests as a member of a team, by impersonation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_platform.live.client import KubernetesClient, Refused


def member(kubeconfig: Path, group: str, user: str = "ada", node: str = "") -> KubernetesClient:
    """Return a client that acts as a user with only the rights of a group.

    `node` adds a node's name to the user's attributes, like the token of a pod on this node.
    """
    client = KubernetesClient(kubeconfig)
    pool: Any = client._connection._pool
    send = pool.request

    def request(method: str, url: str, *, headers: dict[str, str], **rest: Any) -> Any:
        of_node = {"Impersonate-Extra-authentication.kubernetes.io%2Fnode-name": node} if node else {}
        acting = {"Impersonate-User": user, "Impersonate-Group": group, **of_node}
        return send(method, url, headers={**headers, **acting}, **rest)

    pool.request = request
    return client


def admitted(client: KubernetesClient, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return an object as admission would change it, or an empty dictionary if it is refused.

    This is for tests that wait until new policies are in effect. The API server reads each policy separately
    within a second or two. Meanwhile, one policy may refuse an object because another policy does not complete it
    yet.
    """
    try:
        return client.create(wanted, dry_run=True)
    except Refused:
        return {}
