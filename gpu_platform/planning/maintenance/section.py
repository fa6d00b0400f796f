"""Types of the plan of changes: the maintenance window, and the limit of nodes out of service."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def in_order(days: Collection[str]) -> tuple[str, ...]:
    """Return days in the order of the week, each once."""
    return tuple(day for day in DAYS if day in days)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """A maintenance window. `days`: names of DAYS on which it opens; `start`: `22:00` in `time_zone` (IANA)."""

    days: tuple[str, ...]
    start: str
    seconds: int
    time_zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPlan:
    """When nodes may be changed, and how many may be out of service at a time; None: at any time, no limit."""

    window: WindowPlan | None = None
    max_unavailable: int | None = None
