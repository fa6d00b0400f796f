"""Previews an apply with a server-side dry run of each object that has changed since the last run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_platform.deploy.changes import (
    Action,
    Change,
    Changes,
    FieldChange,
    ObjectsSkipped,
    field_changes,
    owned_fields,
    state_seen,
)
from gpu_platform.deploy.drift import additions, grants_access
from gpu_platform.deploy.embedded.apply import (
    NAMESPACE_SKIPPED,
    drift_notices,
    holds_secrets,
    is_in_skipped_namespace,
    must_be_replaced,
)
from gpu_platform.deploy.embedded.applyset import ApplySet, Parent
from gpu_platform.deploy.embedded.judges import is_judge, refused_by
from gpu_platform.deploy.embedded.left_alone import with_fields_of_others
from gpu_platform.deploy.recorded.declared import declared_objects, defines_kind, is_unknown, placed
from gpu_platform.deploy.recorded.objects import KubernetesObject
from gpu_platform.deploy.recorded.record import RecordedProgram
from gpu_platform.deploy.retention import kept_namespaces
from gpu_platform.deploy.taints import apply_over
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.objects import ObjectKey, object_key


def preview(client: KubernetesClient, recorded: RecordedProgram, *, upgrades: bool = False) -> Changes:
    """Return the changes that `apply` would make, without changing anything.

    `upgrades` is true if `up` first upgrades the control plane to a newer Kubernetes version, which may serve more
    kinds. Raises the same errors as `apply`, except NotReady. ObjectsSkipped contains the changes.
    """
    objects = [placed(client, item) for item in declared_objects(recorded, allow_unknown=True)]
    members = ApplySet(client, recorded.stack)
    parent = members.read_parent()
    inventory = parent.inventory
    live = members.members(inventory.with_kinds_of(item.key for item in objects))
    changes: list[Change] = []
    skipped: set[ObjectKey] = set()
    judges: list[ObjectKey] = []
    for item in objects:
        change = Change(Action.SKIP, item.key, reason=NAMESPACE_SKIPPED)
        if not is_in_skipped_namespace(item.key, skipped):
            before = live.get(item.key)
            try:
                change = _change(
                    client, members, recorded.stack, parent, item, before, objects, judges, upgrades=upgrades
                )
            except Refused as refusal:
                judge = next((one for one in judges if refused_by(refusal, item.key.namespace, one)), None)
                if judge is None:
                    raise
                change = _judged_later(client, members, item, before, judge)
        changes.append(change)
        if is_judge(item.key) and change.action not in (Action.SKIP, Action.UNCHANGED):
            judges.append(item.key)
        if change.action is Action.SKIP:
            skipped.add(item.key)
    wanted = {item.key for item in objects}
    superfluous = [item for key, item in live.items() if key not in wanted]
    pruned = kept_namespaces.decide(client, superfluous, before_deletion=True)
    changes += kept_namespaces.retain_changes(pruned)
    changes.extend(Change(Action.DELETE, object_key(item)) for item in pruned.deleted)
    found = Changes(recorded.stack, tuple(changes))
    if skipped:
        raise ObjectsSkipped(found)
    return found


def _change(
    client: KubernetesClient,
    members: ApplySet,
    stack: str,
    parent: Parent,
    declared: KubernetesObject,
    before: Mapping[str, Any] | None,
    objects: Sequence[KubernetesObject],
    judges: Sequence[ObjectKey],
    *,
    upgrades: bool,
) -> Change:
    key, manifest = declared.key, members.labelled(declared.manifest)
    before = before or client.get(declared.api_version, key.kind, key.name, key.namespace)
    if before is None or "deletionTimestamp" in before["metadata"]:
        if not is_unknown(manifest):
            _try_create(client, declared, manifest, objects, upgrades=upgrades)
        return Change(Action.CREATE, key)
    adopted = kept_namespaces.may_be_adopted(client, before, stack)
    if isinstance(adopted, str):
        return Change(Action.SKIP, key, reason=adopted)
    if not adopted and (foreign := members.owner_of(before)):
        return Change(Action.SKIP, key, reason=foreign)
    manifest = with_fields_of_others(declared, manifest, before)
    if is_unknown(manifest):
        after: Mapping[str, Any] = {**manifest, "metadata": {**before["metadata"], **manifest["metadata"]}}
        return _compared(declared, manifest, before, after)
    if not adopted and parent.states.get(key) == (state := state_seen(manifest, before)):
        return Change(Action.UNCHANGED, key, seen=state)
    try:
        after = apply_over(client, manifest, before, dry_run=True)
    except Refused as refusal:
        if not must_be_replaced(client, key, manifest, refusal, judges):
            raise
        fields = _compared(declared, manifest, before, {**before, **manifest}).fields
        return Change(Action.REPLACE, key, fields, refusal.message)
    drift = additions(client, after, manifest)
    notices = tuple(drift_notices(after, drift))
    return _compared(declared, manifest, before, after, notices, changed=bool(drift) and grants_access(after))


def _judged_later(
    client: KubernetesClient,
    members: ApplySet,
    declared: KubernetesObject,
    before: Mapping[str, Any] | None,
    judge: ObjectKey,
) -> Change:
    """Return the change to an object that the server refuses now.

    `judge` is the policy, quota or other object that caused the refusal. The server may accept the object after
    this run has changed `judge`.
    """
    key, manifest = declared.key, members.labelled(declared.manifest)
    notices = (
        f"not tried: {judge.kind} {judge.name} refuses the object now, "
        "but is changed before the object is applied",
    )
    before = before or client.get(declared.api_version, key.kind, key.name, key.namespace)
    if before is None:
        return Change(Action.CREATE, key, notices=notices)
    manifest = with_fields_of_others(declared, manifest, before)
    after = {**before, **manifest, "metadata": {**before["metadata"], **manifest["metadata"]}}
    change = _compared(declared, manifest, before, after, notices, changed=True)
    return replace(change, action=Action.REPLACE) if _is_replaced(declared, change.fields) else change


def _is_replaced(declared: KubernetesObject, fields: Iterable[FieldChange]) -> bool:
    """Return whether the program declares that a change to one of these fields replaces the object."""
    paths = [re.escape(path.replace('"', "")) for path in declared.record.replace_on_changes]
    every = [path.replace(re.escape("[*]"), r"\[[^]]*\]") for path in paths]
    return any(re.match(path, field.path) for path in every for field in fields)


def _compared(
    declared: KubernetesObject,
    manifest: Mapping[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    notices: tuple[str, ...] = (),
    *,
    changed: bool = False,
) -> Change:
    fields = field_changes(manifest, before, after, secret=holds_secrets(declared))
    action = Action.UPDATE if fields or changed else Action.UNCHANGED
    same = action is Action.UNCHANGED and not notices and owned_fields(before) == owned_fields(after)
    return Change(action, declared.key, fields, notices=notices, seen=state_seen(manifest, before) if same else "")


def _try_create(
    client: KubernetesClient,
    declared: KubernetesObject,
    manifest: Mapping[str, Any],
    objects: Sequence[KubernetesObject],
    *,
    upgrades: bool,
) -> None:
    """Let the server validate a new object, unless its kind or namespace does not exist yet."""
    comes_later = upgrades or defines_kind(objects, declared.api_version, declared.key.kind)
    if comes_later and client.find_resource(declared.api_version, declared.key.kind) is None:
        return
    try:
        client.apply(manifest, dry_run=True)
    except Refused as refusal:
        comes_first = any(
            item.key.group_kind == "Namespace" and item.key.name == declared.key.namespace for item in objects
        )
        if refusal.status != 404 or not comes_first:
            raise
