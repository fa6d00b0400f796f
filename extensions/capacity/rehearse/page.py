"""The HTML page of `gpu-platform rehearse`: GPUs in use and waited for over time, then the figures by team."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from gpu_platform.base.html_page import COLOURS, html_page
from gpu_platform.base.quantity import counted

_STYLE: Final = (
    "body{max-width:80rem}.scroll{overflow-x:auto}.line{width:100%;min-width:44rem;height:auto;display:block}"
    "svg text{font:13px system-ui,sans-serif;fill:currentColor}.axis{stroke:currentColor;stroke-opacity:.35}"
    ".capacity{fill:none;stroke:currentColor;stroke-width:1.5;stroke-dasharray:5 3}"
    ".key{display:inline-block;width:1em;height:1em;margin-right:.4em;vertical-align:-.15em}"
    "td.n,tr>:first-child{white-space:nowrap}td.n{text-align:right}li,h1,h2{overflow-wrap:anywhere}"
)
_WIDTH: Final = 1000
_LEFT: Final = 64
_RIGHT: Final = 12
_USED: Final = 240
_WAITING: Final = 110
_GAP: Final = 44
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_TICKS: Final = 8


def rehearsal_page(document: Mapping[str, Any]) -> str:
    """Return the rehearsal as one HTML page without links to anything outside."""
    stacks: Sequence[Mapping[str, Any]] = document["stacks"]
    names: str = " and ".join(one["stack"] for one in stacks)
    title = f"Rehearsal on stack {names}"
    teams = list(dict.fromkeys(team["team"] for stack in stacks for team in stack["teams"]))
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(teams)}
    body = "\n".join(
        (
            f"<h1>{escape(title)}</h1>",
            *_trace(document),
            *_legend(colours),
            *(line for one in stacks for line in _picture(one, stacks, colours)),
            "<h2>Teams</h2>",
            *_teams(stacks, colours, teams),
            "<h2>Pools</h2>",
            *_pools(stacks),
            *(line for one in stacks for line in _notes(one)),
        )
    )
    return html_page(title, body + "\n", _STYLE)


def _trace(document: Mapping[str, Any]) -> Iterator[str]:
    trace = document["trace"]
    left = "".join(f"; {counted(count, 'job')} {reason} left out" for reason, count in trace["left_out"].items())
    yield f"<p>Trace {escape(trace['file'])}: {counted(trace['jobs'], 'job')}{escape(left)}.</p>"


def _legend(colours: Mapping[str, str]) -> Iterator[str]:
    keys = (f'<span class="key" style="background:{one}"></span>{escape(name)}' for name, one in colours.items())
    yield f"<p>{' &nbsp; '.join(keys)} &nbsp; dashed: GPUs of all nodes</p>"


# -- the picture -----------------------------------------------------------------------------------------


def _picture(
    stack: Mapping[str, Any], stacks: Sequence[Mapping[str, Any]], colours: Mapping[str, str]
) -> Iterator[str]:
    """Yield the time line of a stack; the scales are those of all stacks."""
    seconds = max(one["seconds"] for one in stacks) or 1.0
    most_used = max(max([*one["line"]["capacity"], *_sums(one["line"]["used"])], default=0) for one in stacks) or 1
    most_waiting = max(max(_sums(one["line"]["waiting"]), default=0) for one in stacks) or 1
    line = stack["line"]
    scale = (_WIDTH - _LEFT - _RIGHT) / seconds
    height = 22 + _USED + _GAP + _WAITING + 26
    described = f"GPUs in use and waited for over time on stack {stack['stack']}"
    yield f"<h2>{escape(stack['stack'])}</h2>"
    yield '<div class="scroll">'
    yield f'<svg class="line" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(described)}">'
    yield f'<text x="{_LEFT}" y="14">GPUs of running jobs</text>'
    bottom = 22 + _USED
    yield from _areas(line, "used", bottom, _USED / most_used, scale, colours)
    points = _outline(line["capacity"], line["step"] * scale, bottom, _USED / most_used)
    yield f'<polyline class="capacity" points="{points}"/>'
    yield from _axis(bottom, _USED, most_used)
    yield f'<text x="{_LEFT}" y="{bottom + _GAP - 8}">GPUs of waiting jobs</text>'
    bottom += _GAP + _WAITING
    yield from _areas(line, "waiting", bottom, _WAITING / most_waiting, scale, colours)
    yield from _axis(bottom, _WAITING, most_waiting)
    yield from _times(seconds, scale, bottom)
    yield "</svg></div>"


def _areas(
    line: Mapping[str, Any], key: str, bottom: float, per_gpu: float, scale: float, colours: Mapping[str, str]
) -> Iterator[str]:
    """Yield the areas of all teams, one upon the other."""
    below = [0.0] * len(line["capacity"])
    for team, values in line[key].items():
        above = [low + value for low, value in zip(below, values, strict=True)]
        if any(values):
            step = line["step"] * scale
            upper = _outline(above, step, bottom, per_gpu)
            lower = " ".join(reversed(_outline(below, step, bottom, per_gpu).split(" ")))
            title = f"<title>{escape(team)}</title>"
            yield f'<polygon points="{upper} {lower}" fill="{colours[team]}">{title}</polygon>'
        below = above


def _outline(values: Sequence[float], step: float, bottom: float, per_gpu: float) -> str:
    """Return the points of a step function, with points that change nothing left out."""
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
    return " ".join(points)


def _axis(bottom: float, height: float, most: float) -> Iterator[str]:
    yield f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{_WIDTH - _RIGHT}" y2="{bottom}"/>'
    yield f'<line class="axis" x1="{_LEFT}" y1="{bottom - height}" x2="{_LEFT}" y2="{bottom}"/>'
    yield f'<text x="{_LEFT - 6}" y="{bottom - height + 12}" text-anchor="end">{most:,.4g}</text>'
    yield f'<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end">0</text>'


def _times(seconds: float, scale: float, bottom: float) -> Iterator[str]:
    size, unit = next((one for one in _UNITS if seconds >= 2 * one[0]), _UNITS[-1])
    every = next(n for n in _steps() if seconds / size / n <= _TICKS)
    for index in range(int(seconds / size / every) + 1):
        x = _LEFT + index * every * size * scale
        anchor = "end" if x > _WIDTH - 40 else "middle"
        yield f'<line class="axis" x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="{anchor}">{index * every:g} {unit}</text>'


def _steps() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _sums(values: Mapping[str, Sequence[float]]) -> list[float]:
    return [sum(column) for column in zip(*values.values(), strict=True)]


# -- the rest --------------------------------------------------------------------------------------------


def _teams(stacks: Sequence[Mapping[str, Any]], colours: Mapping[str, str], teams: Sequence[str]) -> Iterator[str]:
    heads = ("jobs", "median wait", "95th percentile", "worst", "stopped", "GPU h", "done again", "of all", "USD")
    rows: list[tuple[list[str], list[str]]] = []
    for name in [*teams, None]:
        for stack in stacks:
            one = stack["total"] if name is None else next((t for t in stack["teams"] if t["team"] == name), None)
            if one is None:
                continue
            key = "" if name is None else f'<span class="key" style="background:{colours[name]}"></span>'
            wait = one["wait"] or dict.fromkeys(("median", "p95", "worst"))
            figures = [f"{one['jobs']:,}", *(short_duration(wait[key]) for key in ("median", "p95", "worst"))]
            figures += [f"{one['preemptions']:,}", f"{one['gpu_hours']:,.1f}", f"{one['lost_gpu_hours']:,.1f}"]
            figures += [f"{one['utilisation']:.0%}", usd_text(one["usd"])]
            rows.append(([key + escape(name or "all"), escape(stack["stack"])], figures))
    yield from _table(("team", "stack"), heads, rows)


def _pools(stacks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows: list[tuple[list[str], list[str]]] = []
    for stack in stacks:
        for one in stack["pools"]:
            figures = [f"{one['nodes']:.1f}", share_text(one["held"]), share_text(one["fragmented"])]
            rows.append(([escape(one["pool"]), escape(stack["stack"])], [*figures, usd_text(one["usd"])]))
    yield from _table(("pool", "stack"), ("nodes (mean)", "GPUs held", "fragmented", "USD"), rows)


def _notes(one: Mapping[str, Any]) -> Iterator[str]:
    total = one["total"]
    yield f"<h2>Notes on {escape(one['stack'])}</h2><ul>"
    yield f"<li>{escape(short_duration(one['seconds']))} from the first arrival to the last end.</li>"
    for reason, count in sorted(total["waited_for"].items()):
        yield f"<li>{counted(count, 'job')} waited for {escape(reason)}.</li>"
    yield f"<li>GPUs idle while jobs waited: {one['idle_while_waiting']:.1%} of all GPU hours.</li>"
    if total["unfinished"]:
        yield f"<li>{counted(total['unfinished'], 'job')} never got all their pods.</li>"
    for found in one["impossible"]:
        pods = f"{counted(found['pods'], 'pod')} of {found['units']} {found['resource']}"
        jobs = f"{counted(found['count'], 'job')} of {found['team']}"
        yield f"<li>Impossible: {escape(jobs)} with {escape(pods)}.</li>"
    yield from (f"<li>Assumed: {escape(text)}</li>" for text in one["assumptions"])
    yield "</ul>"


def _table(
    names: Sequence[str], heads: Sequence[str], rows: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> Iterator[str]:
    yield '<div class="scroll"><table><tr>' + "".join(f"<th>{head}</th>" for head in (*names, *heads)) + "</tr>"
    for texts, figures in rows:
        cells = "".join(f"<td>{text}</td>" for text in texts)
        yield f"<tr>{cells}" + "".join(f'<td class="n">{figure}</td>' for figure in figures) + "</tr>"
    yield "</table></div>"


def short_duration(seconds: float | None) -> str:
    """Return a duration in its largest unit: `40 s`, `12 min`, `1.5 h`, `3.2 d`; `-` for None."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h" if seconds < 48 * 3600 else f"{seconds / 86400:.3g} d"


def usd_text(value: float | None) -> str:
    """Return an amount of USD; unknown for None."""
    return "unknown" if value is None else f"{value:,.0f}"


def share_text(value: float | None) -> str:
    """Return a share in percent; `-` for None."""
    return "-" if value is None else f"{value:.0%}"
