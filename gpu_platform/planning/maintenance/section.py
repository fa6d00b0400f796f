"""Types for node change plans: the maintenance window, and the limit on nodes out of service."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def in_order(days: Collection[str]) -> tuple[str, ...]:
    """Return the unique days in the order of the week."""
    return tuple(day for day in DAYS if day in days)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """A maintenance window.

    `days` are the weekdays on which it opens, named as in DAYS. `start` is a local time such as `22:00` in
    `time_zone` (IANA).
    """

    days: tuple[str, ...]
    start: str
    seconds: int
    time_zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPlan:
    """The time in which nodes may be changed, and the number of nodes that may be out of service at once. None
    means any time or no limit.
    """

    window: WindowPlan | None = None
    max_unavailable: int | None = None
