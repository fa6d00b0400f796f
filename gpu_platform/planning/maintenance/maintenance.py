"""Plan when nodes may be changed, and refuse pools that exceed the limit for all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_platform.base.quantity import parse_duration
from gpu_platform.planning.maintenance.section import ChangesPlan, WindowPlan, in_order
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.changes import Changes, Window
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import MigRoll, Sharing


def check(changes: Changes, pools: Iterable[tuple[int, Pool]], sharing: Iterable[tuple[str, Sharing]]) -> Problems:
    """Return a problem for each pool whose own limit on unavailable nodes exceeds the limit for all pools
    together.
    """
    problems = Problems()
    most = changes.max_unavailable
    for place, count in _declared(pools, sharing) if most is not None else ():
        if count > (most or 0):
            problems.at(place).add(
                str(count),
                f"at most {most}, the limit of changes.max_unavailable",
                f"write {most}, or raise changes.max_unavailable",
            )
    return problems


def plan(changes: Changes) -> ChangesPlan:
    """Return the plan for node changes."""
    return ChangesPlan(window=plan_window(changes.window), max_unavailable=changes.max_unavailable)


def plan_window(window: Window | None) -> WindowPlan | None:
    """Return the plan for a window, with its days in the order of the week."""
    if window is None:
        return None
    return WindowPlan(
        days=in_order(window.days),
        start=window.start,
        seconds=round(parse_duration(window.duration)),
        time_zone=window.time_zone,
    )


def _declared(
    pools: Iterable[tuple[int, Pool]], sharing: Iterable[tuple[str, Sharing]]
) -> Iterator[tuple[str, int]]:
    for index, pool in pools:
        if pool.upgrade.max_unavailable is not None:
            yield f"pools[{index}].upgrade.max_unavailable", pool.upgrade.max_unavailable
        if isinstance(pool.sharing, MigRoll):
            yield f"pools[{index}].sharing.max_unavailable", pool.sharing.max_unavailable
    for name, one in sharing:
        if isinstance(one, MigRoll):
            yield f"sharing.{name}.max_unavailable", one.max_unavailable
