"""Line charts as SVG: sharp at every size, readable in light and dark and in print, told to screen readers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

from extensions.reports.dashboards.panels import Panel
from extensions.reports.dashboards.read import Period
from extensions.reports.dashboards.units import value_text
from gpu_platform.api.live import Series
from gpu_platform.base.html_page import COLOURS

MOST_LINES: Final = len(COLOURS)
_DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "4 2")  # lines can be told apart without colours
_WIDTH, _HEIGHT = 440, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 8, 8, 20
_SPARK_HEIGHT: Final = 40
_TICKS: Final = 4
_TIMES: Final = 4
_DAY: Final = 36 * 3600
_GAP: Final = 1.5  # steps without a sample that break a line


@dataclass(frozen=True, slots=True)
class _Scale:
    """Places of a chart's values and times."""

    period: Period
    low: float
    high: float
    left: float
    right: float
    top: float
    bottom: float

    def x(self, time: float) -> float:
        share = (time - self.period.start) / (self.period.end - self.period.start)
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.bottom - share * (self.bottom - self.top)


def line_style(number: int) -> str:
    """Return the attributes of the line of a chart's series `number`."""
    dash = _DASHES[number % len(_DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'fill="none" stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="2"{dashed}'


def numbered(panel: Panel, series: Sequence[Series]) -> list[tuple[int, Series]]:
    """Return series with the numbers of their lines, by their names: a pool looks alike in all panels."""
    by_name = sorted(range(len(series)), key=lambda index: panel.name_of(series[index].labels))
    numbers = {index: number for number, index in enumerate(by_name)}
    return [(numbers[index], one) for index, one in enumerate(series)]


def line_chart(panel: Panel, series: Sequence[Series], period: Period) -> str:
    """Return the chart of at most MOST_LINES series."""
    ticks = _ticks(panel, series)
    scale = _Scale(period, ticks[0], ticks[-1], _LEFT, _WIDTH - _RIGHT, _TOP, _HEIGHT - _BOTTOM)
    told = ", ".join(f"{panel.name_of(one.labels)} {value_text(one.last, panel.unit)}" for one in series)
    return "".join(
        (
            f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(f"{panel.title}, at the end: {told}")}">',
            *_axes(panel, ticks, scale),
            *(_line(panel, number, one, scale) for number, one in numbered(panel, series)),
            "</svg>",
        )
    )


def spark_line(panel: Panel, series: Series, period: Period) -> str:
    """Return a small line chart of one value without axes; the caller shows the value beside it."""
    values = [value for _, value in series.samples]
    low, high = min(0.0, *values), max(values) or 1.0
    scale = _Scale(period, low, high if high > low else low + 1.0, 2, _WIDTH - 2, 3, _SPARK_HEIGHT - 3)
    return (
        f'<svg class="spark" viewBox="0 0 {_WIDTH} {_SPARK_HEIGHT}" aria-hidden="true" '
        f'preserveAspectRatio="none">{_line(panel, 0, series, scale)}</svg>'
    )


def _ticks(panel: Panel, series: Sequence[Series]) -> list[float]:
    """Return round values from below the lowest to above the highest; from 0, unless all are far from it."""
    values = [value for one in series for _, value in one.samples]
    low = panel.lowest if panel.lowest is not None else min(values)
    high = panel.highest if panel.highest is not None else max(values)
    if panel.lowest is None and 0 <= low < high / 2:
        low = 0.0
    if high <= low:
        low, high = (min(0.0, high), high) if high else (0.0, 1.0)
    if high <= low:  # one value below zero
        high = 0.0
    step = _round_step((high - low) / _TICKS)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _round_step(least: float) -> float:
    """Return the smallest round step (1, 2, 2.5 or 5 times a power of ten) that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))


def _axes(panel: Panel, ticks: Sequence[float], scale: _Scale) -> Iterator[str]:
    for tick in ticks:
        y = scale.y(tick)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{value_text(tick, panel.unit)}</text>'
    length = scale.period.end - scale.period.start
    for number in range(_TIMES + 1):
        time = scale.period.start + length * number / _TIMES
        anchor = "start" if number == 0 else "end" if number == _TIMES else "middle"
        text = f"{datetime.fromtimestamp(time, UTC):{'%H:%M' if length <= _DAY else '%b %d'}}"
        yield f'<text x="{scale.x(time):.1f}" y="{_HEIGHT - 5}" text-anchor="{anchor}">{text}</text>'


def _line(panel: Panel, number: int, series: Series, scale: _Scale) -> str:
    """Return the line of a series, which ends where samples are missing; a sample alone is a dot."""
    parts: list[list[str]] = []
    before = -math.inf
    for time, value in series.samples:
        if time - before > scale.period.step * _GAP:
            parts.append([])
        parts[-1].append(f"{scale.x(time):.1f} {scale.y(value):.1f}")
        before = time
    drawn = "".join(f"M{'L'.join(part if len(part) > 1 else part * 2)}" for part in parts)
    named = f"{panel.name_of(series.labels)}: {value_text(series.last, panel.unit)} at the end"
    return f'<path d="{drawn}" stroke-linecap="round" {line_style(number)}><title>{escape(named)}</title></path>'
