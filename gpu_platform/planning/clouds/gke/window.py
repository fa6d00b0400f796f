"""Convert the maintenance window in `changes` to the recurring maintenance window of a GKE cluster.

GKE's window has no time zone, and the days of a recurrence are UTC days. The GKE window therefore covers only the
hours that are inside the declared window both in summer and in winter. GKE requires 48 hours of maintenance
windows in any 92 days (32 days in older pages), and counts only windows of at least 4 contiguous hours towards
this requirement. One such window a week is enough.

Source: https://docs.cloud.google.com/kubernetes-engine/docs/how-to/maintenance-window, read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Set
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from gpu_platform.base.quantity import duration_text
from gpu_platform.planning.maintenance.section import DAYS, WindowPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import CreateGke

BYDAY: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_LEAST: Final = timedelta(hours=4)
_MONDAY: Final = datetime(2026, 1, 5, tzinfo=UTC)  # the first window may be in the past
_OWN_FIELDS: Final = {"start", "hours", "recurrence"}


def check_window(window: WindowPlan | None, create: CreateGke | None, problems: Problems) -> None:
    """Record why GKE cannot use the window. `problems` points to the root of the stack file."""
    if window is None or create is None:
        return
    here = problems.at("changes").at("window")
    own = sorted(_OWN_FIELDS & create.maintenance.model_fields_set)
    if own:
        problems.at("cluster.create.maintenance").at(own[0]).add(
            "a maintenance window in addition to changes.window",
            "only changes.window, which is also the cluster's maintenance window",
            f"remove {', '.join(own)}; exclusions can stay",
        )
    length = timedelta(seconds=window.seconds) - _shift(window.time_zone)
    if length < _LEAST:
        common = ""
        if _shift(window.time_zone):
            common = f", but only {duration_text(length.total_seconds())} are open in both summer and winter"
        here.at("duration").add(
            f"{duration_text(window.seconds)}{common}",
            "windows with at least 4 hours that are open in both summer and winter; GKE's window is in UTC, "
            "and shorter windows do not meet GKE's requirement",
            f"write duration: {-(-int((_LEAST + _shift(window.time_zone)).total_seconds()) // 3600)}h",
        )


def recurring_window(window: WindowPlan) -> tuple[datetime, datetime, str]:
    """Return the start and end of the first window in UTC, and the recurrence rule."""
    latest = min(_offsets(window.time_zone))
    hour, minute = map(int, window.start.split(":"))
    start = _MONDAY + timedelta(hours=hour, minutes=minute) - latest
    moved = (start.date() - _MONDAY.date()).days
    days = sorted((DAYS.index(day) + moved) % 7 for day in window.days)
    recurrence = f"FREQ=WEEKLY;BYDAY={','.join(BYDAY[day] for day in days)}"
    first = first_window(start.replace(year=_MONDAY.year, month=_MONDAY.month, day=_MONDAY.day), recurrence)
    length = timedelta(seconds=window.seconds) - _shift(window.time_zone)
    return first, first + length, recurrence


def days_of(recurrence: str) -> tuple[str, ...]:
    """Return the days of the week in a recurrence rule, or an empty tuple if it names none."""
    named = [part.removeprefix("BYDAY=") for part in recurrence.split(";") if part.startswith("BYDAY=")]
    return tuple(named[0].split(",")) if named else ()


def first_window(start: datetime, recurrence: str) -> datetime:
    """Return the first start that is on a day of the recurrence, as GKE requires for the first window."""
    days = days_of(recurrence)
    later = (start + timedelta(days=day) for day in range(7))
    return next((one for one in later if BYDAY[one.astimezone(UTC).weekday()] in days), start)


def _shift(time_zone: str) -> timedelta:
    """Return the daylight saving time offset, or 0 if the time zone has none."""
    offsets = _offsets(time_zone)
    return max(offsets) - min(offsets)


def _offsets(time_zone: str) -> Set[timedelta]:
    """Return the UTC offsets that occur in the time zone during a year."""
    zone = ZoneInfo(time_zone)
    days = (_MONDAY + timedelta(days=day) for day in range(0, 364, 7))
    return {day.astimezone(zone).utcoffset() or timedelta(0) for day in days}
