"""Tracks the objects of a stack as an ApplySet, the labels that `kubectl apply --prune --applyset` uses.

The parent is a ConfigMap in `kube-system`, which every cluster has; it names the kinds and namespaces of the
members, every member has its id as a label, and its data are the stack's outputs. The engine has no other state.
Specification: KEP-3659 of kubernetes/enhancements, read 2026-08.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_platform.engine.client import KubernetesClient, Refused
from gpu_platform.engine.objects import ObjectKey, annotation, mapping_at, object_key
from gpu_platform.errors import Finding
from gpu_platform.names import FIELD_MANAGER, STACK_LABEL
from gpu_platform.project import version

PARENT_NAMESPACE: Final = "kube-system"
PART_OF_LABEL: Final = "applyset.kubernetes.io/part-of"
_ID_LABEL: Final = "applyset.kubernetes.io/id"
_TOOLING_ANNOTATION: Final = "applyset.kubernetes.io/tooling"
_KINDS_ANNOTATION: Final = "applyset.kubernetes.io/contains-group-kinds"
_NAMESPACES_ANNOTATION: Final = "applyset.kubernetes.io/additional-namespaces"
_OUTPUTS_KEY: Final = "outputs.json"


@dataclass(frozen=True, slots=True)
class Inventory:
    """Kinds (`Kind.group`) and namespaces in which an ApplySet can have members."""

    group_kinds: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    @classmethod
    def of(cls, keys: Iterable[ObjectKey]) -> Inventory:
        """Return the kinds and namespaces of objects."""
        objects = list(keys)
        return cls(
            frozenset(key.group_kind for key in objects),
            frozenset(key.namespace for key in objects if key.namespace),
        )

    def __or__(self, other: Inventory) -> Inventory:
        return Inventory(self.group_kinds | other.group_kinds, self.namespaces | other.namespaces)


@dataclass(frozen=True, slots=True)
class Parent:
    """Content of the parent object; `exists`: the stack is deployed, perhaps only in part."""

    exists: bool = False
    inventory: Inventory = field(default_factory=Inventory)
    outputs: Mapping[str, Any] | None = None


class ApplySet:
    """Reads and writes the ApplySet of one stack in one cluster."""

    def __init__(self, client: KubernetesClient, stack: str) -> None:
        self._client = client
        self._stack = stack
        self._name = _parent_name(stack)
        identity = f"{self._name}.{PARENT_NAMESPACE}.ConfigMap."
        digest = base64.urlsafe_b64encode(hashlib.sha256(identity.encode()).digest()).decode().rstrip("=")
        self.id: Final = f"applyset-{digest}-v1"

    def labelled(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Return a manifest with the label of this set."""
        labels = {**mapping_at(manifest, "metadata", "labels"), PART_OF_LABEL: self.id}
        return {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}

    def read_parent(self) -> Parent:
        """Read the parent object."""
        live = self._client.get("v1", "ConfigMap", self._name, PARENT_NAMESPACE)
        if live is None:
            return Parent()
        data = mapping_at(live, "data")
        return Parent(
            exists=True,
            inventory=Inventory(
                _split(annotation(live, _KINDS_ANNOTATION)), _split(annotation(live, _NAMESPACES_ANNOTATION))
            ),
            outputs=json.loads(data[_OUTPUTS_KEY]) if _OUTPUTS_KEY in data else None,
        )

    def write_parent(self, inventory: Inventory, outputs: Mapping[str, Any] | None) -> None:
        """Write the inventory and the stack's outputs (None: no deployment was completed yet) to the parent."""
        annotations = {
            _TOOLING_ANNOTATION: f"{FIELD_MANAGER}/v{version()}",
            _KINDS_ANNOTATION: ",".join(sorted(inventory.group_kinds)),
            _NAMESPACES_ANNOTATION: ",".join(sorted(inventory.namespaces - {PARENT_NAMESPACE})),
        }
        manifest: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self._name,
                "namespace": PARENT_NAMESPACE,
                "labels": {_ID_LABEL: self.id, STACK_LABEL: self._stack},
                "annotations": annotations,
            },
        }
        if outputs is not None:
            manifest["data"] = {_OUTPUTS_KEY: json.dumps(outputs, sort_keys=True)}
        self._client.apply(manifest)

    def delete_parent(self) -> None:
        """Delete the parent object, after all members were deleted."""
        if (live := self._client.get("v1", "ConfigMap", self._name, PARENT_NAMESPACE)) is not None:
            self._client.delete(live)

    def members(self, inventory: Inventory) -> dict[ObjectKey, dict[str, Any]]:
        """Return the live members of the set in the kinds and namespaces of `inventory`."""
        found: dict[ObjectKey, dict[str, Any]] = {}
        for group_kind in sorted(inventory.group_kinds):
            kind, _, group = group_kind.partition(".")
            served = self._client.find_served(group, kind)
            if served is not None:
                for live in self._of_kind(served.api_version, kind, inventory.namespaces):
                    found[object_key(live)] = live
        return found

    def refuse_foreign(self, live: Mapping[str, Any]) -> None:
        """Raise Finding for an object that belongs to another stack, or was not created by this engine."""
        labels = mapping_at(live, "metadata", "labels")
        if labels.get(PART_OF_LABEL) == self.id:
            return
        owner = "is not managed by this engine"
        if PART_OF_LABEL in labels:
            owner = (
                f"belongs to stack {labels[STACK_LABEL]!r}"
                if STACK_LABEL in labels
                else "belongs to another stack"
            )
        raise Finding(
            f"{object_key(live)} already exists and {owner}; stack {self._stack!r} does not take it over. "
            "Delete it, or rename one of the two"
        )

    def members_of_kind(self, api_version: str, kind: str) -> Iterator[dict[str, Any]]:
        """Yield the live members of a kind in all namespaces."""
        return self._client.objects(api_version, kind, label_selector=f"{PART_OF_LABEL}={self.id}")

    def _of_kind(self, api_version: str, kind: str, namespaces: Iterable[str]) -> Iterator[dict[str, Any]]:
        try:
            yield from self.members_of_kind(api_version, kind)
        except Refused as refusal:
            if refusal.status != 403:
                raise
            selector = f"{PART_OF_LABEL}={self.id}"
            for namespace in sorted(namespaces):  # a user who may read only some namespaces
                yield from self._client.objects(api_version, kind, namespace=namespace, label_selector=selector)


def stack_outputs(client: KubernetesClient, stack: str) -> Mapping[str, Any] | None:
    """Return the outputs, without secrets, of a stack that this engine deployed, or None.

    `stack` may be the full name in a stack reference: `organization/project/stack`.
    """
    return ApplySet(client, stack.rsplit("/", 1)[-1]).read_parent().outputs


def is_deployed(client: KubernetesClient, stack: str) -> bool:
    """Return whether this engine has deployed the stack, at least in part."""
    return ApplySet(client, stack).read_parent().exists


def _parent_name(stack: str) -> str:
    """Return a DNS name for the parent; a hash distinguishes stacks that differ only in replaced characters."""
    slug = re.sub(r"[^a-z0-9.-]+", "-", stack.lower()).strip("-.")
    if slug != stack:
        slug = f"{slug}-{hashlib.sha256(stack.encode()).hexdigest()[:8]}"
    return f"gpu-platform-{slug}"


def _split(text: str) -> frozenset[str]:
    return frozenset(part for part in text.split(",") if part)
