"""What the lookups of all clouds share: answers that are kept, and findings about clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from gpu_platform.base.errors import Problem
from gpu_platform.online.finding import OnlineFinding, Severity

_T = TypeVar("_T")


class Answers:
    """Answers of a cloud by name. Each question is asked once, unless the cloud does not answer."""

    def __init__(self) -> None:
        self._found: dict[str, object] = {}

    def kept(self, name: str, ask: Callable[[], _T]) -> _T:
        """Return the answer to a question. All answers under one name have the same type."""
        if name not in self._found:
            self._found[name] = ask()
        return cast("_T", self._found[name])


def no_cluster(cluster: str, service: str, where: str, field: str) -> OnlineFinding:
    """Return a finding about an existing cluster that the cloud does not have. `field` contains `where`."""
    return OnlineFinding(
        looked_at=f"existing cluster {cluster}",
        severity="stops",
        found=f"no {service} cluster of this name in {where}",
        why="the stack file has no cluster.create, so the cluster must exist",
        fix=f"correct cluster.name and {field}, or add cluster.create",
    )


def problem_finding(looked_at: str, problem: Problem, severity: Severity = "stops") -> OnlineFinding:
    """Convert a problem from a check in planning to a finding."""
    return OnlineFinding(
        looked_at=looked_at,
        severity=severity,
        found=f"{problem.path}: {problem.found}",
        why=f"allowed: {problem.allowed}",
        fix=problem.fix,
    )
