"""Stack file field `changes`: when `up` may change nodes, and how many at a time."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from gpu_platform.base.quantity import parse_duration
from gpu_platform.stack._types import Duration, SpecModel, wrong
from gpu_platform.stack.clock import Clock, Day, TimeZone

_LEAST_SECONDS, _MOST_SECONDS = 15 * 60, 24 * 3600


def _window_length(value: str) -> str:
    if not _LEAST_SECONDS <= parse_duration(value) <= _MOST_SECONDS:
        raise wrong("15m to 24h", "write for example 4h; longer windows have several days")
    return value


class Window(SpecModel):
    """Maintenance window: when nodes may be rolled, replaced or removed."""

    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7)]
    """Days on which it opens."""
    start: Clock = Field(examples=["22:00"])
    """Time of day at which it opens, in `time_zone`."""
    duration: Annotated[Duration, AfterValidator(_window_length)]
    """How long it is open, 15m to 24h. Windows that meet are one."""
    time_zone: TimeZone = "UTC"
    """IANA time zone of `days` and `start`; daylight saving time is followed."""


class Changes(SpecModel):
    """When `up` may change nodes, and how many at a time."""

    window: Window | None = None
    """Outside it `up` refuses changes that roll, replace or remove nodes, unless --outside-window is given. Unset:
    at any time. On GKE it is the maintenance window of a cluster that the program creates."""
    max_unavailable: int | None = Field(default=None, ge=1, le=1000)
    """Nodes of all pools together that may be out of service while `up` changes MIG layouts, beside
    `sharing.max_unavailable` of each pool; also the most that a pool's own `max_unavailable` may be. Where no pool
    has `upgrade.max_unavailable`, so many nodes get another driver of the operator's at a time. Unset: no limit
    beside those of the pools, and one driver at a time."""
