"""Type of what ends pods on the nodes of a pool, whatever the pods declare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.windows import CapacityWindow


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


def window_endings(windows: Iterable[CapacityWindow], why: str, notice: int | None) -> tuple[PodEnding, ...]:
    """Return how the ends of reserved capacity end pods, or nothing if none of it ends.

    A pod runs as long as the longest of it, if the stack file names all starts and ends.
    """
    ending = [window for window in windows if window.drain or window.ends is not None]
    if not ending:
        return ()
    lengths = [
        int((window.drains - window.starts).total_seconds())
        for window in ending
        if window.drains is not None and window.starts is not None
    ]
    return (PodEnding(why=why, after=max(lengths) if len(lengths) == len(ending) else None, notice=notice),)
