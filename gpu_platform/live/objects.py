"""Helpers that read API objects and manifests: the value at a path, an annotation, or the object's key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

WORKLOAD_GROUPS: Final = ("apps", "batch")
"""API groups of the kinds that create pods."""


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Identity of an object in a cluster. It has no API version, because all versions serve the same object."""

    group: str  # empty for the core group
    kind: str
    namespace: str  # empty if cluster-scoped
    name: str

    @property
    def group_kind(self) -> str:
        """Return `Kind.group`, the notation of the ApplySet specification."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def __str__(self) -> str:
        place = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.group_kind} {self.name}{place}"


def mapping_at(live: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path of an API object, or an empty mapping if it does not exist."""
    found = live
    for key in path:
        inner: Any = found.get(key)
        if not isinstance(inner, Mapping):
            return {}
        found = cast("Mapping[str, Any]", inner)
    return found


def items_at(live: Mapping[str, Any], *path: str) -> Sequence[Mapping[str, Any]]:
    """Return the list of mappings at a path of an API object, or an empty list if it does not exist."""
    return mapping_at(live, *path[:-1]).get(path[-1]) or ()


def annotation(manifest: Mapping[str, Any], name: str) -> str:
    """Return an annotation, or an empty string if it is not set."""
    return str(mapping_at(manifest, "metadata", "annotations").get(name) or "")


def object_key(manifest: Mapping[str, Any]) -> ObjectKey:
    """Return the key of a manifest or of a live object."""
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    metadata = mapping_at(manifest, "metadata")
    return ObjectKey(
        group=group if version else "",
        kind=str(manifest["kind"]),
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
    )


def is_ready(live: Mapping[str, Any]) -> bool:
    """Return whether a node or a pod has the condition Ready."""
    return any(
        one["type"] == "Ready" and one["status"] == "True" for one in items_at(live, "status", "conditions")
    )
