"""Waits until objects are ready or deleted, and reports which objects it waits for and why."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base.errors import BadInput, Finding, Problem
from gpu_platform.base.progress import Progress
from gpu_platform.base.quantity import counted
from gpu_platform.deploy.embedded.applyset import ApplySet
from gpu_platform.deploy.recorded.objects import KubernetesObject
from gpu_platform.deploy.wait_report import WaitReport
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import WORKLOAD_GROUPS, ObjectKey, annotation, items_at, mapping_at, object_key
from gpu_platform.live.readiness import TIMEOUT_ANNOTATION, pod_trouble, unready_reason

DEFAULT_TIMEOUT_SECONDS: Final = 600.0  # Pulumi's default for most kinds
_POLL_SECONDS: Final = 0.25
_SLOW_POLL_SECONDS: Final = 1.0
_SLOW_AFTER_SECONDS: Final = 10.0
_PROGRESS_SECONDS: Final = 5.0  # time between two lookups of the reason why an object is not ready
_LIST_FROM: Final = 4  # with at least this many objects of a kind, one list request replaces individual reads
_MAX_DETAILS: Final = 4


@dataclass(frozen=True, slots=True)
class Unready:
    """An object that was not ready, or not deleted, in time."""

    key: ObjectKey
    waited_seconds: float
    reason: str
    details: tuple[str, ...] = ()  # pods, events

    def __str__(self) -> str:
        lines = [f"{self.key}: after {self.waited_seconds:.0f} s: {self.reason}"]
        return "\n".join([*lines, *(f"    {detail}" for detail in self.details)])


class NotReady(Finding):
    """Objects were not ready, or not deleted, in time. Applied objects are kept, and the next run continues from
    there.
    """

    def __init__(self, what: str, unready: Collection[Unready], withheld: str = "") -> None:
        self._what = what
        self.unready: tuple[Unready, ...] = tuple(unready)
        lines = [what, *(f"  - {item}" for item in self.unready), *([withheld] if withheld else [])]
        super().__init__("\n".join(lines))

    def withholding(self, withheld: str) -> NotReady:
        """Return a copy of this error with a message about the objects that were not applied because of it."""
        return NotReady(self._what, self.unready, withheld)


def timeout_seconds(declared: KubernetesObject, operation: str) -> float:
    """Return an object's timeout from `customTimeouts` of its resource or from its annotation, or the default."""
    if text := declared.record.timeouts.get(operation):
        return parse_duration(text, f"resource {declared.record.name!r}, timeout of {operation}")
    seconds = annotation(declared.manifest, TIMEOUT_ANNOTATION)
    return float(seconds) if seconds.isdigit() else DEFAULT_TIMEOUT_SECONDS


def parse_duration(text: str, place: str) -> float:
    """Convert a Go duration such as `1h30m` or `500ms` to seconds. Raises BadInput for any other format."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    if not re.fullmatch(r"(\d+(\.\d+)?(h|ms|m|s))+", text):
        raise BadInput("the program", [Problem(place, text, "a duration such as 15m or 1h30m")])
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)(h|ms|m|s)", text))


@dataclass(frozen=True, slots=True)
class Awaited:
    """An object to wait for, from `since` (monotonic clock) for at most `timeout`, both in seconds."""

    key: ObjectKey
    api_version: str
    since: float
    timeout: float


class Waiter:
    """Waits for objects of one stack, all at the same time."""

    def __init__(self, client: KubernetesClient, members: ApplySet, progress: Progress) -> None:
        self._client = client
        self._members = members
        self._progress = progress
        self._reported = 0.0
        self._waiting = WaitReport(progress)

    def until_ready(self, awaited: Collection[Awaited]) -> None:
        """Return when every object is ready. Raises NotReady when an object exceeds its timeout."""
        pending = list(awaited)
        while pending:
            ready = self.until_one_is_ready(pending)
            pending = [item for item in pending if item.key not in ready]

    def until_one_is_ready(self, awaited: Collection[Awaited]) -> set[ObjectKey]:
        """Return the ready objects as soon as at least one object is ready. All objects are polled together.

        Raises NotReady with the objects that have exceeded their timeout. Objects that are still within their
        timeout are only counted.
        """
        while True:
            pending = {item.key: item for item in awaited}
            reasons = self._reasons(pending)
            unready = {key: item for key, item in pending.items() if reasons[key]}
            now = time.monotonic()
            ready = pending.keys() - unready.keys()
            if unready:
                self._report(ready, unready, reasons, now)
            if ready:
                return set(ready)
            over = {key: item for key, item in unready.items() if now - item.since > item.timeout}
            if over:
                raise NotReady(
                    "not ready in time; applied objects are kept. Run the command again to continue:"
                    + (f" ({_more(len(unready) - len(over))})" if len(over) < len(unready) else ""),
                    [
                        Unready(key, now - item.since, reasons[key], tuple(self._details(item)))
                        for key, item in over.items()
                    ],
                )
            waited = now - min(item.since for item in unready.values())
            time.sleep(_POLL_SECONDS if waited < _SLOW_AFTER_SECONDS else _SLOW_POLL_SECONDS)

    def _report(
        self,
        ready: Collection[ObjectKey],
        unready: Mapping[ObjectKey, Awaited],
        reasons: Mapping[ObjectKey, str],
        now: float,
    ) -> None:
        """Print which workloads have become ready. At intervals, print which object has not been ready for
        longest, and why.
        """
        workloads = sorted(str(key) for key in ready if key.group in WORKLOAD_GROUPS)
        if workloads:
            self._progress.line(f"ready: {', '.join(workloads)}; {len(unready)} not ready yet")
        key, first = min(unready.items(), key=lambda entry: entry[1].since)
        if self._waiting.is_due(first.since, now) and now - self._reported >= _PROGRESS_SECONDS:
            self._reported = now
            detail = next(self._details(first), "")
            what = ": ".join(part for part in (str(key), reasons[key], detail) if part)
            more = f"; {_more(len(unready) - 1)}" if len(unready) > 1 else ""
            self._waiting.say(what + more, first.since, now)

    def until_deleted(self, lives: Collection[Mapping[str, Any]], timeout: float) -> None:
        """Return when all these live objects are deleted. Raises NotReady with the reasons after the timeout."""
        started = reported = time.monotonic()
        pending = {object_key(live): live for live in lives}
        while True:
            found = {key: self._same(live) for key, live in pending.items()}
            pending = {key: live for key, live in found.items() if live is not None}
            if not pending:
                return
            now = time.monotonic()
            if now - started > timeout:
                raise NotReady(
                    "not deleted in time; run the command again to continue:",
                    [Unready(key, now - started, _deletion_blocker(live)) for key, live in pending.items()],
                )
            if now - reported > _PROGRESS_SECONDS:
                reported = now
                key, live = next(iter(pending.items()))
                self._waiting.say(f"the deletion of {key}: {_deletion_blocker(live)}", started, now)
            time.sleep(_POLL_SECONDS if now - started < _SLOW_AFTER_SECONDS else _SLOW_POLL_SECONDS)

    def _same(self, live: Mapping[str, Any]) -> dict[str, Any] | None:
        """Read an object again. Return None if it was deleted, or if another object now has its name."""
        key = object_key(live)
        found = self._client.get(str(live["apiVersion"]), key.kind, key.name, key.namespace)
        return found if found and found["metadata"]["uid"] == live["metadata"]["uid"] else None

    def _reasons(self, pending: Mapping[ObjectKey, Awaited]) -> dict[ObjectKey, str]:
        nodes: list[dict[str, Any]] = []

        def all_nodes() -> Sequence[dict[str, Any]]:
            if not nodes:
                nodes.extend(self._client.objects("v1", "Node"))
            return nodes

        lives = self._read(pending)
        return {
            key: unready_reason(lives[key], all_nodes) if key in lives else "it does not exist" for key in pending
        }

    def _read(self, pending: Mapping[ObjectKey, Awaited]) -> dict[ObjectKey, dict[str, Any]]:
        by_kind: dict[tuple[str, str], list[ObjectKey]] = {}
        for key, item in pending.items():
            by_kind.setdefault((item.api_version, key.kind), []).append(key)
        lives: dict[ObjectKey, dict[str, Any]] = {}
        for (api_version, kind), keys in by_kind.items():
            if len(keys) >= _LIST_FROM:
                lives.update((object_key(live), live) for live in self._members.members_of_kind(api_version, kind))
            for key in keys:  # an object that has lost its label is not in the list
                if key not in lives and (live := self._client.get(api_version, kind, key.name, key.namespace)):
                    lives[key] = live
        return lives

    # -- why a workload is not ready -----------------------------------------------------------------------

    def _details(self, item: Awaited) -> Iterator[str]:
        key = item.key
        if key.group != "apps":
            return
        live = self._client.get(item.api_version, key.kind, key.name, key.namespace)
        if live is None:
            return
        labels = mapping_at(live, "spec", "selector", "matchLabels")
        selector = ",".join(f"{label}={value}" for label, value in labels.items())
        pods = self._client.objects("v1", "Pod", namespace=key.namespace, label_selector=selector)
        troubles = [f"{_place(pod)}: {why}" for pod in pods if (why := pod_trouble(pod))]
        yield from _shortened(troubles)
        if not troubles:
            yield from _shortened(list(self._warnings(key)))

    def _warnings(self, key: ObjectKey) -> Iterator[str]:
        """Yield the warning events of an object, and of the ReplicaSets of a Deployment, newest first."""
        events = self._client.objects("v1", "Event", namespace=key.namespace, field_selector="type=Warning")
        for event in sorted(events, key=lambda event: str(event["metadata"]["creationTimestamp"]), reverse=True):
            name = str(event["involvedObject"].get("name"))
            if name == key.name or (key.kind == "Deployment" and name.startswith(f"{key.name}-")):
                yield f"{event.get('reason')}: {event.get('message')}"


def _more(unready: int) -> str:
    return f"{counted(unready, 'more object')} {'is' if unready == 1 else 'are'} not ready yet"


def _place(pod: Mapping[str, Any]) -> str:
    node = mapping_at(pod, "spec").get("nodeName")
    return f"pod {pod['metadata']['name']}" + (f" on node {node}" if node else "")


def _deletion_blocker(live: Mapping[str, Any]) -> str:
    """Return why an object that is being deleted still exists."""
    reasons = [
        str(condition["message"])
        for condition in items_at(live, "status", "conditions")
        if condition["status"] == "True" and str(condition["type"]).startswith("Namespace")
    ]
    if not reasons:
        finalizers: list[str] = live["metadata"].get("finalizers") or []
        reasons = [f"finalizers {', '.join(finalizers)}"] if finalizers else []
    return "; ".join(reasons) or "it still exists"


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MAX_DETAILS]
    if len(lines) > _MAX_DETAILS:
        yield f"and {len(lines) - _MAX_DETAILS} more"
