"""Type of what ends pods on the nodes of a pool, whatever the pods declare."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_platform.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnding:
    """One reason why pods end.

    `after`: the most seconds that a pod runs, None if the time is not known; `notice`: the most seconds from
    SIGTERM to SIGKILL, None if only the pod limits them.
    """

    why: str
    after: int | None = None
    notice: int | None = None


def reclaimed(platform: str, catalog: Catalog) -> PodEnding:
    """Return how pods end on spot nodes that the cloud takes back."""
    return PodEnding(
        why="the cloud takes spot nodes back", notice=catalog.drain_limits[platform, "reclaim"].seconds
    )
