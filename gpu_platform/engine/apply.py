"""Applies the objects of a recorded program to a cluster: server-side apply, wait until ready, prune.

Every step can be repeated. The ApplySet's parent names the kinds of old and new members before the first object is
changed, so that the next run can finish an interrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from gpu_platform.engine.applyset import ApplySet, Inventory
from gpu_platform.engine.changes import Action, Change, Changes, field_changes
from gpu_platform.engine.client import KubernetesClient, Refused
from gpu_platform.engine.declared import declared_objects, is_first, placed
from gpu_platform.engine.deletion import delete_all
from gpu_platform.engine.objects import KubernetesObject, ObjectKey
from gpu_platform.engine.readiness import is_awaited
from gpu_platform.engine.record import RecordedProgram
from gpu_platform.engine.wait import Awaited, Waiter, timeout_seconds
from gpu_platform.progress import Progress


def apply(client: KubernetesClient, recorded: RecordedProgram, progress: Progress | None = None) -> Changes:
    """Apply a program's objects, wait until they are ready, delete objects that it no longer declares.

    Raises BadInput for what this engine cannot deploy, Refused for an object that the API server refuses, NotReady
    for one that does not become ready; objects that were applied before stay.
    """
    objects = declared_objects(recorded)
    progress = progress or Progress(quiet=True)
    members = ApplySet(client, recorded.stack)
    parent = members.read_parent()
    inventory = parent.inventory | Inventory.of(placed(client, declared).key for declared in objects)
    members.write_parent(inventory, parent.outputs)
    run = _Run(client, members, members.members(inventory), progress)
    with progress.step(f"applying {len(objects)} objects"):
        for declared in objects:
            run.apply(declared)
    with progress.step("waiting until all objects are ready"):
        run.wait()
    with progress.step("deleting objects that are no longer declared"):
        run.prune()
    public = {name: value for name, value in recorded.outputs.items() if name not in recorded.secret_outputs}
    members.write_parent(Inventory.of(run.applied), public)
    return Changes(recorded.stack, tuple(run.changes))


class _Run:
    """State of one apply: live objects, applied objects, and those that are not ready yet."""

    def __init__(
        self,
        client: KubernetesClient,
        members: ApplySet,
        live: Mapping[ObjectKey, Mapping[str, Any]],
        progress: Progress,
    ) -> None:
        self._client = client
        self._members = members
        self._live = live
        self._waiter = Waiter(client, members, progress)
        self._awaited: dict[str, Awaited] = {}  # by URN
        self._first: set[str] = set()  # URNs in _awaited of Namespaces and CRDs, which all others wait for
        self.applied: set[ObjectKey] = set()
        self.changes: list[Change] = []

    def apply(self, declared: KubernetesObject) -> None:
        if not is_first(declared.key):
            self._wait_for(self._first)
            self._first = set()
        self._wait_for(declared.record.dependencies)
        declared = placed(self._client, declared)
        key, urn = declared.key, declared.record.urn
        change = self._bring(declared)
        self.applied.add(key)
        self.changes.append(change)
        if is_awaited(declared.manifest):
            timeout = timeout_seconds(declared, "create" if change.action is Action.CREATE else "update")
            self._awaited[urn] = Awaited(key, declared.api_version, time.monotonic(), timeout)
            if is_first(key):
                self._first.add(urn)

    def wait(self) -> None:
        self._wait_for(list(self._awaited))

    def prune(self) -> None:
        superfluous = [live for key, live in self._live.items() if key not in self.applied]
        self.changes.extend(delete_all(self._client, self._waiter, superfluous))

    def _wait_for(self, urns: Iterable[str]) -> None:
        self._waiter.until_ready([self._awaited.pop(urn) for urn in urns if urn in self._awaited])

    def _bring(self, declared: KubernetesObject) -> Change:
        """Create, update or replace the object, and return the change."""
        key, manifest = declared.key, self._members.labelled(declared.manifest)
        before = self._live.get(key) or self._client.get(declared.api_version, key.kind, key.name, key.namespace)
        if before is not None and "deletionTimestamp" in before["metadata"]:
            self._waiter.until_deleted([before], timeout_seconds(declared, "delete"))
            before = None
        if before is None:
            self._client.apply(manifest)
            return Change(Action.CREATE, key)
        self._members.refuse_foreign(before)
        try:
            after = self._client.apply(manifest)
        except Refused as refusal:
            return self._replace(declared, manifest, before, refusal)
        fields = field_changes(manifest, before, after, secret=holds_secrets(declared))
        return Change(Action.UPDATE if fields else Action.UNCHANGED, key, fields)

    def _replace(
        self, declared: KubernetesObject, manifest: Mapping[str, Any], before: Mapping[str, Any], refusal: Refused
    ) -> Change:
        if not must_be_replaced(self._client, declared.key, manifest, refusal):
            raise refusal
        self._client.delete(before)
        self._waiter.until_deleted([before], timeout_seconds(declared, "delete"))
        after = self._client.apply(manifest)
        fields = field_changes(manifest, before, after, secret=holds_secrets(declared))
        return Change(Action.REPLACE, declared.key, fields, refusal.message)


def must_be_replaced(
    client: KubernetesClient, key: ObjectKey, manifest: Mapping[str, Any], refusal: Refused
) -> bool:
    """Return whether the server refused the change of an immutable field of an otherwise valid object.

    Namespaces and CRDs are never replaced, because this would delete all objects in them.
    """
    return refusal.status == 422 and not is_first(key) and client.could_be_created(manifest)


def holds_secrets(declared: KubernetesObject) -> bool:
    """Return whether the object contains secrets, whose values must not appear in reports."""
    return declared.key.group_kind == "Secret" or declared.record.revealed_inputs is not None
