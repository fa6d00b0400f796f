"""Which ClusterQueues of teams that come back are released, so that the engine can create them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_platform.deploy.embedded.queues import release_deleted
from gpu_platform.live.client import KubernetesClient
from tests.live.test_connection import ANSWERED, answering, kubeconfig

API = "/apis/kueue.x-k8s.io/v1beta2"
IN_USE = "kueue.x-k8s.io/resource-in-use"


def queue(name: str, **metadata: Any) -> dict[str, Any]:
    metadata = {"name": name, "resourceVersion": "7", "finalizers": [IN_USE], **metadata}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": metadata}


def test_only_queues_that_are_being_deleted_are_released_and_named(tmp_path: Path) -> None:
    deleted = "2026-11-28T07:00:00Z"
    live = {
        "used": queue("used"),
        "returning": queue("returning", deletionTimestamp=deleted),
        "released": queue("released", deletionTimestamp=deleted, finalizers=["example.com/other"]),
    }
    patched: list[str] = []

    def answer(method: str, path: str) -> tuple[int, dict[str, Any]]:
        if path == API:
            kinds = {"ClusterQueue": "clusterqueues", "ResourceFlavor": "resourceflavors"}
            return 200, {
                "resources": [
                    {"kind": kind, "name": resource, "namespaced": False} for kind, resource in kinds.items()
                ]
            }
        name = path.partition("?")[0].rpartition("/")[2]
        if method == "PATCH":
            patched.append(name)
        return (200, live[name]) if name in live else (404, {"reason": "NotFound", "message": "not found"})

    with answering(answer) as port:
        client = KubernetesClient(kubeconfig(tmp_path, port), limits=ANSWERED)
        declared = [("ClusterQueue", name) for name in (*live, "absent")] + [("ResourceFlavor", "returning")]
        released = [("ClusterQueue", "returning"), ("ResourceFlavor", "returning")]
        assert list(release_deleted(client, declared)) == released
    assert patched == ["returning", "returning"]
