"""The HTML page of dashboards: a section for each, a figure for each panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from extensions.reports.dashboards.chart import MOST_LINES, line_chart, line_style, numbered, spark_line
from extensions.reports.dashboards.read import BoardData, PanelData, Period
from extensions.reports.dashboards.units import value_text
from gpu_platform.api.live import Series
from gpu_platform.base.html_page import html_page

_STYLE: Final = (
    "body{max-width:90rem}.panels{display:grid;grid-template-columns:repeat(24,minmax(0,1fr));gap:1rem}"
    "figure{margin:0;border:1px solid #ccc;border-radius:4px;padding:.6rem .8rem;min-width:0}"
    "figure h3{margin:0 0 .4rem;font-size:1rem}figure p{margin:.3rem 0}.big{font-size:2rem;font-weight:600;"
    "line-height:1.2}.note{font-size:.875rem}svg.chart{width:100%;height:auto;display:block}"
    "svg.spark{width:100%;height:2.5rem;display:block}svg text{font-size:11px;fill:currentColor}"
    "svg .grid{stroke:currentColor;stroke-opacity:.2}.key{width:1.8rem;height:.7rem;margin-right:.4rem;"
    "vertical-align:middle}figure table{width:100%;margin:.4rem 0 0;font-size:.875rem}"
    "figure th,figure td{padding:.1rem .4rem}td.number,th.number{text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}td{overflow-wrap:anywhere}nav a{margin-right:1.2em}"
    "h1,h2{overflow-wrap:anywhere}"
    "@media(max-width:60rem){.panels figure{grid-column:1/-1!important}"
    ".panels figure.stat{grid-column:span 12!important}}"
    "@media(prefers-color-scheme:dark){figure{border-color:#444}}"
    "@media print{.panels{display:block}figure{margin-bottom:1rem;border-color:#999}"
    "@media(prefers-color-scheme:dark){figure{border-color:#999}}}"
)
_MOST_ROWS: Final = 50


def dashboards_page(
    boards: Sequence[BoardData], source: str, chosen: Mapping[str, Sequence[str]], period: Period
) -> str:
    """Return the page. `source`: address of the Prometheus; `chosen`: values by variable."""
    title = "GPU dashboards"
    narrowed = "; ".join(f"{name} {', '.join(values)}" for name, values in chosen.items() if values)
    body = "\n".join(
        (
            f"<h1>{title}</h1>",
            f"<p>From {_time(period.start)} to {_time(period.end)}, by Prometheus at {escape(source)}"
            f"{f'; only {escape(narrowed)}' if narrowed else ''}.</p>",
            '<nav aria-label="Dashboards">',
            *(f'<a href="#{one.board.name}">{escape(one.board.title)}</a>' for one in boards),
            "</nav>",
            *(part for one in boards for part in _section(one, period)),
        )
    )
    return html_page(title, body + "\n", _STYLE)


def _time(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def _section(one: BoardData, period: Period) -> Iterator[str]:
    yield f'<section aria-labelledby="{one.board.name}"><h2 id="{one.board.name}">{escape(one.board.title)}</h2>'
    yield '<div class="panels">'
    for answer in one.answers:
        panel = answer.panel
        yield f'<figure class="{panel.kind}" style="grid-column:span {panel.columns}">'
        yield f"<h3>{escape(panel.title)}</h3>"
        yield from _content(answer, period)
        if panel.description:
            yield f'<p class="note">{escape(panel.description)}</p>'
        yield "</figure>"
    yield "</div></section>"


def _content(answer: PanelData, period: Period) -> Iterator[str]:
    panel, series = answer.panel, answer.series
    if answer.error:
        yield f"<p>Prometheus refused the query: {escape(answer.error)}</p>"
    elif not series:
        yield f"<p>{'none' if panel.kind == 'table' else 'no data'}</p>"
    elif panel.kind == "table":
        yield from _table(answer)
    elif panel.kind == "stat":
        yield f'<p class="big">{value_text(series[0].last, panel.unit)}</p>'
        yield spark_line(panel, series[0], period)
    else:
        drawn = series[:MOST_LINES]
        yield line_chart(panel, drawn, period)
        yield from _legend(answer, drawn)


def _legend(answer: PanelData, drawn: Sequence[Series]) -> Iterator[str]:
    """Yield the table of the lines, which has the values for those who cannot see them."""
    panel = answer.panel
    yield '<div class="scroll"><table><tr><th>series</th>'
    yield "".join(f'<th class="number">{head}</th>' for head in ("last", "lowest", "highest")) + "</tr>"
    for number, one in numbered(panel, drawn):
        values = [value for _, value in one.samples]
        cells = "".join(
            f'<td class="number">{value_text(value, panel.unit)}</td>'
            for value in (one.last, min(values), max(values))
        )
        key = f'<svg class="key" viewBox="0 0 28 10" aria-hidden="true"><path d="M1 5L27 5" {line_style(number)}/>'
        yield f"<tr><td>{key}</svg>{escape(panel.name_of(one.labels))}</td>{cells}</tr>"
    yield "</table></div>"
    if len(answer.series) > len(drawn):
        left = len(answer.series) - len(drawn)
        yield f'<p class="note">{left} more, with lower last values, are not drawn: narrow them by --set.</p>'


def _table(answer: PanelData) -> Iterator[str]:
    panel, rows = answer.panel, answer.series[:_MOST_ROWS]
    heads = sorted({label for one in rows for label in one.labels if label != "__name__"})
    yield '<div class="scroll"><table><tr>'
    yield "".join(f"<th>{escape(head)}</th>" for head in heads) + '<th class="number">value</th></tr>'
    for one in rows:
        cells = "".join(f"<td>{escape(one.labels.get(head, ''))}</td>" for head in heads)
        yield f'<tr>{cells}<td class="number">{value_text(one.last, panel.unit)}</td></tr>'
    yield "</table></div>"
    if len(answer.series) > len(rows):
        yield f'<p class="note">{len(answer.series) - len(rows)} more, with lower values, are not shown.</p>'
