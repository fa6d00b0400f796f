"""Types for the clean-up plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """The CronJob that cleans up team namespaces. Ages are in seconds, and None means that the clean-up does not
    look for objects of this kind.

    `teams` maps each namespace to the names of the workloads that the stack file declares in it.
    """

    image: str
    namespace: str
    schedule: str
    delete: bool
    finished_after: int | None
    idle_after: int | None
    prometheus: str | None
    teams: Mapping[str, tuple[str, ...]]
