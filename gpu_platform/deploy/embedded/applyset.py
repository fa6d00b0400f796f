"""Tracks the objects of a stack in a sandbox as an ApplySet, as `kubectl apply --prune --applyset` does.

The parent is a ConfigMap in `kube-system`. It names the kinds and namespaces of the members. Its data contains the
stack's outputs and the state in which the last run left each object. An object that still has this state and the
same declaration needs no dry run. A member has the id of the ApplySet as a label and was applied by this engine.
The engine has no other state. Specification of labels and annotations: KEP-3659 of kubernetes/enhancements, read
2026-08.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_platform.base.names import FIELD_MANAGER, STACK_LABEL
from gpu_platform.deploy.changes import owned_fields
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.objects import ObjectKey, annotation, mapping_at, object_key
from gpu_platform.stack.project import version

PART_OF_LABEL: Final = "applyset.kubernetes.io/part-of"
PARENT_NAMESPACE: Final = "kube-system"
_ID_LABEL: Final = "applyset.kubernetes.io/id"
_TOOLING_ANNOTATION: Final = "applyset.kubernetes.io/tooling"
_KINDS_ANNOTATION: Final = "applyset.kubernetes.io/contains-group-kinds"
_NAMESPACES_ANNOTATION: Final = "applyset.kubernetes.io/additional-namespaces"
_OUTPUTS_KEY: Final = "outputs.json"
# The ConfigMap lacks this key if the states are too large for it, or if the last run has not ended.
_STATES_KEY: Final = "states.json"
_MAX_STATES_BYTES: Final = 256 * 1024  # the API limits a ConfigMap to 1 MiB
PARENTS: Final = f"{_ID_LABEL},{STACK_LABEL}"
"""Label selector of the parents of all stacks."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Kinds (`Kind.group`) that members of an ApplySet can have, and namespaces that can contain members."""

    group_kinds: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    @classmethod
    def of(cls, keys: Iterable[ObjectKey]) -> Inventory:
        """Return the inventory with the kinds and namespaces of the objects `keys`."""
        members = tuple(keys)
        return cls(
            frozenset(key.group_kind for key in members),
            frozenset(key.namespace for key in members if key.namespace),
        )

    def with_kinds_of(self, keys: Iterable[ObjectKey]) -> Inventory:
        """Return this inventory, with the kinds and namespaces of the objects `keys` added."""
        other = Inventory.of(keys)
        return Inventory(self.group_kinds | other.group_kinds, self.namespaces | other.namespaces)


@dataclass(frozen=True, slots=True)
class Parent:
    """Content of the parent object. `exists` is true if the stack is deployed, at least in part.

    `states` contains the `state_seen` of each object that needed no further change at the end of the last run.
    """

    exists: bool = False
    inventory: Inventory = field(default_factory=Inventory)
    outputs: Mapping[str, Any] | None = None
    states: Mapping[ObjectKey, str] = field(default_factory=dict[ObjectKey, str])


class ApplySet:
    """Reads and writes the ApplySet of one stack in one cluster."""

    def __init__(self, client: KubernetesClient, stack: str) -> None:
        self._client = client
        self._stack = stack
        self._name = parent_name(stack)
        identity = f"{self._name}.{PARENT_NAMESPACE}.ConfigMap."
        digest = base64.urlsafe_b64encode(hashlib.sha256(identity.encode()).digest()).decode().rstrip("=")
        self.id: Final = f"applyset-{digest}-v1"

    def labelled(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Return a manifest with the label of this ApplySet."""
        labels = {**mapping_at(manifest, "metadata", "labels"), PART_OF_LABEL: self.id}
        return {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}

    def read_parent(self) -> Parent:
        """Read the parent object."""
        live = self._client.get("v1", "ConfigMap", self._name, PARENT_NAMESPACE)
        if live is None:
            return Parent()
        return Parent(
            exists=True,
            inventory=Inventory(
                _split(annotation(live, _KINDS_ANNOTATION)),
                _split(annotation(live, _NAMESPACES_ANNOTATION)),
            ),
            outputs=outputs_of(live),
            states=_states_of(live),
        )

    def write_parent(
        self,
        inventory: Inventory,
        outputs: Mapping[str, Any] | None,
        states: Mapping[ObjectKey, str] | None = None,
    ) -> None:
        """Write the inventory and the stack's outputs to the parent.

        `outputs` is None if no deployment was completed yet. `states` are passed only at the end of a run.
        """
        data: dict[str, str] = {}
        if outputs is not None:
            data[_OUTPUTS_KEY] = json.dumps(outputs, sort_keys=True)
        if states and len(text := _encoded(states)) <= _MAX_STATES_BYTES:
            data[_STATES_KEY] = text
        annotations = {
            _TOOLING_ANNOTATION: f"{FIELD_MANAGER}/v{version()}",
            _KINDS_ANNOTATION: ",".join(sorted(inventory.group_kinds)),
            _NAMESPACES_ANNOTATION: ",".join(sorted(inventory.namespaces - {PARENT_NAMESPACE})),
        }
        labels = {_ID_LABEL: self.id, STACK_LABEL: self._stack}
        manifest = _config_map(self._name, labels, data)
        manifest["metadata"]["annotations"] = annotations
        self._client.apply(manifest)

    def delete_parent(self) -> None:
        """Delete the parent object after all members are deleted."""
        if (live := self._client.get("v1", "ConfigMap", self._name, PARENT_NAMESPACE)) is not None:
            self._client.delete(live)

    def members(self, inventory: Inventory) -> dict[ObjectKey, dict[str, Any]]:
        """Return the live members. An object of another owner is not a member, even if it has the label."""
        found: dict[ObjectKey, dict[str, Any]] = {}
        for group_kind in sorted(inventory.group_kinds):
            kind, _, group = group_kind.partition(".")
            served = self._client.find_served(group, kind)
            if served is None:
                continue
            for live in self._of_kind(served.api_version, kind, inventory.namespaces):
                if not self.owner_of(live):
                    found[object_key(live)] = live
        return found

    def owner_of(self, live: Mapping[str, Any]) -> str:
        """Return why an object does not belong to this stack, or an empty string if it does.

        An object belongs to the stack if this engine applied it and it has the label of the ApplySet. If somebody
        removed that label, the object still belongs to the stack, unless its stack label names another stack.
        """
        labels = mapping_at(live, "metadata", "labels")
        label, stack = labels.get(PART_OF_LABEL), labels.get(STACK_LABEL, self._stack)
        if owned_fields(live) and (label == self.id or (label is None and stack == self._stack)):
            return ""
        owner = "is not managed by this engine"
        if label == self.id:
            owner = "has the label of this stack, although the stack never applied it"
        elif label:
            other = labels.get(STACK_LABEL)
            owner = f"belongs to stack {other!r}" if other else "belongs to another stack"
        return (
            f"already exists and {owner}; stack {self._stack!r} does not take it over. "
            "Delete it, or rename one of the two objects"
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
            for namespace in sorted(namespaces):  # the user may be allowed to read only some namespaces
                yield from self._client.objects(api_version, kind, namespace=namespace, label_selector=selector)


def outputs_of(parent: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the stack outputs in a live ApplySet parent, or None if no deployment has been completed."""
    data = mapping_at(parent, "data")
    return json.loads(data[_OUTPUTS_KEY]) if _OUTPUTS_KEY in data else None


def _states_of(parent: Mapping[str, Any]) -> Mapping[ObjectKey, str]:
    """Return the object states that are recorded in a live ApplySet parent. The result is empty if an earlier
    release wrote them in another format.
    """
    rows: list[tuple[str, str, str, str, str]] = json.loads(mapping_at(parent, "data").get(_STATES_KEY) or "[]")
    if not isinstance(rows, list):
        return {}
    return {ObjectKey(group, kind, namespace, name): state for group, kind, namespace, name, state in rows}


def _encoded(states: Mapping[ObjectKey, str]) -> str:
    rows = sorted([key.group, key.kind, key.namespace, key.name, state] for key, state in states.items())
    return json.dumps(rows, separators=(",", ":"))


def stack_outputs(client: KubernetesClient, stack: str) -> Mapping[str, Any] | None:
    """Return the outputs, without secrets, of a stack that this engine deployed, or None.

    `stack` may be the full name from a stack reference: `organization/project/stack`.
    """
    return ApplySet(client, stack.rsplit("/", 1)[-1]).read_parent().outputs


def is_deployed(client: KubernetesClient, stack: str) -> bool:
    """Return whether this engine has deployed the stack, at least in part."""
    return ApplySet(client, stack).read_parent().exists


def parent_name(stack: str) -> str:
    """Return a DNS name for the parent. A hash distinguishes stacks that differ only in replaced characters."""
    slug = re.sub(r"[^a-z0-9.-]+", "-", stack.lower()).strip("-.")
    if slug != stack:
        slug = f"{slug}-{hashlib.sha256(stack.encode()).hexdigest()[:8]}"
    return f"gpu-platform-{slug}"


def _config_map(name: str, labels: Mapping[str, str], data: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": PARENT_NAMESPACE, "labels": dict(labels)},
        "data": dict(data),
    }


def _split(text: str) -> frozenset[str]:
    return frozenset(part for part in text.split(",") if part)
