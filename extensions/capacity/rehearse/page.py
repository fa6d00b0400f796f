"""The HTML page of `gpu-platform rehearse`: charts of GPUs over time, then tables by team and pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from gpu_platform.base.pages import colours_of, render_page

_LEFT: Final = 64  # all lengths are in units of the drawing in page.html
_LONG: Final = 924
_CHARTS: Final = {"used": ("GPUs of running jobs", 22, 240), "waiting": ("GPUs of waiting jobs", 306, 110)}
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_TICKS: Final = 8


def rehearsal_page(document: Mapping[str, Any]) -> str:
    """Return the rehearsal as a single HTML page without external links."""
    stacks: Sequence[Mapping[str, Any]] = document["stacks"]
    names: str = " and ".join(one["stack"] for one in stacks)
    seconds = max(one["seconds"] for one in stacks) or 1.0
    teams = dict.fromkeys(team["team"] for stack in stacks for team in stack["teams"])
    return render_page(
        "extensions.capacity.rehearse",
        "page.html",
        title=f"Rehearsal on stack {names}",
        trace=document["trace"],
        stacks=stacks,
        colours=colours_of(teams),
        charts=[[_chart(key, stack, stacks, _LONG / seconds) for key in _CHARTS] for stack in stacks],
        ticks=list(_ticks(seconds)),
        teams=list(_teams(stacks, [*teams, None])),
        pools=list(_pools(stacks)),
        short_duration=short_duration,
    )


# -- the picture -----------------------------------------------------------------------------------------


def _chart(
    key: str, stack: Mapping[str, Any], stacks: Sequence[Mapping[str, Any]], per_second: float
) -> dict[str, Any]:
    """Return a chart of GPUs over time with the teams stacked. The charts of all stacks have the same scale."""
    title, top, height = _CHARTS[key]
    gpus = (value for one in stacks for value in (*_sums(one["line"][key]), *_capacity(key, one)))
    most = max(gpus, default=0) or 1
    line = stack["line"]
    step, bottom, per_gpu = line["step"] * per_second, top + height, height / most
    areas: list[tuple[str, str]] = []
    below = [0.0] * len(line["capacity"])
    for team, values in line[key].items():
        above = [low + value for low, value in zip(below, values, strict=True)]
        if any(values):
            lower = reversed(_outline(below, step, bottom, per_gpu))
            areas.append((team, " ".join([*_outline(above, step, bottom, per_gpu), *lower])))
        below = above
    capacity = " ".join(_outline(_capacity(key, stack), step, bottom, per_gpu))
    return {"title": title, "top": top, "bottom": bottom, "most": most, "areas": areas, "capacity": capacity}


def _capacity(key: str, stack: Mapping[str, Any]) -> Sequence[float]:
    """Return the GPUs on all nodes over time for the chart of GPUs in use, or nothing for other charts."""
    return stack["line"]["capacity"] if key == "used" else ()


def _outline(values: Sequence[float], step: float, bottom: float, per_gpu: float) -> list[str]:
    """Return the points of a step function, without points at which the value stays the same."""
    points: list[str] = []
    for index, value in enumerate(values):
        height = bottom - value * per_gpu
        if index and value == values[index - 1] and index + 1 < len(values):
            continue
        before = f"{_LEFT + index * step:.1f},{bottom - values[index - 1] * per_gpu:.1f}" if index else ""
        points += [before] if before else []
        points.append(f"{_LEFT + index * step:.1f},{height:.1f}")
    if values:
        points.append(f"{_LEFT + len(values) * step:.1f},{bottom - values[-1] * per_gpu:.1f}")
    return points


def _ticks(seconds: float) -> Iterator[tuple[float, str]]:
    """Yield the positions and labels of round times."""
    size, unit = next((one for one in _UNITS if seconds >= 2 * one[0]), _UNITS[-1])
    steps = (step * 10**power for power in count() for step in (1, 2, 5))
    every = next(step for step in steps if seconds / size / step <= _TICKS)
    for index in range(int(seconds / size / every) + 1):
        yield _LEFT + index * every * size * _LONG / seconds, f"{index * every:g} {unit}"


def _sums(values: Mapping[str, Sequence[float]]) -> list[float]:
    return [sum(column) for column in zip(*values.values(), strict=True)]


# -- tables and formats ----------------------------------------------------------------------------------


def _teams(
    stacks: Sequence[Mapping[str, Any]], teams: Sequence[str | None]
) -> Iterator[tuple[str | None, str, list[str]]]:
    """Yield the team (or None for all teams), the stack and the figures of each table row."""
    for name in teams:
        for stack in stacks:
            one = stack["total"] if name is None else next((t for t in stack["teams"] if t["team"] == name), None)
            if one is None:
                continue
            wait = one["wait"] or dict.fromkeys(("median", "p95", "worst"))
            figures = [f"{one['jobs']:,}", *(short_duration(wait[key]) for key in ("median", "p95", "worst"))]
            figures += [f"{one['preemptions']:,}", f"{one['gpu_hours']:,.1f}", f"{one['lost_gpu_hours']:,.1f}"]
            yield name, stack["stack"], [*figures, f"{one['utilisation']:.0%}", usd_text(one["usd"])]


def _pools(stacks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for stack in stacks:
        for one in stack["pools"]:
            shares = (share_text(one["held"]), share_text(one["fragmented"]))
            yield one["pool"], stack["stack"], f"{one['nodes']:.1f}", *shares, usd_text(one["usd"])


def short_duration(seconds: float | None) -> str:
    """Return a duration in its largest unit, such as `40 s`, `12 min`, `1.5 h` or `3.2 d`, or `-` for None."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h" if seconds < 48 * 3600 else f"{seconds / 86400:.3g} d"


def usd_text(value: float | None) -> str:
    """Format an amount of USD, or return `unknown` for None."""
    return "unknown" if value is None else f"{value:,.0f}"


def share_text(value: float | None) -> str:
    """Format a share as a percentage, or return `-` for None."""
    return "-" if value is None else f"{value:.0%}"
