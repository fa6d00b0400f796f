"""How long the containers of a simulated pod run, and how they end. The functions are pure, and the current time
is an argument.

KWOK sets a pod to running and does not terminate it. This module terminates the pods of Jobs, and the pods with an
annotation that describes their end. As with a real kubelet, the pod's restartPolicy determines whether its
containers start again.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gpu_platform.base import names
from sandbox.simulator.kube import Object

DEFAULT_SECONDS: Final = 1.0
"""Run time of a container if its command does not contain a duration."""
INVALID: Final = "InvalidAnnotation"
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}  # suffixes of `sleep` in GNU coreutils and busybox
_SLEEP: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_SHELLS: Final = ("sh", "bash", "ash", "dash")
_ANNOTATIONS: Final = (
    names.SANDBOX_RUN_SECONDS_ANNOTATION,
    names.SANDBOX_EXIT_CODE_ANNOTATION,
    names.SANDBOX_EXIT_REASON_ANNOTATION,
)


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a pod's containers. After `seconds`, the first container ends with `exit_code` and all other
    containers end with 0.

    If `seconds` is infinite, the containers never end.
    """

    seconds: float
    exit_code: int = 0
    reason: str = "Completed"
    message: str = ""


class InvalidAnnotation(Exception):
    """An annotation cannot be parsed. The message contains its name, its value and the allowed values."""


def ending_of(pod: Object) -> Ending | None:
    """Return how the containers of a pod end, or None if they run until the pod is deleted.

    If an annotation cannot be parsed, the pod ends immediately with exit code 128 and the reason
    `InvalidAnnotation`.
    """
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    if not _belongs_to_job(pod) and not any(name in annotations for name in _ANNOTATIONS):
        return None
    try:
        seconds, code = _run_seconds(pod, annotations), _exit_code(annotations)
    except InvalidAnnotation as problem:
        return Ending(0.0, exit_code=128, reason=INVALID, message=str(problem))
    default = "Error" if code else "Completed"
    return Ending(seconds, code, annotations.get(names.SANDBOX_EXIT_REASON_ANNOTATION) or default)


def _belongs_to_job(pod: Object) -> bool:
    owners: Sequence[Mapping[str, Any]] = pod["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] == "Job" for owner in owners)


def _run_seconds(pod: Object, annotations: Mapping[str, str]) -> float:
    text = annotations.get(names.SANDBOX_RUN_SECONDS_ANNOTATION)
    if text is None:
        return max(command_seconds(container) for container in pod["spec"]["containers"])
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise InvalidAnnotation(
            f"annotation {names.SANDBOX_RUN_SECONDS_ANNOTATION}: {text!r} is not a number of seconds, such as 600"
        )
    return seconds


def _exit_code(annotations: Mapping[str, str]) -> int:
    text = annotations.get(names.SANDBOX_EXIT_CODE_ANNOTATION, "0")
    if not text.isdecimal() or not 0 <= int(text) <= 255:
        raise InvalidAnnotation(
            f"annotation {names.SANDBOX_EXIT_CODE_ANNOTATION}: {text!r} is not an exit code, 0 to 255"
        )
    return int(text)


def command_seconds(container: Mapping[str, Any]) -> float:
    """Return how many seconds a container's command takes if it only runs `sleep 10m`, directly or with `sh -c`.

    The result is infinite for `sleep infinity`, and DEFAULT_SECONDS for every other command. Without `command`,
    the image determines the program, so `args` are not enough.
    """
    command: Sequence[str] = container.get("command") or ()
    args: Sequence[str] = container.get("args") or ()
    words: list[str] = [*command, *args] if command else []
    if len(words) == 3 and _program(words[0]) in _SHELLS and words[1] == "-c":
        try:
            # A shell would interpret or expand these characters.
            words = [] if re.search(r"[^\w\s./]", words[2]) else shlex.split(words[2])
        except ValueError:
            words = []
    if len(words) != 2 or _program(words[0]) != "sleep":
        return DEFAULT_SECONDS
    if words[1] in ("infinity", "inf"):
        return math.inf
    match = _SLEEP.fullmatch(words[1])
    return float(match[1]) * _UNITS[match[2]] if match else DEFAULT_SECONDS


def _program(path: str) -> str:
    return path.rpartition("/")[2]


def seconds_left(pod: Object, ending: Ending, now: datetime) -> float:
    """Return the seconds until the containers of a running pod end. A value of 0 or less means that they have
    ended.
    """
    started = max(
        datetime.fromisoformat(status["state"]["running"]["startedAt"])
        for status in pod["status"]["containerStatuses"]
        if "running" in status.get("state", {})
    )
    if math.isinf(ending.seconds):
        return math.inf
    return (started + timedelta(seconds=ending.seconds) - now).total_seconds()


def ended_status(pod: Object, ending: Ending, now: datetime) -> dict[str, Any]:
    """Return the status of a pod whose containers end now, as a strategic merge patch.

    The kubelet restarts the containers with the restartPolicy `Always`, and with `OnFailure` if at least one has
    failed. (A real kubelet restarts only the failed containers, after a growing delay. The simulation restarts all
    containers immediately.)
    """
    policy = pod["spec"].get("restartPolicy", "Always")
    again = ending.reason != INVALID and (policy == "Always" or (policy == "OnFailure" and ending.exit_code != 0))
    time = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    statuses: list[dict[str, Any]] = []
    for index, before in enumerate(pod["status"]["containerStatuses"]):
        ended = _terminated(before, ending if index == 0 else Ending(0.0), time)
        status = dict(before)  # a full copy, because the patch replaces the whole list
        if again:
            count = before.get("restartCount", 0) + 1
            status |= {"restartCount": count, "lastState": ended, "state": {"running": {"startedAt": time}}}
        else:
            status |= {"ready": False, "started": False, "state": ended}
        statuses.append(status)
    if again:
        return {"containerStatuses": statuses}
    failed = ending.exit_code != 0
    why = "PodFailed" if failed else "PodCompleted"
    conditions = [
        {"type": kind, "status": "False", "reason": why, "lastTransitionTime": time}
        for kind in ("PodReadyToStartContainers", "ContainersReady", "Ready")
    ]
    whole = {"reason": INVALID, "message": ending.message} if ending.reason == INVALID else {}
    return {
        "phase": "Failed" if failed else "Succeeded",
        **whole,
        "conditions": conditions,
        "containerStatuses": statuses,
    }


def _terminated(before: Mapping[str, Any], ending: Ending, time: str) -> dict[str, Any]:
    started = before.get("state", {}).get("running", {}).get("startedAt", time)
    terminated = {
        "exitCode": ending.exit_code,
        "reason": ending.reason,
        "startedAt": started,
        "finishedAt": time,
    }
    return {"terminated": {**terminated, **({"message": ending.message} if ending.message else {})}}
