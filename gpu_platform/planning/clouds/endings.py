"""Reasons why pods on the nodes of a pool are terminated, whatever the pods declare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.windows import CapacityWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnding:
    """A reason why pods are terminated.

    `after` is the maximum time in seconds that a pod can run, or None if it is not known. `notice` is the maximum
    time in seconds from SIGTERM to SIGKILL, or None if only the pod's own grace period limits it.
    """

    why: str
    after: int | None = None
    notice: int | None = None


def reclaimed(platform: str, catalog: Catalog) -> PodEnding:
    """Return how pods on spot nodes are terminated when the cloud reclaims the nodes."""
    return PodEnding(why="the cloud reclaims spot nodes", notice=catalog.drain_limits[platform, "reclaim"].seconds)


def window_endings(windows: Iterable[CapacityWindow], why: str, notice: int | None) -> tuple[PodEnding, ...]:
    """Return how pods are terminated when reserved capacity ends, or an empty tuple if no reserved capacity ends.

    If the stack file contains every start and end, a pod can run for at most the duration of the longest
    reservation.
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
