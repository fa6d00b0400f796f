"""Line charts for page.html.

They scale to every size, and work in light and dark mode, in print and with screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from extensions.reports.dashboards.panels import Panel
from extensions.reports.dashboards.read import Period
from extensions.reports.dashboards.units import value_text
from gpu_platform.api.live import Series
from gpu_platform.base.pages import COLOURS

MOST_LINES: Final = len(COLOURS)
_DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "4 2")  # dash patterns, to distinguish lines without colours
_PLOT: Final = (58, 432, 8, 150)  # left, right, top and bottom of the plot area in the drawings of page.html
_SPARK: Final = (2, 438, 3, 37)
_TICKS: Final = 4
_TIMES: Final = 4
_DAY: Final = 36 * 3600
_GAP: Final = 1.5  # in sampling steps; a longer gap breaks the line


@dataclass(frozen=True, slots=True)
class _Scale:
    """Scale of a chart that converts values and times to positions."""

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


def line_chart(panel: Panel, series: Sequence[Series], period: Period) -> dict[str, Any]:
    """Return the ticks, times and lines for at most `MOST_LINES` series.

    The style of a line depends on its position among the sorted names, so that a pool looks the same in all
    panels.
    """
    ticks = _ticks(panel, series)
    scale = _Scale(period, ticks[0], ticks[-1], *_PLOT)
    by_name = sorted(range(len(series)), key=lambda index: panel.name_of(series[index].labels))
    return {
        "ticks": [(scale.y(tick), value_text(tick, panel.unit)) for tick in ticks],
        "times": list(_times(scale)),
        "lines": [_line(panel, by_name.index(index), one, scale) for index, one in enumerate(series)],
    }


def spark_line(panel: Panel, series: Series, period: Period) -> dict[str, Any]:
    """Return the line of a small chart without axes. The page shows the current value next to it."""
    values = [value for _, value in series.samples]
    low, high = min(0.0, *values), max(values) or 1.0
    scale = _Scale(period, low, high if high > low else low + 1.0, *_SPARK)
    return _line(panel, 0, series, scale)


def _ticks(panel: Panel, series: Sequence[Series]) -> list[float]:
    """Return round values that enclose all values. They start at 0 unless all values are far above 0."""
    values = [value for one in series for _, value in one.samples]
    low = panel.lowest if panel.lowest is not None else min(values)
    high = panel.highest if panel.highest is not None else max(values)
    if panel.lowest is None and 0 <= low < high / 2:
        low = 0.0
    if high <= low:
        low, high = (min(0.0, high), high) if high else (0.0, 1.0)
    if high <= low:  # all values are equal and below zero
        high = 0.0
    step = _round_step((high - low) / _TICKS)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _round_step(least: float) -> float:
    """Return the smallest round step (1, 2, 2.5 or 5 times a power of ten) that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))


def _times(scale: _Scale) -> Iterator[tuple[float, str, str]]:
    """Yield the position, text anchor and label of each time on the axis."""
    length = scale.period.end - scale.period.start
    for number in range(_TIMES + 1):
        time = scale.period.start + length * number / _TIMES
        anchor = "start" if number == 0 else "end" if number == _TIMES else "middle"
        text = f"{datetime.fromtimestamp(time, UTC):{'%H:%M' if length <= _DAY else '%b %d'}}"
        yield scale.x(time), anchor, text


def _line(panel: Panel, number: int, series: Series, scale: _Scale) -> dict[str, Any]:
    """Return the line of a series.

    It is broken where samples are missing, and a single sample is drawn as a dot.
    """
    parts: list[list[str]] = []
    before = -math.inf
    for time, value in series.samples:
        if time - before > scale.period.step * _GAP:
            parts.append([])
        parts[-1].append(f"{scale.x(time):.1f} {scale.y(value):.1f}")
        before = time
    values = [value for _, value in series.samples]
    return {
        "name": panel.name_of(series.labels),
        "path": "".join(f"M{'L'.join(part if len(part) > 1 else part * 2)}" for part in parts),
        "colour": COLOURS[number],
        "dash": _DASHES[number % len(_DASHES)],
        "figures": [value_text(value, panel.unit) for value in (series.last, min(values), max(values))],
    }
