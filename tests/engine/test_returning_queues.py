"""Which ClusterQueues of teams that come back are released, so that the engine can create them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_platform.engine.client import KubernetesClient
from gpu_platform.engine.queues import release_deleted_queues
from tests.engine.test_connection import ANSWERED, answering, kubeconfig

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
            return 200, {"resources": [{"kind": "ClusterQueue", "name": "clusterqueues", "namespaced": False}]}
        name = path.partition("?")[0].removeprefix(f"{API}/clusterqueues/")
        if method == "PATCH":
            patched.append(name)
        return (200, live[name]) if name in live else (404, {"reason": "NotFound", "message": "not found"})

    with answering(answer) as port:
        client = KubernetesClient(kubeconfig(tmp_path, port), limits=ANSWERED)
        assert list(release_deleted_queues(client, [*live, "absent"])) == ["returning"]
    assert patched == ["returning"]
