"""Finalizes namespaces at once: Kubernetes' controller first waits 5 s for the other API servers of a cluster.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/namespace_controller.go
(`namespaceDeletionGracePeriod`, read 2026-11-26). This is for what tests leave behind; a test whose subject is a
deletion waits for the controller.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from sandbox.simulator.kube import Api, ApiError

_PAUSE_SECONDS: Final = 0.05

_Collections = list[tuple[str, str]]
"""Roots and plurals: `("/apis/apps/v1", "deployments")`."""


class _Namespaces(Api):
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
        with suppress(
            ApiError
        ):  # a kind may go at the same time, with its definition; the controller has the rest
            for namespace in api.get("/api/v1/namespaces")["items"]:
                if "deletionTimestamp" in namespace["metadata"]:
                    collections = collections or _collections(api)
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


def _collections(api: Api) -> _Collections:
    """Return what is namespaced, can be listed and deleted."""
    groups = api.get("/apis")["groups"]
    roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    return [
        (root, resource["name"])
        for root in roots
        for resource in api.get(root)["resources"]
        if resource["namespaced"] and {"list", "delete"} <= set(resource["verbs"])
    ]
