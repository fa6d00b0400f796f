"""Stack file field `pools[].schedule`: when a pool has nodes, for pools that are off at night and at weekends."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from gpu_platform.stack._types import SpecModel, wrong
from gpu_platform.stack.clock import Clock, Day, TimeZone


class PoolSchedule(SpecModel):
    """Times at which a pool has nodes: on `days` from `start` to `stop`. At all other times, the pool is off and
    has no nodes.
    """

    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7)] = ("mon", "tue", "wed", "thu", "fri")
    """Days on which the pool starts. The default is Monday to Friday."""
    start: Clock = Field(examples=["07:00"])
    """Time of day at which the pool's nodes are started, in `time_zone`."""
    stop: Clock = Field(examples=["20:00"])
    """Time of day, after `start`, at which the pool's nodes are drained and terminated."""
    time_zone: TimeZone = "UTC"
    """IANA time zone of `days`, `start` and `stop`. Daylight saving time is taken into account."""
    stops_work: bool = False
    """Accept that jobs and services are terminated at `stop`. Pools whose `workload` is not `development` need
    `true`.
    """

    @model_validator(mode="after")
    def _ordered(self) -> PoolSchedule:
        if self.stop <= self.start:
            raise wrong("a stop after start on the same day", "for example, write start: '07:00', stop: '20:00'")
        return self
