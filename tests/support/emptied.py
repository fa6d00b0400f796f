"""Deletes all objects that tests created in a sandbox, so that the next group of tests can use it again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from sandbox.simulator.kube import Api, ApiError
from tests.support.terminating import deletable_resources, finalized_at_once

# Kubernetes itself creates and removes objects of these kinds, together with the objects that they belong to.
_DERIVED: Final = {"events", "leases", "endpoints", "endpointslices", "componentstatuses", "apiservices"}
_OF_KUBERNETES: Final = ("kube-system", "kube-public", "kube-node-lease")
# Labels of the ApplySet parents and members of deployed stacks.
# Objects with these labels are deleted even in Kubernetes' own namespaces.
_OF_STACKS: Final = ("applyset.kubernetes.io/id", "applyset.kubernetes.io/part-of")
# Objects that can refuse requests are deleted first. Objects that contain or define others are deleted last.
_FIRST: Final = (
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "validatingadmissionpolicies",
)
_LAST: Final = ("namespaces", "customresourcedefinitions")
_PAUSE_SECONDS: Final = 0.5
_LIMIT_SECONDS: Final = 60.0
_TOO_MANY_REQUESTS: Final = 429


class _Object(NamedTuple):
    collection: str
    path: str
    uid: str


class Contents:
    """The objects that a sandbox has when it starts."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._api = Api(kubeconfig)
        self._own = {found.uid for collection in self._collections() for found in self._objects(collection)}

    def restore(self) -> bool:
        """Delete the objects that the sandbox did not have when it started, and return whether all are gone.

        If an object is left, the sandbox cannot be used again.
        """
        try:
            with finalized_at_once(self._kubeconfig):
                return self._delete_others()
        except ApiError:  # a test may have left the sandbox with a broken API server
            return False

    def _delete_others(self) -> bool:
        collections = sorted(self._collections(), key=_turn)
        deadline = time.monotonic() + _LIMIT_SECONDS
        while True:
            others = [
                found
                for collection in collections
                for found in self._objects(collection)
                if found.uid not in self._own
            ]
            if not others:
                return True
            if time.monotonic() > deadline:
                return False
            for found in others:
                self._api.delete_now(found.path, found.uid)
            collections = list(dict.fromkeys(found.collection for found in others))
            time.sleep(_PAUSE_SECONDS)

    def _collections(self) -> Iterator[str]:
        """Return the paths of all collections whose objects can be listed and deleted."""
        for root, resource in deletable_resources(self._get):
            if resource["name"] not in _DERIVED:
                yield f"{root}/{resource['name']}"

    def _objects(self, collection: str) -> Iterator[_Object]:
        try:
            items: list[Mapping[str, Any]] = self._get(collection)["items"]
        except ApiError as error:
            if error.status == 404:  # the CustomResourceDefinition of the kind was deleted
                return
            raise
        root, _, plural = collection.rpartition("/")
        for item in items:
            metadata = item["metadata"]
            namespace, name = metadata.get("namespace", ""), metadata["name"]
            of_kubernetes = namespace in _OF_KUBERNETES and not metadata.get("labels", {}).keys() & set(_OF_STACKS)
            if of_kubernetes or name.startswith("system:"):
                continue
            place = f"{root}/namespaces/{namespace}/{plural}" if namespace else collection
            yield _Object(collection, f"{place}/{name}", metadata["uid"])

    def _get(self, path: str) -> Any:
        """Return the response for a path. Waits while the API server is initializing the kind's storage."""
        deadline = time.monotonic() + _LIMIT_SECONDS
        while True:
            try:
                return self._api.get(path)
            except ApiError as error:
                if error.status != _TOO_MANY_REQUESTS or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)


def _turn(collection: str) -> int:
    plural = collection.rpartition("/")[2]
    if plural in _FIRST:
        return _FIRST.index(plural) - len(_FIRST)
    return _LAST.index(plural) + 1 if plural in _LAST else 0
