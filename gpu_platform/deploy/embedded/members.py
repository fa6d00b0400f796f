"""Record of the members of an ApplySet, and whether a live object is one of them.

Labels cannot decide it alone: a member of a team may change every label of an object in the own namespace,
delete a platform object there and create one of the same name, or put the label of the set on own objects. So
the parent records each member with its uid, and labels decide only where there is no record yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base.errors import Finding
from gpu_platform.base.names import STACK_LABEL
from gpu_platform.base.quantity import counted
from gpu_platform.deploy.changes import Action, Changes, owned_fields
from gpu_platform.live.objects import ObjectKey, mapping_at, object_key

PART_OF_LABEL: Final = "applyset.kubernetes.io/part-of"
MAX_RECORD_BYTES: Final = 256 * 1024  # of one ConfigMap, which the API limits to 1 MiB of data
_RECORD_VERSION: Final = 1

# Kinds that may hold data of a member: one that somebody created again is never deleted to apply the platform's.
_HOLDS_DATA: Final = frozenset(
    {
        "CustomResourceDefinition.apiextensions.k8s.io",
        "Namespace",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Secret",
        "StatefulSet.apps",
    }
)

Recorded = Mapping[ObjectKey, str]
"""uid by object; an empty uid: a run planned to apply the object and was perhaps killed before it did."""


class ObjectsSkipped(Finding):
    """Objects were skipped because they belong to somebody else; all others were applied and pruned.

    `changes` are the changes of the run, with the skipped objects.
    """

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        lines = [f"  - {change.key} {change.reason}" for change in changes.changes if change.action is Action.SKIP]
        count = counted(len(lines), "object")
        head = f"stack {changes.stack!r}: {count} skipped; all others are not affected:"
        super().__init__("\n".join([head, *lines]))


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whether an existing object belongs to a stack.

    `taken_back`: what somebody else did to an object of the stack, empty if nothing. `recreated`: it was
    deleted and created again by somebody else. `foreign`: why the object does not belong to the stack, empty
    if it does.
    """

    taken_back: str = ""
    recreated: bool = False
    foreign: str = ""


def ownership(
    live: Mapping[str, Any], *, set_id: str, stack: str, recorded: Recorded | None, kinds: frozenset[str]
) -> Ownership:
    """Return whether a live object is a member of the set `set_id`.

    With a record, an object is a member if its key is recorded: with the recorded uid whatever its labels
    are, with another uid as one that was created again. Two exceptions rest on the label and the field
    manager: an object without a recorded uid (the run was killed), and a recreated object that another stack
    applied.

    Without a record (`recorded` is None: the first run, or a deployment by a release before records existed)
    an object is a member if this engine applied it (managedFields) and it has the label of the set, or if its
    label was removed and its kind is among `kinds`, those of the parent. The next run of `apply` then writes
    the record.
    """
    key, labels = object_key(live), mapping_at(live, "metadata", "labels")
    label, applied = labels.get(PART_OF_LABEL), bool(owned_fields(live))
    uid = None if recorded is None else recorded.get(key)
    if uid and uid == live["metadata"].get("uid"):
        if label == set_id:
            return Ownership()
        return Ownership(taken_back=f"its label {PART_OF_LABEL} was {'changed' if label else 'removed'}")
    known = recorded is None or uid is not None
    if known and applied and label == set_id:
        return Ownership()
    if uid and not (applied and label):
        return Ownership(taken_back="it was deleted and created again", recreated=True)
    stripped = applied and label is None and labels.get(STACK_LABEL, stack) == stack
    if stripped and (uid is not None or (recorded is None and key.group_kind in kinds)):
        return Ownership(taken_back=f"its label {PART_OF_LABEL} was removed")
    return Ownership(foreign=_foreign(labels, set_id, stack))


def _foreign(labels: Mapping[str, Any], set_id: str, stack: str) -> str:
    owner = "is not managed by this engine"
    if labels.get(PART_OF_LABEL) == set_id:
        owner = "has the label of this stack, which never applied it"
    elif PART_OF_LABEL in labels:
        other = labels.get(STACK_LABEL)
        owner = f"belongs to stack {other!r}" if other else "belongs to another stack"
    return (
        f"already exists and {owner}; stack {stack!r} does not take it over. Delete it, or rename one of the two"
    )


def may_be_deleted_to_take_back(key: ObjectKey) -> bool:
    """Return whether a recreated object of this kind holds no data of a member."""
    return key.group_kind not in _HOLDS_DATA


def encode_record(recorded: Recorded, limit: int = MAX_RECORD_BYTES) -> list[str]:
    """Return the record as JSON texts of at most `limit` bytes, as few as possible."""
    texts: list[str] = []
    part: list[tuple[ObjectKey, str]] = []
    size = 0
    for key, uid in sorted(recorded.items(), key=lambda item: str(item[0])):
        added = sum(len(text) for text in (key.group_kind, key.namespace, key.name, uid)) + 16
        if part and size + added > limit:
            texts.append(_encoded(part))
            part = []
            size = 0
        part.append((key, uid))
        size += added
    return [*texts, _encoded(part)]


def _encoded(part: Iterable[tuple[ObjectKey, str]]) -> str:
    objects: dict[str, dict[str, dict[str, str]]] = {}
    for key, uid in part:
        objects.setdefault(key.group_kind, {}).setdefault(key.namespace, {})[key.name] = uid
    return json.dumps({"version": _RECORD_VERSION, "objects": objects}, sort_keys=True, separators=(",", ":"))


def decode_record(texts: Sequence[str]) -> dict[ObjectKey, str]:
    """Return the members in the JSON texts of a record; raises Finding for a version of a later release."""
    recorded: dict[ObjectKey, str] = {}
    for text in texts:
        document: dict[str, Any] = json.loads(text)
        if document["version"] != _RECORD_VERSION:
            raise Finding(
                f"the stack's record of its objects has version {document['version']}, this release reads "
                f"{_RECORD_VERSION}: use the release that deployed the stack, or a later one"
            )
        kinds: dict[str, dict[str, dict[str, str]]] = document["objects"]
        for group_kind, namespaces in kinds.items():
            kind, _, group = group_kind.partition(".")
            for namespace, names in namespaces.items():
                recorded |= {ObjectKey(group, kind, namespace, name): uid for name, uid in names.items()}
    return recorded
