"""The HTML page of dashboards, with a section for each dashboard and a figure for each panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from extensions.reports.dashboards.chart import MOST_LINES, line_chart, spark_line
from extensions.reports.dashboards.read import BoardData, PanelData, Period
from extensions.reports.dashboards.units import value_text
from gpu_platform.base.pages import render_page

_MOST_ROWS: Final = 50


def dashboards_page(
    boards: Sequence[BoardData], source: str, chosen: Mapping[str, Sequence[str]], period: Period
) -> str:
    """Return the page. `source` is the address of the Prometheus server, and `chosen` contains the values by
    variable.
    """
    return render_page(
        "extensions.reports.dashboards",
        "page.html",
        title="GPU dashboards",
        source=source,
        narrowed="; ".join(f"{name} {', '.join(values)}" for name, values in chosen.items() if values),
        start=_time(period.start),
        end=_time(period.end),
        boards=[(one.board, [(answer, _content(answer, period)) for answer in one.answers]) for one in boards],
    )


def _time(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def _content(answer: PanelData, period: Period) -> dict[str, Any]:
    """Return the content of a panel for its kind. The key `left` is the number of series that are not shown."""
    panel, series = answer.panel, answer.series
    if not series:
        return {}
    if panel.kind == "table":
        heads = sorted({label for one in series[:_MOST_ROWS] for label in one.labels if label != "__name__"})
        rows = [
            [*(one.labels.get(head, "") for head in heads), value_text(one.last, panel.unit)]
            for one in series[:_MOST_ROWS]
        ]
        return {"heads": [*heads, "value"], "rows": rows, "left": len(series) - len(rows)}
    if panel.kind == "stat":
        return {"line": spark_line(panel, series[0], period)}
    return {"chart": line_chart(panel, series[:MOST_LINES], period), "left": len(series) - MOST_LINES}
