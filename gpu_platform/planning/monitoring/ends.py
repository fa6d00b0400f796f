"""Alerts that fire before reserved capacity ends.

They compare the current time with the end in the stack file, and need no metric. In PromQL, `vector(time())` is
the evaluation time in seconds since 1970, and a comparison without `bool` drops all samples that do not match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from gpu_platform.planning.clouds.windows import CapacityWindow, utc_text
from gpu_platform.planning.monitoring.section import AlertRule
from gpu_platform.planning.pools.section import PoolPlan

_NOTICES: Final = (
    ("GpuCapacityEndsInADay", "24 h", timedelta(hours=24), timedelta(hours=2), "warning"),
    ("GpuCapacityEndsInTwoHours", "2 h", timedelta(hours=2), timedelta(), "critical"),
)


def ends_of_capacity(pools: Sequence[PoolPlan]) -> tuple[AlertRule, ...]:
    """Return two alerts for each end of reserved capacity. The first fires 24 h before the nodes are drained, and
    the second 2 h before.
    """
    return tuple(
        alert
        for pool in pools
        for window in pool.cloud_nodes.windows
        if window.drains is not None
        for alert in _notices(pool, window, window.drains)
    )


def _notices(pool: PoolPlan, window: CapacityWindow, drains: datetime) -> Iterator[AlertRule]:
    for name, within, before, until, severity in _NOTICES:
        begin, end = (int((drains - notice).timestamp()) for notice in (before, until))
        yield AlertRule(
            alert=name,
            expr=f"vector(time()) >= {begin} < {end}",
            for_="0m",
            severity=severity,
            summary=f"nodes of pool {pool.name} in {window.reservation} are drained within {within}, at "
            f"{utc_text(drains)}: checkpoint its jobs, or extend the reservation",
            labels={"pool": pool.name},
        )
