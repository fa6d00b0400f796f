"""Decides which objects of a namespace are cleaned up. All functions are pure.

Some objects are never cleaned up: objects that a controller owns, that the stack file declares, that are already
being deleted, or that have the label `gpu-platform.dev/cleanup: never`, and StatefulSets whose claims are deleted
with them. Volumes and claims are not among the kinds, because data is not cleaned up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpu_platform.base.names import CLEANUP_LABEL, EXPIRES_LABEL, IDLE_LABEL
from gpu_platform.cleanup.kinds import KINDS, POD, REPLICA_SET, Kind, Object, ended_at, status_of, time_of

NEVER = "never"
_BUSY = 0.01  # share of a GPU's time; a pod that uses less is idle

Objects = Mapping[Kind, Sequence[Object]]
Activity = Mapping[str, float]
"""Maximum share of GPU time that each pod used in the window, by pod name."""


@dataclass(frozen=True)
class Settings:
    """Settings of the CronJob. Ages are in seconds. A check whose age is None is skipped."""

    delete: bool = False
    finished_after: int | None = None
    idle_after: int | None = None
    prometheus: str | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Settings:
        """Return the settings in the mounted file."""
        names = ("delete", "finished_after", "idle_after", "prometheus")
        return cls(**{name: data[name] for name in names if name in data})


@dataclass(frozen=True)
class Finding:
    """An object to delete, with the rule that applies and the reason."""

    kind: Kind
    live: Object
    rule: str
    why: str


def find(
    objects: Objects, declared: Sequence[str], settings: Settings, activity: Activity | None, now: datetime
) -> tuple[list[Finding], list[str]]:
    """Return the objects to clean up in one namespace, and what could not be checked.

    `declared` are the names of the stack file's workloads. `activity` is None if it could not be read.
    """
    found: dict[str, Finding] = {}
    problems: list[str] = []
    for kind in KINDS:
        for live in objects.get(kind, ()):
            if _is_spared(live, declared):
                continue
            finding = _finished(kind, live, settings, now) or _expired(kind, live, now, problems)
            if finding is not None:
                found[live["metadata"]["uid"]] = finding
    if settings.idle_after is not None:
        for finding in _idle(objects, declared, settings.idle_after, activity, now, problems):
            found.setdefault(finding.live["metadata"]["uid"], finding)
    return list(found.values()), problems


def _is_spared(live: Object, declared: Sequence[str]) -> bool:
    metadata = live["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        or metadata["name"] in declared
        or _labels(live).get(CLEANUP_LABEL) == NEVER
        or any(owner.get("controller") for owner in metadata.get("ownerReferences") or ())
        or _deletes_claims(live)
    )


def _deletes_claims(live: Object) -> bool:
    """Return whether the object is a StatefulSet whose claims, and so its data, are deleted with it."""
    spec: Object = live.get("spec") or {}
    retention: Object = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    return retention.get("whenDeleted") == "Delete"


def _labels(live: Object) -> Mapping[str, str]:
    return live["metadata"].get("labels") or {}


def _finished(kind: Kind, live: Object, settings: Settings, now: datetime) -> Finding | None:
    if settings.finished_after is None:
        return None
    ended = ended_at(kind, live)
    if ended is None or now - ended < timedelta(seconds=settings.finished_after):
        return None
    return Finding(kind, live, "finished", f"it ended {_ago(now - ended)} ago")


def _expired(kind: Kind, live: Object, now: datetime, problems: list[str]) -> Finding | None:
    text = _labels(live).get(EXPIRES_LABEL)
    if text is None:
        return None
    try:
        last = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        place = f"{kind.name} {live['metadata']['namespace']}/{live['metadata']['name']}"
        problems.append(f"{place}: label {EXPIRES_LABEL}: found {text!r}; allowed: a date such as 2026-12-31")
        return None
    if now < last + timedelta(days=1):
        return None
    return Finding(kind, live, "expired", f"its label {EXPIRES_LABEL} is {text}")


def _idle(
    objects: Objects,
    declared: Sequence[str],
    idle_after: int,
    activity: Activity | None,
    now: datetime,
    problems: list[str],
) -> Iterator[Finding]:
    """Yield the objects with the idle label whose pods have all left their GPUs idle for `idle_after` seconds."""
    pods = [pod for pod in objects.get(POD, ()) if status_of(pod).get("phase") not in ("Succeeded", "Failed")]
    labelled = any(_may_be_idle(pod) for pod in pods)
    if labelled and activity is None:
        problems.append("idle GPUs: Prometheus did not answer, so nothing counts as idle")
        return
    top: dict[str, tuple[Kind, Object, list[Object]]] = {}
    for pod in pods:
        kind, live = _top(objects, POD, pod)
        top.setdefault(live["metadata"]["uid"], (kind, live, []))[2].append(pod)
    long_enough = timedelta(seconds=idle_after)
    for kind, live, its_pods in top.values():
        if _is_spared(live, declared):
            continue
        if all(_may_be_idle(pod) and _is_idle(pod, activity or {}, now - long_enough) for pod in its_pods):
            yield Finding(kind, live, "idle", f"its pods have left their GPUs idle for {_ago(long_enough)}")


def _may_be_idle(pod: Object) -> bool:
    return _labels(pod).get(IDLE_LABEL) == "true" and status_of(pod).get("phase") == "Running"


def _is_idle(pod: Object, activity: Activity, since: datetime) -> bool:
    """Return whether a pod has been running since `since` and has left its GPUs idle. A pod without metrics does
    not count as idle.
    """
    used = activity.get(pod["metadata"]["name"])
    started = pod["status"].get("startTime") or pod["metadata"]["creationTimestamp"]
    return used is not None and used < _BUSY and time_of(started) <= since


def _top(objects: Objects, kind: Kind, live: Object) -> tuple[Kind, Object]:
    """Return the object that members created, by following the owner references from controller to controller."""
    for owner in live["metadata"].get("ownerReferences") or ():
        for other in (*KINDS, REPLICA_SET):
            if owner.get("controller") and owner.get("kind") == other.name:
                for candidate in objects.get(other, ()):
                    if candidate["metadata"]["uid"] == owner["uid"]:
                        return _top(objects, other, candidate)
    return kind, live


def _ago(age: timedelta) -> str:
    hours = int(age.total_seconds() // 3600)
    if hours < 1:
        return f"{int(age.total_seconds() // 60)} min"
    return f"{hours} h" if hours < 72 else f"{hours // 24} days"
