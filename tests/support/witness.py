"""Records the changes that an API server reports for pods, nodes and members' objects."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sandbox.simulator.kube import Api, ApiError
from tests.support.eventually import eventually

_PATHS: Final = {
    "Pod": "/api/v1/pods",
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "Secret": "/api/v1/secrets",
    "StatefulSet": "/apis/apps/v1/statefulsets",
}


@dataclass(frozen=True, slots=True)
class Gone:
    """A deleted object. For a pod, `owner` is its Deployment or other owner, and `node` is its node."""

    kind: str
    namespace: str
    name: str
    owner: str = ""
    node: str = ""


class Witness:
    """Watches the API server from the creation of this object until `stop` is called."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = Api(kubeconfig)
        self._lock = threading.Lock()
        self._live: dict[str, dict[str, Mapping[str, Any]]] = {kind: {} for kind in _PATHS}
        self._gone: list[Gone] = []
        self._cordoned: set[str] = set()
        self._stop = threading.Event()
        for kind, path in _PATHS.items():
            listed = self._api.get(path)
            for item in listed["items"]:
                self._see(kind, "ADDED", item)
            version = listed["metadata"]["resourceVersion"]
            threading.Thread(target=self._watch, args=(kind, path, version), daemon=True).start()

    def stop(self) -> None:
        """Ignore all further changes."""
        self._stop.set()

    def take(self) -> tuple[list[Gone], set[str]]:
        """Return the objects that were deleted and the nodes that were cordoned since the last call of this
        method.
        """
        eventually(self._is_current)
        with self._lock:
            gone, self._gone = self._gone, []
            cordoned, self._cordoned = self._cordoned, set()
        return gone, cordoned

    def _is_current(self) -> bool:
        for kind, path in _PATHS.items():
            listed = {item["metadata"]["uid"] for item in self._api.get(path)["items"]}
            with self._lock:
                if listed != set(self._live[kind]):
                    return False
        return True

    def _watch(self, kind: str, path: str, version: str) -> None:
        while not self._stop.is_set():
            try:
                # Bookmarks keep the resource version of an unchanged kind from being compacted away.
                for event in self._api.watch(path, {"allowWatchBookmarks": "true"}, version):
                    if self._stop.is_set():
                        return
                    assert event["type"] != "ERROR", event
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._see(kind, event["type"], event["object"])
            except ApiError:
                continue

    def _see(self, kind: str, change: str, item: Mapping[str, Any]) -> None:
        uid = item["metadata"]["uid"]
        with self._lock:
            before = self._live[kind].get(uid)
            if change == "DELETED":
                self._live[kind].pop(uid, None)
                self._gone.append(_gone(kind, item))
                return
            self._live[kind][uid] = item
            if kind == "Node" and _is_cordoned(item) and not (before is not None and _is_cordoned(before)):
                self._cordoned.add(item["metadata"]["name"])


def _is_cordoned(node: Mapping[str, Any]) -> bool:
    return bool(node["spec"].get("unschedulable"))


def _gone(kind: str, item: Mapping[str, Any]) -> Gone:
    metadata = item["metadata"]
    owner = next(_owners(item), f"{kind} {metadata['name']}")
    node = item["spec"].get("nodeName", "") if kind == "Pod" else ""
    return Gone(kind, metadata.get("namespace", ""), metadata["name"], owner, node)


def _owners(item: Mapping[str, Any]) -> Iterator[str]:
    for reference in item["metadata"].get("ownerReferences", ()):
        if reference["kind"] == "ReplicaSet":
            yield f"Deployment {reference['name'].rpartition('-')[0]}"
        else:
            yield f"{reference['kind']} {reference['name']}"
