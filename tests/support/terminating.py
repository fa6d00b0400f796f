"""Finalizes namespaces at once: Kubernetes' controller first waits 5 s for the other API servers of a cluster.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/namespace_controller.go
(`namespaceDeletionGracePeriod`, read 2026-11-26). This is for what tests leave behind; a test whose subject is a
deletion waits for the controller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from sandbox.simulator.kube import Api, ApiError

_PAUSE_SECONDS: Final = 0.05

_Collections = list[tuple[str, str]]
"""Roots and plurals: `("/apis/apps/v1", "deployments")`."""


def deletable_resources(get: Callable[[str], Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the root, such as `/apis/apps/v1`, and the resource of all that can be listed and deleted."""
    groups = get("/apis")["groups"]
    for root in ("/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)):
        for resource in get(root)["resources"]:
            if {"list", "delete"} <= set(resource["verbs"]):
                yield root, resource


class _Namespaces(Api):
    def deleted(self) -> list[Mapping[str, Any]]:
        items = self.get("/api/v1/namespaces")["items"]
        return [one for one in items if "deletionTimestamp" in one["metadata"]]

    def finalize(self, namespace: Mapping[str, Any]) -> None:
        path = f"/api/v1/namespaces/{namespace['metadata']['name']}/finalize"
        self._request("PUT", path, {**namespace, "spec": {"finalizers": []}}, "application/json")


@contextmanager
def finalized_at_once(kubeconfig: Path) -> Iterator[None]:
    """Empty and finalize the namespaces that are deleted in the block."""
    done = threading.Event()
    worker = threading.Thread(target=_run, args=[_Namespaces(kubeconfig), done])
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()


def _run(api: _Namespaces, done: threading.Event) -> None:
    collections: _Collections = []
    while not done.wait(_PAUSE_SECONDS):
        # A kind may go at the same time, with its definition: what is left then is the controller's.
        with suppress(ApiError):
            for namespace in api.deleted():
                collections = collections or [
                    (root, resource["name"])
                    for root, resource in deletable_resources(api.get)
                    if resource["namespaced"]
                ]
                if not _delete_objects(api, namespace["metadata"]["name"], collections):
                    api.finalize(namespace)


def _delete_objects(api: Api, namespace: str, collections: _Collections) -> int:
    """Delete what is in a namespace; return how many objects were found."""
    found = [
        (f"{root}/namespaces/{namespace}/{plural}/{item['metadata']['name']}", item["metadata"]["uid"])
        for root, plural in collections
        for item in api.get(f"{root}/namespaces/{namespace}/{plural}")["items"]
    ]
    for path, uid in found:
        api.delete_now(path, uid)
    return len(found)
