"""Finalizes namespaces at once, because Kubernetes' controller first waits 5 s for the cluster's other API
servers.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/namespace_controller.go
(`namespaceDeletionGracePeriod`, read 2026-11-26). The module is for objects that tests leave behind. A test that
examines a deletion waits for the controller.

After these 5 s, the controller looks up the namespace by name and may find a newer one. If the newer namespace is
also being deleted, the controller deletes all objects in the namespace with that name, and continues even in a
third namespace that a test has created meanwhile. It does nothing in a namespace without its finalizer
(`finalized` in `deletion/namespaced_resources_deleter.go`), so this module removes the finalizer before the
deletion. If the deletion of a namespace has already begun, the module leaves the namespace to the controller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sandbox.simulator.kube import Api, ApiError

_PAUSE_SECONDS: Final = 0.05
_OF_CONTROLLER: Final = ["kubernetes"]
_REFUSED: Final = {403, 422}
# These namespaces cannot be deleted.
_PERMANENT: Final = {"default", "kube-node-lease", "kube-public", "kube-system"}

_Collections = list[tuple[str, str]]
"""API roots and plural names, such as `("/apis/apps/v1", "deployments")`."""


def deletable_resources(get: Callable[[str], Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """For each resource that can be listed and deleted, yield the root of its API, such as `/apis/apps/v1`, and
    the resource.
    """
    groups = get("/apis")["groups"]
    for root in ("/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)):
        for resource in get(root)["resources"]:
            if {"list", "delete"} <= set(resource["verbs"]):
                yield root, resource


class _Namespaces(Api):
    def all(self) -> list[Mapping[str, Any]]:
        return self.get("/api/v1/namespaces")["items"]

    def exchange(self, uid: str, finalizers: list[str]) -> bool:
        """Replace the finalizers of a namespace's spec, and return whether this succeeded.

        It does not succeed if the namespace is gone, if a policy refuses the change, or if the deletion had
        already begun, because the controller may then be working on the namespace.
        """
        while True:
            found = next((one for one in self.all() if one["metadata"]["uid"] == uid), None)
            if found is None or (not finalizers and _is_deleted(found) and found["spec"].get("finalizers")):
                return False
            if found["spec"].get("finalizers", []) == finalizers:
                return True
            path, body = _path(found["metadata"]["name"]), {**found, "spec": {"finalizers": finalizers}}
            try:
                self._request("PUT", f"{path}/finalize", body, "application/json")
            # Any other status means that the namespace was changed concurrently, or that no response came in time.
            except ApiError as error:
                if error.status in _REFUSED:
                    return False


@contextmanager
def finalized_at_once(kubeconfig: Path) -> Generator[None]:
    """Empty and finalize the namespaces that existed before the `with` block and are deleted inside the block."""
    api, done = _Namespaces(kubeconfig), threading.Event()
    taken = {
        one["metadata"]["uid"]
        for one in api.all()
        if one["metadata"]["name"] not in _PERMANENT and api.exchange(one["metadata"]["uid"], [])
    }
    worker = threading.Thread(target=_run, args=[api, taken, done])
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()
        for uid in taken:
            api.exchange(uid, _OF_CONTROLLER)


def _run(api: _Namespaces, taken: Container[str], done: threading.Event) -> None:
    collections: _Collections = []
    while not done.wait(_PAUSE_SECONDS):
        try:
            for namespace in api.all():
                metadata = namespace["metadata"]
                if not _is_deleted(namespace) or metadata["uid"] not in taken:
                    continue
                collections = collections or [
                    (root, resource["name"])
                    for root, resource in deletable_resources(api.get)
                    if resource["namespaced"]
                ]
                if not _delete_objects(api, metadata["name"], collections):
                    api.delete_now(_path(metadata["name"]), metadata["uid"])
        except ApiError:  # a kind was removed at the same time, with its CustomResourceDefinition
            collections = []


def _path(name: str) -> str:
    return f"/api/v1/namespaces/{name}"


def _is_deleted(namespace: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in namespace["metadata"]


def _delete_objects(api: Api, namespace: str, collections: _Collections) -> int:
    """Delete the objects in a namespace, and return the number of objects."""
    found = [
        (f"{root}/namespaces/{namespace}/{plural}/{item['metadata']['name']}", item["metadata"]["uid"])
        for root, plural in collections
        for item in api.get(f"{root}/namespaces/{namespace}/{plural}")["items"]
    ]
    for path, uid in found:
        api.delete_now(path, uid)
    return len(found)
