"""Stack file field `pools[].schedule`: when a pool has nodes, where it has none at night and at weekends."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from gpu_platform.stack._types import SpecModel, wrong
from gpu_platform.stack.clock import Clock, Day, TimeZone


class PoolSchedule(SpecModel):
    """When a pool has its nodes: on `days` from `start` to `stop`. Else it is off, and has none."""

    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7)] = ("mon", "tue", "wed", "thu", "fri")
    """Days on which it starts; unset: Monday to Friday."""
    start: Clock = Field(examples=["07:00"])
    """Time of day at which its nodes are started, in `time_zone`."""
    stop: Clock = Field(examples=["20:00"])
    """Time of day, after `start`, at which its nodes are drained and terminated."""
    time_zone: TimeZone = "UTC"
    """IANA time zone of `days`, `start` and `stop`; daylight saving time is followed."""
    stops_work: bool = False
    """Accept that jobs and services are stopped at `stop`: pools that are not for development need it."""

    @model_validator(mode="after")
    def _ordered(self) -> PoolSchedule:
        if self.stop <= self.start:
            raise wrong("a stop after start on the same day", "write for example start: '07:00', stop: '20:00'")
        return self
