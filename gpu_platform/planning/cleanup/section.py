"""Types of the clean-up plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """The CronJob of the clean-up. Ages are in seconds. None means that the clean-up does not look for such
    objects.

    `teams` contains the names of the workloads that the stack file declares, by namespace.
    """

    image: str
    namespace: str
    schedule: str
    delete: bool
    finished_after: int | None
    idle_after: int | None
    prometheus: str | None
    teams: Mapping[str, tuple[str, ...]]
