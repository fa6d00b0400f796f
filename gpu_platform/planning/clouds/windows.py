"""Type of reserved capacity of a pool, and when it exists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityWindow:
    """A reservation or capacity block. `starts`, `ends`: UTC, None where the stack file does not name them.

    `drain`: how long before `ends` its nodes are drained.
    """

    reservation: str
    zone: str
    starts: datetime | None = None
    ends: datetime | None = None
    drain: timedelta = timedelta()

    @property
    def drains(self) -> datetime | None:
        """When its nodes are drained."""
        return self.ends - self.drain if self.ends is not None else None

    @property
    def shown(self) -> str:
        """Start and end as a stack output has them: `2026-12-01T11:30:00Z/2026-12-14T11:30:00Z`."""
        return f"{utc_text(self.starts) or ''}/{utc_text(self.ends) or ''}"

    def has_begun(self, now: datetime) -> bool:
        """Return whether nodes can start in it; one without a declared start has begun."""
        return self.starts is None or self.starts <= now

    def has_ended(self, now: datetime) -> bool:
        """Return whether its nodes are drained, or gone."""
        return self.drains is not None and self.drains <= now

    def is_open(self, now: datetime) -> bool:
        """Return whether it can have nodes now."""
        return self.has_begun(now) and not self.has_ended(now)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, with times as text."""
        return {
            "reservation": self.reservation,
            "zone": self.zone,
            "starts": utc_text(self.starts),
            "ends": utc_text(self.ends),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedGroup:
    """A group of nodes of a cloud. `scheduled`: the capacity at whose start a schedule gives it its nodes."""

    name: str
    scheduled: CapacityWindow | None


def closed_text(windows: Iterable[CapacityWindow], now: datetime) -> str:
    """Return why a pool of these windows can have no nodes now; empty: it can, or it has no windows."""
    found = tuple(windows)
    if not found or any(window.is_open(now) for window in found):
        return ""
    coming = next((window for window in found if not window.has_begun(now)), None)
    if coming is not None:
        return f"{coming.reservation} has not begun: it begins at {utc_text(coming.starts)}"
    last = found[-1]
    return f"{last.reservation} has ended: its nodes were drained at {utc_text(last.drains)}"


def utc_text(when: datetime | None) -> str | None:
    """Return a time as the stack file has it: 2026-12-14T11:30:00Z."""
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if when is not None else None
