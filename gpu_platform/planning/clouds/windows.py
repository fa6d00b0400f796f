"""Reserved capacity of a pool, and the time during which it is available."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityWindow:
    """A capacity reservation or capacity block.

    `starts` and `ends` are in UTC, or None if the stack file does not contain them. `drain` is how long before
    `ends` the nodes are drained.
    """

    reservation: str
    zone: str
    starts: datetime | None = None
    ends: datetime | None = None
    drain: timedelta = timedelta()

    @property
    def drains(self) -> datetime | None:
        """Time at which the nodes are drained, or None if the capacity has no known end."""
        return self.ends - self.drain if self.ends is not None else None

    @property
    def shown(self) -> str:
        """Start and end in the format of stack outputs: `2026-12-01T11:30:00Z/2026-12-14T11:30:00Z`."""
        return f"{utc_text(self.starts) or ''}/{utc_text(self.ends) or ''}"

    def has_begun(self, now: datetime) -> bool:
        """Return whether nodes can already use the capacity. Capacity without a declared start is treated as
        available.
        """
        return self.starts is None or self.starts <= now

    def has_ended(self, now: datetime) -> bool:
        """Return whether the drain of the nodes has started, or the capacity has ended."""
        return self.drains is not None and self.drains <= now

    def is_open(self, now: datetime) -> bool:
        """Return whether nodes can use the capacity at `now`."""
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
    """A node group in the cloud.

    When the reserved capacity `scheduled` starts, a schedule sets the group's size.
    """

    name: str
    scheduled: CapacityWindow | None


def closed_text(windows: Iterable[CapacityWindow], now: datetime) -> str:
    """Return why a pool with this reserved capacity can have no nodes at `now`, or an empty string if it can have
    nodes.

    A pool without reserved capacity can always have nodes.
    """
    found = tuple(windows)
    if not found or any(window.is_open(now) for window in found):
        return ""
    coming = next((window for window in found if not window.has_begun(now)), None)
    if coming is not None:
        return f"{coming.reservation} has not begun; it begins at {utc_text(coming.starts)}"
    last = found[-1]
    return f"{last.reservation} has ended; its nodes were drained at {utc_text(last.drains)}"


def utc_text(when: datetime | None) -> str | None:
    """Return a time in the format of the stack file, such as 2026-12-14T11:30:00Z."""
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if when is not None else None
