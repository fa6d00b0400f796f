"""List the times of a cron schedule in UTC, as the CronJob controller calculates them.

A day must match both day fields. If neither field begins with `*`, matching one of them is enough. Source:
robfig/cron v3, which the CronJob controller uses; read 2026-11-28.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from gpu_platform.planning.clouds.schedules import SchedulePlan
from gpu_platform.planning.maintenance.section import DAYS

_MONDAY: Final = datetime(2026, 1, 5, tzinfo=UTC)
_DAYS: Final = 366
_HALF_A_YEAR: Final = timedelta(days=182)
_LIMITS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def cron_times(schedule: str) -> Iterator[datetime]:
    """Yield the times at which a cron schedule starts jobs within a year."""
    fields = schedule.split(" ")
    minutes, hours, days, months, weekdays = map(_values, fields, _LIMITS)
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    for day in (_MONDAY + timedelta(days=number) for number in range(_DAYS)):
        matches = (day.day in days, day.isoweekday() % 7 in weekdays)
        if day.month in months and (any(matches) if either else all(matches)):
            for hour in hours:
                yield from (day.replace(hour=hour, minute=minute) for minute in minutes)


def cron_in(hours: SchedulePlan) -> str:
    """Return a cron schedule in UTC for jobs that run when a pool's schedule starts the pool.

    The cron schedule uses the UTC offset of standard time. During daylight saving time, its jobs run later than
    the pool's start instead of before it.
    """
    starts = (hours.starts_next(_MONDAY), hours.starts_next(_MONDAY + _HALF_A_YEAR))
    start = min(starts, key=lambda start: start.utcoffset() or timedelta())
    in_utc = start.astimezone(UTC)
    moved = (in_utc.date() - start.date()).days
    days = sorted((DAYS.index(day) + 1 + moved) % 7 for day in hours.days)
    return f"{in_utc.minute} {in_utc.hour} * * {'*' if len(days) == len(DAYS) else ','.join(map(str, days))}"


def _values(field: str, limits: tuple[int, int]) -> Collection[int]:
    """Return the values of one field, such as `*/15`, `1-5` or `0,30`, in ascending order."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        least, most = limits if span == "*" else (int(first), int(last or (limits[1] if step else first)))
        found.update(range(max(least, limits[0]), min(most, limits[1]) + 1, int(step or 1) or 1))
    return sorted(found)
