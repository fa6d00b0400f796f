"""Tracks the objects of a stack as an ApplySet, the labels that `kubectl apply --prune --applyset` uses.

The parent is a ConfigMap in `kube-system`, which every cluster has and where tenants cannot write. It names
the kinds and namespaces of the members; its data are the stack's outputs, the record of the members with
their uids, in further ConfigMaps where it is large, and the state in which the last run left each of them: an
object that is still in it, and declared as then, needs no dry run. Every member has its id as a label, for
kubectl; what belongs to the stack is decided by the record (see members.py). The engine has no other state.
Specification of labels and annotations: KEP-3659 of kubernetes/enhancements, read 2026-08.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_platform.base.errors import Finding
from gpu_platform.base.names import FIELD_MANAGER, STACK_LABEL
from gpu_platform.deploy.embedded.members import (
    MAX_RECORD_BYTES,
    PART_OF_LABEL,
    Ownership,
    Recorded,
    decode_record,
    encode_record,
    ownership,
)
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.objects import ObjectKey, annotation, mapping_at, object_key
from gpu_platform.stack.project import version

PARENT_NAMESPACE: Final = "kube-system"
_ID_LABEL: Final = "applyset.kubernetes.io/id"
_TOOLING_ANNOTATION: Final = "applyset.kubernetes.io/tooling"
_KINDS_ANNOTATION: Final = "applyset.kubernetes.io/contains-group-kinds"
_NAMESPACES_ANNOTATION: Final = "applyset.kubernetes.io/additional-namespaces"
_OUTPUTS_KEY: Final = "outputs.json"
_RECORD_KEY: Final = "members.json"
_PARTS_KEY: Final = "members.parts"  # names of the ConfigMaps that hold a large record, one in a line
_STATES_KEY: Final = "states.json"  # left out where it is large, and by a run that has not ended
_RECORD_OF_LABEL: Final = "gpu-platform.dev/record-of"  # on those ConfigMaps: the id of the set
PARENTS: Final = f"{_ID_LABEL},{STACK_LABEL}"
"""Label selector of the parents of all stacks."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Kinds (`Kind.group`) and namespaces in which an ApplySet can have members, and its recorded members.

    `recorded` None: no record exists, which is so before the first run, and after a release that wrote none.
    """

    group_kinds: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    recorded: Recorded | None = None

    @classmethod
    def of(cls, members: Mapping[ObjectKey, str]) -> Inventory:
        """Return the inventory of members, given with their uids."""
        return cls(
            frozenset(key.group_kind for key in members),
            frozenset(key.namespace for key in members if key.namespace),
            members,
        )

    def with_kinds_of(self, keys: Iterable[ObjectKey]) -> Inventory:
        """Return the inventory with the kinds and namespaces of further objects, which are not recorded."""
        other = Inventory.of(dict.fromkeys(keys, ""))
        return Inventory(self.group_kinds | other.group_kinds, self.namespaces | other.namespaces, self.recorded)


@dataclass(frozen=True, slots=True)
class Parent:
    """Content of the parent object; `exists`: the stack is deployed, perhaps only in part.

    `states`: `state_seen` of the objects in which the last run left nothing to change.
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
        """Return a manifest with the label of this set."""
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
                self._read_record(mapping_at(live, "data")),
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
        """Write the inventory and the stack's outputs (None: no deployment was completed yet) to the parent.

        `states`: of a run that has ended.

        A large record is written to ConfigMaps with new names first, and the old ones are deleted last, so
        that the parent always names a complete record.
        """
        data: dict[str, str] = {}
        parts: list[dict[str, Any]] = []
        if inventory.recorded is not None:
            texts = encode_record(inventory.recorded, MAX_RECORD_BYTES)
            if len(texts) == 1:
                data[_RECORD_KEY] = texts[0]
            else:
                parts = [self._part(text) for text in texts]
                names: list[str] = [part["metadata"]["name"] for part in parts]
                data[_PARTS_KEY] = "\n".join(names)
        if outputs is not None:
            data[_OUTPUTS_KEY] = json.dumps(outputs, sort_keys=True)
        if states and len(texts := encode_record(states, MAX_RECORD_BYTES)) == 1:
            data[_STATES_KEY] = texts[0]
        for part in parts:
            self._client.apply(part)
        annotations = {
            _TOOLING_ANNOTATION: f"{FIELD_MANAGER}/v{version()}",
            _KINDS_ANNOTATION: ",".join(sorted(inventory.group_kinds)),
            _NAMESPACES_ANNOTATION: ",".join(sorted(inventory.namespaces - {PARENT_NAMESPACE})),
        }
        labels = {_ID_LABEL: self.id, STACK_LABEL: self._stack}
        manifest = _config_map(self._name, labels, data)
        manifest["metadata"]["annotations"] = annotations
        self._client.apply(manifest)
        if inventory.recorded is not None:
            self._delete_parts(keep={part["metadata"]["name"] for part in parts})

    def _read_record(self, data: Mapping[str, Any]) -> Recorded | None:
        if _RECORD_KEY in data:
            return decode_record([data[_RECORD_KEY]])
        if _PARTS_KEY not in data:
            return None
        texts: list[str] = []
        for name in str(data[_PARTS_KEY]).splitlines():
            part = self._client.get("v1", "ConfigMap", name, PARENT_NAMESPACE)
            if part is None:
                raise Finding(
                    f"ConfigMap {name} in namespace {PARENT_NAMESPACE} was deleted; it held a part of the record "
                    f"of the objects of stack {self._stack!r}. Restore it, or remove the key {_PARTS_KEY} of "
                    f"ConfigMap {self._name} there: labels then decide which objects belong to the stack"
                )
            texts.append(str(mapping_at(part, "data")[_RECORD_KEY]))
        return decode_record(texts)

    def _part(self, text: str) -> dict[str, Any]:
        name = f"{self._name}-members-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        return _config_map(name, {_RECORD_OF_LABEL: self.id}, {_RECORD_KEY: text})

    def _delete_parts(self, keep: Collection[str] = ()) -> None:
        selector = f"{_RECORD_OF_LABEL}={self.id}"
        parts = self._client.objects("v1", "ConfigMap", namespace=PARENT_NAMESPACE, label_selector=selector)
        for part in list(parts):
            if part["metadata"]["name"] not in keep:
                self._client.delete(part)

    def delete_parent(self) -> None:
        """Delete the parent object, after all members were deleted."""
        if (live := self._client.get("v1", "ConfigMap", self._name, PARENT_NAMESPACE)) is not None:
            self._client.delete(live)
        self._delete_parts()

    def members(self, inventory: Inventory) -> dict[ObjectKey, dict[str, Any]]:
        """Return the live members: those recorded, or without a record those of label and field manager.

        An object that a tenant labelled is none, and neither is one that somebody created again under the
        name of a member.
        """
        found: dict[ObjectKey, dict[str, Any]] = {}
        for group_kind in sorted(inventory.group_kinds):
            kind, _, group = group_kind.partition(".")
            served = self._client.find_served(group, kind)
            if served is None:
                continue
            labelled = self._of_kind(served.api_version, kind, inventory.namespaces)
            lives = {object_key(live): live for live in labelled}
            for key in inventory.recorded or ():  # those without the label
                if key.group_kind != group_kind or key in lives:
                    continue
                if live := self._client.get(served.api_version, kind, key.name, key.namespace):
                    lives[key] = live
            for key, live in lives.items():
                owner = self.ownership(live, inventory)
                if not owner.foreign and not owner.recreated:
                    found[key] = live
        return found

    def ownership(self, live: Mapping[str, Any], inventory: Inventory) -> Ownership:
        """Return whether a live object belongs to this stack, and what somebody else did to it."""
        return ownership(
            live,
            set_id=self.id,
            stack=self._stack,
            recorded=inventory.recorded,
            kinds=inventory.group_kinds,
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


def outputs_of(parent: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the stack outputs in a live parent; None while no deployment was completed."""
    data = mapping_at(parent, "data")
    return json.loads(data[_OUTPUTS_KEY]) if _OUTPUTS_KEY in data else None


def _states_of(parent: Mapping[str, Any]) -> Mapping[ObjectKey, str]:
    data = mapping_at(parent, "data")
    return decode_record([data[_STATES_KEY]]) if _STATES_KEY in data else {}


def stack_outputs(client: KubernetesClient, stack: str) -> Mapping[str, Any] | None:
    """Return the outputs, without secrets, of a stack that this engine deployed, or None.

    `stack` may be the full name in a stack reference: `organization/project/stack`.
    """
    return ApplySet(client, stack.rsplit("/", 1)[-1]).read_parent().outputs


def is_deployed(client: KubernetesClient, stack: str) -> bool:
    """Return whether this engine has deployed the stack, at least in part."""
    return ApplySet(client, stack).read_parent().exists


def parent_name(stack: str) -> str:
    """Return a DNS name for the parent; a hash distinguishes stacks that differ only in replaced characters."""
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
