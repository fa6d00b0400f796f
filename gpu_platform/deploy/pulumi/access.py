"""Restores RBAC objects and NetworkPolicies that other clients changed, because Pulumi does not detect such
changes.

The Pulumi provider reads only the fields of a live object that its own field manager owns. It therefore does not
report a subject or a rule that another client added (`Read` in pulumi-kubernetes,
provider/pkg/provider/provider.go; read 2026-11-28).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from gpu_platform.deploy.changes import Action, Change, FieldChange
from gpu_platform.deploy.drift import access_fields, with_defaults
from gpu_platform.deploy.recorded.declared import is_unknown
from gpu_platform.deploy.recorded.objects import KubernetesObject
from gpu_platform.deploy.recorded.properties import Json
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import ObjectKey, object_key


def changed_access(client: KubernetesClient, declared: Iterable[KubernetesObject]) -> tuple[Change, ...]:
    """Return the live objects in which a field that grants access differs from its declared value, each with the
    fields that differ.
    """
    kinds: dict[str, list[KubernetesObject]] = {}
    for item in declared:
        if access_fields(item.key) and not is_unknown(item.manifest):
            kinds.setdefault(item.key.kind, []).append(item)
    return tuple(change for items in kinds.values() for change in _of_kind(client, items))


def restore_access(client: KubernetesClient, declared: Iterable[KubernetesObject]) -> tuple[Change, ...]:
    """Restore the declared values of the fields that grant access in live objects. Return the changes. Raises
    Refused if the API server refuses a request.
    """
    by_key = {item.key: item for item in declared}
    changes = changed_access(client, by_key.values())
    for change in changes:
        key = change.key
        metadata = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
        patch = {field.path: _patch(field.old, field.new) for field in change.fields}
        client.merge({"apiVersion": by_key[key].api_version, "kind": key.kind, "metadata": metadata, **patch})
    return changes


def _of_kind(client: KubernetesClient, items: list[KubernetesObject]) -> Iterator[Change]:
    first = items[0]
    live = {object_key(one): one for one in client.objects(first.api_version, first.key.kind)}
    for item in items:
        found = live.get(item.key)
        if found is None or "deletionTimestamp" in found["metadata"]:
            continue
        wanted: Mapping[str, Any] = item.manifest
        if _differences(item.key, wanted, found):
            wanted = with_defaults(client, wanted)
        if fields := _differences(item.key, wanted, found):
            notices = ("access was changed by somebody else",)
            yield Change(Action.UPDATE, item.key, fields, notices=notices)


def _differences(key: ObjectKey, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    # An aggregated role contains the rules of other roles.
    fields = [field for field in access_fields(key) if field != "rules" or not wanted.get("aggregationRule")]
    return tuple(
        FieldChange(field, cast("Json", found.get(field)), cast("Json", wanted.get(field)))
        for field in fields
        if (found.get(field) or None) != (wanted.get(field) or None)
    )


def _patch(old: Json, new: Json) -> Json:
    """Return a merge patch that changes `old` to `new`."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {key: _patch(old.get(key), new.get(key)) for key in old | new}
