"""Applies the objects of a recorded program to a cluster, waits until they are ready, and prunes other objects.

Every step can be repeated. Before the first object is changed, the ApplySet's parent lists the kinds and
namespaces of old and new members. With this list, the next run can finish an interrupted run. An object of another
owner is skipped. If it is a Namespace, all objects in it are skipped as well. All other objects are applied and
pruned, and the run ends with ObjectsSkipped.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gpu_platform.base.errors import Finding
from gpu_platform.base.progress import Progress
from gpu_platform.base.quantity import counted
from gpu_platform.deploy.changes import Action, Change, Changes, ObjectsSkipped, field_changes, state_seen
from gpu_platform.deploy.drift import Addition, additions, grants_access, removal
from gpu_platform.deploy.embedded.applyset import ApplySet, Inventory
from gpu_platform.deploy.embedded.judges import is_judge, refused_by
from gpu_platform.deploy.embedded.left_alone import with_fields_of_others
from gpu_platform.deploy.embedded.queues import kueue_itself, why_kueue_stays
from gpu_platform.deploy.embedded.wait import Awaited, NotReady, Waiter, timeout_seconds
from gpu_platform.deploy.embedded.withheld import withheld_text
from gpu_platform.deploy.recorded.declared import declared_objects, is_first, placed
from gpu_platform.deploy.recorded.objects import KubernetesObject
from gpu_platform.deploy.recorded.record import RecordedProgram
from gpu_platform.deploy.retention import kept_namespaces
from gpu_platform.deploy.taints import apply_over
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.objects import WORKLOAD_GROUPS, ObjectKey, object_key
from gpu_platform.live.readiness import is_awaited
from gpu_platform.planning.teams.pod_admission import POLICY_SECONDS

NAMESPACE_SKIPPED: Final = "is in a Namespace that is skipped"
_IMMUTABLE: Final = "field is immutable"  # source: ValidateImmutableField in k8s.io/apimachinery, read 2026-11-28
_HELD_SECONDS: Final = 60.0  # time limit for the deletion of an object without pods
_POLICY_GROUP: Final = "admissionregistration.k8s.io"
_JUDGES_SECONDS: Final = 15.0  # time until API servers act on a changed policy or quota
_JUDGED_AGAIN_SECONDS: Final = 0.5


def apply(
    client: KubernetesClient,
    recorded: RecordedProgram,
    progress: Progress | None = None,
    previewed: Changes | None = None,
) -> Changes:
    """Apply a program's objects, wait until they are ready, and delete objects that it no longer declares.

    `previewed` are the changes from the preview in this run. If the preview found no change to an object, and the
    object has not changed since, it is not applied again. Raises BadInput for resources that this engine cannot
    deploy, Refused for an object that the API server refuses, and NotReady for an object that does not become
    ready. Objects that were already applied are kept. At the end of a run, raises ObjectsSkipped for skipped
    objects, and NotReady if Kueue was not deleted because it still manages workloads.
    """
    objects = declared_objects(recorded)
    progress = progress or Progress(quiet=True)
    members = ApplySet(client, recorded.stack)
    parent = members.read_parent()
    keys = [placed(client, declared).key for declared in objects]
    inventory = parent.inventory.with_kinds_of(keys)
    live = members.members(inventory)
    members.write_parent(inventory, parent.outputs)
    seen = {change.key: change.seen for change in previewed.changes if change.seen} if previewed else parent.states
    run = _Run(client, members, recorded.stack, live, seen, progress)
    try:
        with progress.step(f"applying {counted(len(objects), 'object')}"):
            run.apply_all(objects)
        with progress.step("waiting until all objects are ready"):
            run.wait()
        with progress.step("deleting objects that are no longer declared"):
            run.prune()
    except (Finding, KeyboardInterrupt) as error:
        left = [key for key in keys if key not in run.applied and key not in run.skipped]
        withheld = withheld_text(left, len(objects), previewed)
        if isinstance(error, KeyboardInterrupt):
            progress.line(withheld or f"{len(run.applied)} of {counted(len(objects), 'object')} applied")
        if isinstance(error, NotReady):
            raise error.withholding(withheld) from None
        raise
    public = {name: value for name, value in recorded.outputs.items() if name not in recorded.secret_outputs}
    members.write_parent(Inventory.of(run.applied | run.skipped | run.kept), public, run.states)
    changes = Changes(recorded.stack, tuple(run.changes))
    if changes.count(Action.SKIP):
        raise ObjectsSkipped(changes)
    if run.why_kueue_stays:
        raise NotReady(run.why_kueue_stays, ())
    return changes


class _Run:
    """State of one apply: live objects, applied objects, and objects that are not ready yet."""

    def __init__(
        self,
        client: KubernetesClient,
        members: ApplySet,
        stack: str,
        live: Mapping[ObjectKey, Mapping[str, Any]],
        seen: Mapping[ObjectKey, str],
        progress: Progress,
    ) -> None:
        self._client = client
        self._members = members
        self._stack = stack
        self._live = live
        self._seen = seen
        self._waiter = Waiter(client, members, progress)
        self._awaited: dict[str, Awaited] = {}  # by URN
        self._first: set[str] = set()  # URNs of the Namespaces and CRDs in `_awaited`, which other objects need
        self._judges: list[ObjectKey] = []  # policies, quotas and classes that changed in this run
        self._judges_since = 0.0  # time of the last change to a policy, quota or class (monotonic clock)
        self.applied: set[ObjectKey] = set()
        self._new_namespaces: set[str] = set()  # Namespaces that this run created, which contain no old objects
        self.states: dict[ObjectKey, str] = {}  # `state_seen` of objects that need no further apply
        self.skipped: set[ObjectKey] = set()
        self.kept: set[ObjectKey] = set()  # Kueue's objects, if it still manages workloads
        self.why_kueue_stays = ""
        self.changes: list[Change] = []

    def apply_all(self, objects: Sequence[KubernetesObject]) -> None:
        """Apply objects in order. An object whose dependencies are not ready yet does not delay other objects."""
        left = list(objects)
        while left:
            waiting = {declared.record.urn for declared in left}
            blocked: list[KubernetesObject] = []
            for declared in left:
                if self._blockers(declared) or waiting.intersection(declared.record.dependencies):
                    blocked.append(declared)
                else:
                    self._apply(declared)
                    waiting.discard(declared.record.urn)
            if len(blocked) == len(left):
                self._wait_for_one({urn for declared in blocked for urn in self._blockers(declared)})
            left = blocked

    def _blockers(self, declared: KubernetesObject) -> set[str]:
        """Return the URNs of applied objects that must be ready before `declared` is applied."""
        needed = self._awaited.keys() & set(declared.record.dependencies)
        return needed if is_first(declared.key) else needed | self._first

    def _wait_for_one(self, urns: Collection[str]) -> None:
        awaited = {urn: self._awaited[urn] for urn in urns}
        ready = self._waiter.until_one_is_ready(awaited.values())
        for urn, item in awaited.items():
            if item.key in ready:
                del self._awaited[urn]
                self._first.discard(urn)

    def _apply(self, declared: KubernetesObject) -> None:
        declared = placed(self._client, declared)
        key, urn = declared.key, declared.record.urn
        change = self._admitted(declared)
        self.changes.append(change)
        if change.action is Action.SKIP:
            self.skipped.add(key)
            return
        if is_judge(key) and change.action is not Action.UNCHANGED:
            self._judges.append(key)
            self._judges_since = time.monotonic()
        if is_awaited(declared.manifest):
            timeout = timeout_seconds(declared, "create" if change.action is Action.CREATE else "update")
            self._awaited[urn] = Awaited(key, declared.api_version, time.monotonic(), timeout)
            if is_first(key):
                self._first.add(urn)

    def _admitted(self, declared: KubernetesObject) -> Change:
        """Apply an object. If a policy, quota or class that this run has just changed refuses the object, retry
        for a few seconds.
        """
        while True:
            try:
                return self._apply_object(declared)
            except Refused as refusal:
                late = time.monotonic() - self._judges_since > _JUDGES_SECONDS
                if late or not any(refused_by(refusal, declared.key.namespace, one) for one in self._judges):
                    raise
            time.sleep(_JUDGED_AGAIN_SECONDS)

    def wait(self) -> None:
        self._waiter.until_ready(self._awaited.values())
        self._awaited = {}
        if any(key.group == _POLICY_GROUP for key in self._judges):
            time.sleep(max(0.0, self._judges_since + POLICY_SECONDS - time.monotonic()))

    def prune(self) -> None:
        superfluous = [live for key, live in self._live.items() if key not in {*self.applied, *self.skipped}]
        of_kueue = kueue_itself(superfluous)
        self._delete([live for live in superfluous if live not in of_kueue])
        if of_kueue and (why := why_kueue_stays(self._client)):
            self.why_kueue_stays = why
            self.kept = {object_key(live) for live in of_kueue}
        elif of_kueue:
            self._delete(of_kueue)

    def _delete(self, lives: Iterable[Mapping[str, Any]]) -> None:
        self.changes.extend(kept_namespaces.prune(self._client, self._waiter, self._stack, lives))

    def _apply_object(self, declared: KubernetesObject) -> Change:
        """Create, update, replace or skip the object, and return the change."""
        key, manifest = declared.key, self._members.labelled(declared.manifest)
        if is_in_skipped_namespace(key, self.skipped):
            return Change(Action.SKIP, key, reason=NAMESPACE_SKIPPED)
        before = self._live.get(key) if key.namespace not in self._new_namespaces else None
        before = before or self._client.get(declared.api_version, key.kind, key.name, key.namespace)
        if before is not None and "deletionTimestamp" in before["metadata"]:
            if held := self._held(declared, before):
                return Change(Action.SKIP, key, reason=held)
            before = None
        if before is None:
            self._settled(declared, manifest, self._client.apply(manifest))
            if key.group_kind == "Namespace":
                self._new_namespaces.add(key.name)
            return Change(Action.CREATE, key)
        adopted = kept_namespaces.may_be_adopted(self._client, before, self._stack)
        if isinstance(adopted, str):
            return Change(Action.SKIP, key, reason=adopted)
        if not adopted and (foreign := self._members.owner_of(before)):
            return Change(Action.SKIP, key, reason=foreign)
        manifest = with_fields_of_others(declared, manifest, before)
        if not adopted and self._seen.get(key) == state_seen(manifest, before):
            self._settled(declared, manifest, before)
            return Change(Action.UNCHANGED, key)
        try:
            after = apply_over(self._client, manifest, before)
        except Refused as refusal:
            if not must_be_replaced(self._client, key, manifest, refusal, self._judges):
                raise
            self._client.delete(before)
            if held := self._held(declared, before):
                return Change(Action.SKIP, key, reason=held)
            after = self._client.apply(manifest)
            self._settled(declared, manifest, after)
            fields = field_changes(manifest, before, after, secret=holds_secrets(declared))
            return Change(Action.REPLACE, key, fields, refusal.message)
        self._applied(after)
        if adopted:
            kept_namespaces.release(self._client, before)
        fields = field_changes(manifest, before, after, secret=holds_secrets(declared))
        changed, notices = bool(fields), ()
        if not adopted and (drift := additions(self._client, after, manifest)):
            notices = tuple(drift_notices(after, drift))
            if grants_access(after):
                self._client.merge(removal(after, drift))
                changed = True
        elif not adopted:
            self._settled(declared, manifest, after)
        return Change(Action.UPDATE if changed else Action.UNCHANGED, key, fields, notices=notices)

    def _applied(self, live: Mapping[str, Any]) -> None:
        self.applied.add(object_key(live))

    def _settled(self, declared: KubernetesObject, manifest: Mapping[str, Any], live: Mapping[str, Any]) -> None:
        """Record an object that has exactly the applied state, without additions by others, so that the next run
        can skip it.
        """
        self._applied(live)
        if not holds_secrets(declared):  # a digest of a short secret would reveal the secret
            self.states[declared.key] = state_seen(manifest, live)

    def _held(self, declared: KubernetesObject, live: Mapping[str, Any]) -> str:
        """Wait until the object is deleted. Return why it still exists after the timeout, or an empty string.

        Only Namespaces and workloads take long to delete. Any other object that still exists has a finalizer.
        """
        timeout = timeout_seconds(declared, "delete")
        if not is_first(declared.key) and declared.key.group not in WORKLOAD_GROUPS:
            timeout = min(timeout, _HELD_SECONDS)
        try:
            self._waiter.until_deleted([live], timeout)
        except NotReady as error:
            (unready,) = error.unready
            return f"is being deleted, and the deletion does not finish: {unready.reason}"
        return ""


def drift_notices(live: Mapping[str, Any], drift: Sequence[Addition]) -> Iterator[str]:
    """Yield a notice for each addition that others made to an object."""
    removed = "; `up` removes it, because it grants access" if grants_access(live) else ""
    for addition in drift:
        yield f"{addition}{removed}"


def is_in_skipped_namespace(key: ObjectKey, skipped: Collection[ObjectKey]) -> bool:
    """Return whether the object's Namespace is among the skipped objects."""
    return bool(key.namespace) and ObjectKey("", "Namespace", "", key.namespace) in skipped


def must_be_replaced(
    client: KubernetesClient,
    key: ObjectKey,
    manifest: Mapping[str, Any],
    refusal: Refused,
    judges: Iterable[ObjectKey],
) -> bool:
    """Return whether the server refused a change to an immutable field of an otherwise valid object.

    A webhook, such as Kueue's, may refuse the change with the same message as the server. Namespaces and CRDs are
    never replaced, because this would delete all objects in them. `judges` are the policies, quotas and classes
    that this run changes. If one of them would refuse the new object, that refusal is raised.
    """
    immutable = refusal.status == 422 or (refusal.status == 403 and _IMMUTABLE in refusal.message)
    if not immutable or is_first(key):
        return False
    of_new = client.refusal_of_new(manifest)
    if of_new is not None and any(refused_by(of_new, key.namespace, judge) for judge in judges):
        raise of_new
    return of_new is None


def holds_secrets(declared: KubernetesObject) -> bool:
    """Return whether the object contains secrets, whose values must not appear in reports."""
    return declared.key.group_kind == "Secret" or declared.record.revealed_inputs is not None
