"""The schedule of a pool. It determines when the pool has nodes.

Days and times of day are local. A start time of 07:00 in Berlin means 07:00 local time in summer and in winter. A
pool is considered on from its start time to its stop time. After the stop time its last nodes may still be
draining, and after the start time its first nodes may still be starting.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from gpu_platform.planning.maintenance.section import DAYS, in_order
from gpu_platform.stack.pool_schedule import PoolSchedule

HOURS_OF_WEEK: Final = 7 * 24
DRAIN_SECONDS: Final = 15 * 60
"""Maximum time to drain the nodes when a pool stops, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePlan:
    """When a pool has nodes.

    `days` are names from DAYS, in that order. `start` and `stop` are times such as `07:00` in `time_zone`.
    """

    days: tuple[str, ...]
    start: str
    stop: str
    time_zone: str

    @property
    def hours(self) -> float:
        """Number of hours per week in which the pool has nodes."""
        start, stop = (time.fromisoformat(one) for one in (self.start, self.stop))
        return len(self.days) * ((stop.hour - start.hour) + (stop.minute - start.minute) / 60)

    @property
    def hours_text(self) -> str:
        """Hours per week in which the pool has nodes, as text such as `65 of 168 h a week`."""
        return f"{self.hours:.4g} of {HOURS_OF_WEEK} h a week"

    @property
    def share(self) -> float:
        """Fraction of the week in which the pool has nodes, above 0 and below 1."""
        return self.hours / HOURS_OF_WEEK

    def is_on(self, now: datetime) -> bool:
        """Return whether the pool has nodes at `now`, which must have a time zone."""
        local = now.astimezone(ZoneInfo(self.time_zone))
        return DAYS[local.weekday()] in self.days and self.start <= f"{local:%H:%M}" < self.stop

    def starts_next(self, now: datetime) -> datetime:
        """Return the first start after `now`, in the time zone of the schedule."""
        zone = ZoneInfo(self.time_zone)
        today = now.astimezone(zone).date()
        starts = (
            datetime.combine(today + timedelta(days=ahead), time.fromisoformat(self.start), tzinfo=zone)
            for ahead in range(8)
        )
        return next(one for one in starts if DAYS[one.weekday()] in self.days and one > now)

    def off_text(self, now: datetime) -> str:
        """Return why the pool has no nodes at `now`, or an empty string if it has nodes."""
        if self.is_on(now):
            return ""
        return (
            f"its schedule keeps the pool off until {self.starts_next(now):%a %Y-%m-%d %H:%M} ({self.time_zone})"
        )

    def __str__(self) -> str:
        return f"{days_text(self.days)} {self.start} to {self.stop} ({self.time_zone})"


def days_text(days: tuple[str, ...]) -> str:
    """Return days as text, such as `mon-fri`, `mon, wed` or `daily`. `days` must be in the order of DAYS."""
    if len(days) == len(DAYS):
        return "daily"
    first = DAYS.index(days[0])
    if len(days) > 2 and days == DAYS[first : first + len(days)]:
        return f"{days[0]}-{days[-1]}"
    return ", ".join(days)


def schedule_of(schedule: PoolSchedule | None) -> SchedulePlan | None:
    """Return the schedule from the stack file without repeated days, or None if the pool always has nodes."""
    if schedule is None:
        return None
    return SchedulePlan(
        days=in_order(schedule.days),
        start=schedule.start,
        stop=schedule.stop,
        time_zone=schedule.time_zone,
    )
