"""Describes the changes that an apply makes to objects, and compares two states of an object on the API server
field by field.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, cast

from gpu_platform.base.errors import Finding
from gpu_platform.base.names import FIELD_MANAGER
from gpu_platform.base.quantity import counted
from gpu_platform.deploy.recorded.properties import REDACTED, UNKNOWN, Json
from gpu_platform.live.objects import ObjectKey

_ABSENT: Final = object()


class Action(StrEnum):
    """Kind of change to one object."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"  # deleted and created again, because of an immutable field
    DELETE = "delete"
    RETAIN = "retain"  # no longer declared, but kept with the objects that members created
    SKIP = "skip"  # left unchanged, because it belongs to another owner
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """Change to a field at a path such as `spec.containers[web].image`. None means that the field is not set."""

    path: str
    old: Json
    new: Json

    def __str__(self) -> str:
        return f"{self.path}: {value_text(self.old)} → {value_text(self.new)}"


@dataclass(frozen=True, slots=True)
class Change:
    """Change to one object."""

    action: Action
    key: ObjectKey
    fields: tuple[FieldChange, ...] = ()
    reason: str = ""  # why the object is replaced, retained, adopted or skipped
    notices: tuple[str, ...] = ()  # changes that other clients made to the object
    seen: str = field(default="", compare=False)  # `state_seen`, if an apply would not change the object

    def to_json(self) -> dict[str, Any]:
        """Return the change for a JSON report."""
        return {
            "action": self.action.value,
            "kind": self.key.group_kind,
            "namespace": self.key.namespace,
            "name": self.key.name,
            "reason": self.reason,
            "notices": list(self.notices),
            "fields": [{"path": field.path, "old": field.old, "new": field.new} for field in self.fields],
        }


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes that one run makes to the objects of a stack, in order."""

    stack: str
    changes: tuple[Change, ...]

    def count(self, action: Action) -> int:
        """Return the number of objects with an action."""
        return sum(change.action is action for change in self.changes)

    def by_kind(self, action: Action) -> Mapping[str, int]:
        """Return the number of objects with an action by `Kind.group`, sorted."""
        counts = Counter(change.key.group_kind for change in self.changes if change.action is action)
        return dict(sorted(counts.items()))

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return self.count(Action.UNCHANGED) == len(self.changes)

    def to_json(self) -> dict[str, Any]:
        """Return counts by action, counts by action and kind, and every change or notice."""
        return {
            "stack": self.stack,
            "counts": {action.value: self.count(action) for action in Action},
            "kinds": {action.value: self.by_kind(action) for action in Action},
            "changes": [
                change.to_json()
                for change in self.changes
                if change.action is not Action.UNCHANGED or change.notices
            ],
        }


class ObjectsSkipped(Finding):
    """Objects were skipped because they belong to another owner. All other objects were applied and pruned.

    `changes` contains the changes of the run, including the skipped objects.
    """

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        lines = [f"  - {change.key} {change.reason}" for change in changes.changes if change.action is Action.SKIP]
        count = counted(len(lines), "object")
        head = f"stack {changes.stack!r}: {count} skipped; all others are not affected:"
        super().__init__("\n".join([head, *lines]))


def field_changes(
    declared: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any], *, secret: bool = False
) -> tuple[FieldChange, ...]:
    """Return the fields that an apply of `declared` changed between two states of an object on the server.

    The comparison covers declared fields, and fields that were declared last time but are no longer declared.
    Changes that controllers make to other fields are therefore ignored. With `secret`, values are redacted.
    """
    found = [
        *_changed(declared, before, after, ""),
        *_given_up(owned_fields(before), owned_fields(after), before, after, ""),
    ]
    unique = {change.path: change for change in found}
    if secret:
        return tuple(FieldChange(path, REDACTED, REDACTED) for path in unique)
    return tuple(unique.values())


def state_seen(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> str:
    """Return a digest that stays the same while neither the declared nor the live object changes."""
    metadata = live["metadata"]
    states = f"{metadata['uid']} {metadata['resourceVersion']} {json.dumps(manifest, sort_keys=True)}"
    return hashlib.sha256(states.encode()).hexdigest()[:32]


def _changed(declared: object, before: object, after: object, path: str) -> Iterator[FieldChange]:
    if before == after:
        return
    objects = _fields(declared), _fields(before), _fields(after)
    if objects[0] is not None and objects[1] is not None and objects[2] is not None:
        for key, inner in objects[0].items():
            yield from _changed(inner, objects[1].get(key), objects[2].get(key), _join(path, key))
        return
    items = _by_name(declared), _by_name(before), _by_name(after)
    if items[0] is not None and items[1] is not None and items[2] is not None:
        for name in {**items[1], **items[2]}:
            yield from _changed(items[0].get(name), items[1].get(name), items[2].get(name), f"{path}[{name}]")
        return
    yield FieldChange(path, cast("Json", before), cast("Json", after))


def _fields(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def _by_name(value: object) -> dict[str, object] | None:
    """Return the items of a list by name (containers, ports, environment), or taints by key and effect.

    Returns None if the items have no unique names.
    """
    if not isinstance(value, list) or not value:
        return None
    named: dict[str, object] = {}
    for item in cast("list[object]", value):
        fields = _fields(item)
        if fields is None:
            return None
        name = fields.get("name")
        if name is None and {"key", "effect"} <= fields.keys():
            name = f"{fields['key']}:{fields['effect']}"
        if not isinstance(name, str) or name in named:
            return None
        named[name] = item
    return named


def _join(path: str, key: str) -> str:
    if "." in key or "/" in key:
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


# -- fields that are no longer declared: managedFields, whose keys are f:<field>, k:<key fields of an item>,
# v:<value>, i:<index>


def owned_fields(live: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields (FieldsV1) that this engine applied to a live object, or an empty mapping."""
    entries: Iterable[Mapping[str, Any]] = live.get("metadata", {}).get("managedFields") or ()
    for entry in entries:
        if entry["manager"] == FIELD_MANAGER and entry["operation"] == "Apply" and "subresource" not in entry:
            return entry["fieldsV1"]
    return {}


def _given_up(
    before_fields: Mapping[str, Any], after_fields: Mapping[str, Any], before: object, after: object, path: str
) -> Iterator[FieldChange]:
    for key, inner in before_fields.items():
        if key == "." or (key in after_fields and not inner):
            continue
        old, new = _child(before, key), _child(after, key)
        place = place_of(path, key)
        if key not in after_fields and (not inner or "." in inner):  # a leaf or a list item
            if old is not _ABSENT and old != new:
                yield FieldChange(place, cast("Json", old), None if new is _ABSENT else cast("Json", new))
        else:
            yield from _given_up(inner, after_fields.get(key) or {}, old, new, place)


def _child(node: object, key: str) -> object:
    kind, _, text = key.partition(":")
    if kind == "f":
        return cast("Mapping[str, object]", node).get(text, _ABSENT) if isinstance(node, Mapping) else _ABSENT
    items = cast("list[object]", node) if isinstance(node, list) else []
    wanted = json.loads(text)
    if kind == "v":
        return wanted if wanted in items else _ABSENT
    if kind == "i":
        return items[wanted] if wanted < len(items) else _ABSENT
    for item in items:
        if isinstance(item, Mapping) and wanted.items() <= cast("Mapping[str, object]", item).items():
            return cast("object", item)
    return _ABSENT


def child_at(node: object, key: str) -> object:
    """Return the value at a key of FieldsV1 (`f:spec`, `k:{"name":"web"}`), or None if it is not set."""
    found = _child(node, key)
    return None if found is _ABSENT else found


def place_of(path: str, key: str) -> str:
    """Return a readable path for a FieldsV1 key below `path`."""
    kind, _, text = key.partition(":")
    if kind == "f":
        return _join(path, text)
    if kind == "k":
        values: Mapping[str, object] = json.loads(text)
        text = ",".join(str(value) for value in values.values())
    return f"{path}[{text}]"


def value_text(value: Json) -> str:
    """Return a readable string for the value of a field: JSON, `(not set)` or `(unknown)`."""
    if value is None:
        return "(not set)"
    if value == UNKNOWN:
        return "(unknown)"
    return json.dumps(value, ensure_ascii=False)
