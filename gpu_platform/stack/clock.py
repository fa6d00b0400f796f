"""Types for days, times of day and time zones in the stack file."""

from __future__ import annotations

import re
import zoneinfo
from typing import Annotated, Literal

from pydantic import AfterValidator

from gpu_platform.base.errors import did_you_mean
from gpu_platform.stack._types import wrong

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _clock(value: str) -> str:
    if not _CLOCK.fullmatch(value):
        raise wrong("a time of day from 00:00 to 23:59", "for example, write 22:00")
    return value


def _time_zone(value: str) -> str:
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = zoneinfo.available_timezones()
        hint = "" if known else "this machine has no time zone database: pip install tzdata"
        raise wrong(
            "a time zone of the IANA database such as Europe/Berlin or UTC", hint or did_you_mean(value, known)
        ) from None
    return value


Clock = Annotated[str, AfterValidator(_clock)]
"""A time of day such as `22:00`."""
TimeZone = Annotated[str, AfterValidator(_time_zone)]
"""A time zone name from the IANA database, such as `Europe/Berlin`."""
