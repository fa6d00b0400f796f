"""Previews an apply by a server-side dry run of each object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.engine.apply import holds_secrets, must_be_replaced
from gpu_platform.engine.applyset import ApplySet, Inventory
from gpu_platform.engine.changes import Action, Change, Changes, field_changes
from gpu_platform.engine.client import KubernetesClient, Refused
from gpu_platform.engine.declared import declared_objects, defines_kind, is_unknown, placed
from gpu_platform.engine.objects import KubernetesObject
from gpu_platform.engine.record import RecordedProgram


def preview(client: KubernetesClient, recorded: RecordedProgram) -> Changes:
    """Return the changes that `apply` would make, without changing anything.

    Raises the same errors as `apply`, except NotReady.
    """
    objects = [placed(client, item) for item in declared_objects(recorded, allow_unknown=True)]
    members = ApplySet(client, recorded.stack)
    live = members.members(members.read_parent().inventory | Inventory.of(item.key for item in objects))
    changes = [_change(client, members, item, live.get(item.key), objects) for item in objects]
    wanted = {item.key for item in objects}
    changes.extend(Change(Action.DELETE, key) for key in live if key not in wanted)
    return Changes(recorded.stack, tuple(changes))


def _change(
    client: KubernetesClient,
    members: ApplySet,
    declared: KubernetesObject,
    before: Mapping[str, Any] | None,
    objects: Sequence[KubernetesObject],
) -> Change:
    key, manifest = declared.key, members.labelled(declared.manifest)
    before = before or client.get(declared.api_version, key.kind, key.name, key.namespace)
    if before is None or "deletionTimestamp" in before["metadata"]:
        if not is_unknown(manifest):
            _try_create(client, declared, manifest, objects)
        return Change(Action.CREATE, key)
    members.refuse_foreign(before)
    if is_unknown(manifest):
        after: Mapping[str, Any] = {**manifest, "metadata": {**before["metadata"], **manifest["metadata"]}}
        return _compared(declared, manifest, before, after)
    try:
        after = client.apply(manifest, dry_run=True)
    except Refused as refusal:
        if not must_be_replaced(client, key, manifest, refusal):
            raise
        fields = _compared(declared, manifest, before, {**before, **manifest}).fields
        return Change(Action.REPLACE, key, fields, refusal.message)
    return _compared(declared, manifest, before, after)


def _compared(
    declared: KubernetesObject, manifest: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> Change:
    fields = field_changes(manifest, before, after, secret=holds_secrets(declared))
    return Change(Action.UPDATE if fields else Action.UNCHANGED, declared.key, fields)


def _try_create(
    client: KubernetesClient,
    declared: KubernetesObject,
    manifest: Mapping[str, Any],
    objects: Sequence[KubernetesObject],
) -> None:
    """Let the server validate an object that does not exist, unless its kind or namespace does not exist yet."""
    if client.find_resource(declared.api_version, declared.key.kind) is None and defines_kind(
        objects, declared.api_version, declared.key.kind
    ):
        return
    try:
        client.apply(manifest, dry_run=True)
    except Refused as refusal:
        comes_first = any(
            item.key.group_kind == "Namespace" and item.key.name == declared.key.namespace for item in objects
        )
        if refusal.status != 404 or not comes_first:
            raise
