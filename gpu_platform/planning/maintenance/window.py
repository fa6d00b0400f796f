"""Decide whether a maintenance window is open at a given time, and when it opens next.

Days and time of day are local: a window in Berlin opens at 22:00 in summer and in winter. Its duration is elapsed
time: 4 hours are 4 hours even on the night when the clocks change. A time that the clocks skip is interpreted with
the offset before the change (PEP 495, fold 0). All arguments and results have a time zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from gpu_platform.base.quantity import duration_text
from gpu_platform.planning.maintenance.section import DAYS, WindowPlan

# Openings are computed for this number of days before and after a time.
# More days are not needed: a window is open for at most a day, and a time zone is less than a day from UTC.
_DAYS_BEFORE, _DAYS_AFTER = 3, 9


def open_until(window: WindowPlan, at: datetime) -> datetime | None:
    """Return when the window that is open at `at` closes, or None if it is not open. At the returned time, the
    window is already closed.
    """
    return next((end for start, end in _merged(window, at) if start <= at < end), None)


def opens_next(window: WindowPlan, at: datetime) -> datetime:
    """Return the first time after `at` at which the window opens, in UTC."""
    return next(start for start, _ in _merged(window, at) if start > at)


def window_text(window: WindowPlan) -> str:
    """Describe a window, such as `sat, sun 22:00 for 4 h (Europe/Berlin)`."""
    days = "daily" if len(set(window.days)) == len(DAYS) else ", ".join(window.days)
    return f"{days} {window.start} for {duration_text(window.seconds)} ({window.time_zone})"


def time_text(window: WindowPlan, at: datetime) -> str:
    """Return a time in a window's time zone and in UTC: `Sat 2026-11-28 22:00 Europe/Berlin (21:00 UTC)`."""
    local, utc = at.astimezone(ZoneInfo(window.time_zone)), at.astimezone(UTC)
    text = f"{local:%a %Y-%m-%d %H:%M} {window.time_zone}"
    if window.time_zone == "UTC":
        return text
    return f"{text} ({utc:%H:%M} UTC)" if local.date() == utc.date() else f"{text} ({utc:%a %Y-%m-%d %H:%M} UTC)"


def _merged(window: WindowPlan, at: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield opening and closing times around `at` in UTC. Adjacent or overlapping windows are merged."""
    current: tuple[datetime, datetime] | None = None
    for start, end in _openings(window, at):
        if current is None:
            current = start, end
        elif start <= current[1]:
            current = current[0], max(current[1], end)
        else:
            yield current
            current = start, end
    if current is not None:
        yield current


def _openings(window: WindowPlan, at: datetime) -> Iterator[tuple[datetime, datetime]]:
    zone = ZoneInfo(window.time_zone)
    today = at.astimezone(zone).date()
    days = {DAYS.index(day) for day in window.days}
    for offset in range(-_DAYS_BEFORE, _DAYS_AFTER):
        day: date = today + timedelta(days=offset)
        if day.weekday() in days:
            start = datetime.combine(day, time.fromisoformat(window.start), tzinfo=zone).astimezone(UTC)
            yield start, start + timedelta(seconds=window.seconds)
