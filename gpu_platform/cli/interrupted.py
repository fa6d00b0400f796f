"""Prints the state of the stack and how to continue when a signal or a time limit interrupts `up` or `destroy`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from gpu_platform.base import interruption
from gpu_platform.base.errors import BadInput, Finding, GpuPlatformError, Problem
from gpu_platform.base.progress import Progress
from gpu_platform.base.quantity import duration_text, parse_duration
from gpu_platform.deploy.rollout.annotations import rollout_annotation
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.connection import Limits
from gpu_platform.planning import Plan

_LIMITS = Limits(connect=3, read=5, total=10)  # short, because the user is waiting for the command to end


class TimedOut(Finding):
    """The command reached its time limit. Changes already made are kept, and the next run continues from there."""


def parse_timeout(text: str | None) -> int | None:
    """Return the value of `--timeout` in seconds, or None if it is not set. Raises BadInput if the
    value is not a duration of at least 1 s.
    """
    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0
    if seconds > 0:
        return seconds
    fix = f"write {text}s, {text}m or {text}h" if text.isdecimal() and int(text) else "for example, write 45m"
    problem = Problem("--timeout", repr(text), "a duration of at least 1s, such as 90s, 45m or 1h30m", fix)
    raise BadInput("--timeout", [problem])


@contextmanager
def time_limit(seconds: int | None) -> Generator[None]:
    """Raise TimedOut if the body takes longer than `seconds`. None sets no limit."""
    try:
        with interruption.limited(seconds):
            yield
    except KeyboardInterrupt:
        if seconds is None or not interruption.is_timeout():
            raise
        state = interruption.explanation() or "no part of the stack was changed"
        raise TimedOut(f"not finished within {duration_text(seconds)}: {state}") from None


@contextmanager
def explained(command: str, plan: Plan, cluster: ClusterAccess, progress: Progress) -> Generator[None]:
    """Explain an interruption of the body: the current step, the cordoned nodes, and how to continue with
    `command`.
    """
    try:
        yield
    except KeyboardInterrupt:
        state = f"interrupted while {progress.doing}" if progress.doing else "interrupted"
        go_on = f"run `{command}` to continue"
        interruption.explain(f"{state}\n{go_on}")  # in case a second signal arrives while the next line runs
        interruption.explain("\n".join([state, *_cordoned(plan, cluster), go_on]))
        raise


def _cordoned(plan: Plan, cluster: ClusterAccess) -> list[str]:
    """Return a line for each node that is cordoned for a MIG change by this stack."""
    if plan.kind != "environment":
        return []
    try:
        nodes = list(cluster.client().limited(_LIMITS).objects("v1", "Node"))
    except GpuPlatformError as error:
        return [f"it is unknown which nodes are cordoned: {str(error).splitlines()[0]}"]
    lines: list[str] = []
    for node in nodes:
        reason = rollout_annotation(node)
        if reason is not None and reason.stack == plan.stack:
            why = f", which failed: {reason.failure}" if reason.failure else ", which is not finished"
            lines.append(
                f"node {node['metadata']['name']} stays cordoned for its change to MIG config {reason.config}{why}"
            )
    return lines
