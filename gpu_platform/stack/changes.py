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
        raise wrong("15m to 24h", "for example, write 4h; for a longer window, list several days")
    return value


class Window(SpecModel):
    """Maintenance window, during which nodes may be rolled, replaced or removed."""

    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7)]
    """Days on which the window opens."""
    start: Clock = Field(examples=["22:00"])
    """Time of day at which the window opens, in `time_zone`."""
    duration: Annotated[Duration, AfterValidator(_window_length)]
    """How long the window is open, from 15m to 24h. Adjacent windows form a single window."""
    time_zone: TimeZone = "UTC"
    """IANA time zone of `days` and `start`. Daylight saving time is taken into account."""


class Changes(SpecModel):
    """When `up` may change nodes, and how many at a time."""

    window: Window | None = None
    """Maintenance window. Outside the window, `up` refuses changes that roll, replace or remove nodes, unless
    --outside-window is given. If unset, such changes are allowed at any time. On GKE, the program also sets this
    window as the maintenance window of a cluster that it creates.
    """
    max_unavailable: int | None = Field(default=None, ge=1, le=1000)
    """Maximum number of nodes in all pools that may be out of service at the same time while `up` changes MIG
    layouts. `sharing.max_unavailable` of each pool applies in addition, and no pool may set a larger
    `max_unavailable` than this. If no pool sets `upgrade.max_unavailable`, the GPU Operator upgrades the driver on
    this number of nodes at the same time. If unset, only the limits of the pools apply, and drivers are upgraded
    one node at a time.
    """
