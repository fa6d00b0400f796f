"""The HTML page of `gpu-platform cost`: who causes which part of the cost, what is idle, and what would save."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from gpu_platform.base.html_page import COLOURS, html_page
from gpu_platform.planning.clouds.schedules import HOURS_OF_WEEK
from gpu_platform.planning.cost import HOURS_PER_MONTH

_STYLE: Final = (
    ".bar{display:flex;height:1.5rem;min-width:14rem}.bar span{display:block;height:100%;min-width:1px}"
    ".none{background:repeating-linear-gradient(45deg,#8888,#8888 3px,#8883 3px,#8883 7px)}"
    ".key{display:inline-block;margin-right:1.2em}.key span{display:inline-block;width:1em;height:1em;"
    "margin-right:.4em;vertical-align:-.1em}td.number,th.number{text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}.total{font-size:1.4rem}td.wide{width:60%}"
    "h1,h2,li{overflow-wrap:anywhere}td{overflow-wrap:break-word}.bars{width:100%}"
)
_NOBODY: Final = "no team"


def cost_page(document: Mapping[str, Any]) -> str:
    """Return the document of `cost_document` as one HTML page without links to anything outside."""
    title = f"Cost of stack {document['stack']}"
    colours = {team["team"]: COLOURS[index % len(COLOURS)] for index, team in enumerate(document["teams"])}
    body = "\n".join(
        (
            f"<h1>{escape(title)}</h1>",
            *_sums(document),
            *_picture(document, colours),
            *_pools(document),
            *_teams(document),
            *_savings(document),
            *_sources(document),
        )
    )
    return html_page(title, body + "\n", _STYLE)


def nodes_text(pool: Mapping[str, Any]) -> str:
    """Return the number of nodes of a pool, with the hours of its schedule: `2, 65 h a week`."""
    hours = pool["hours_per_week"]
    return f"{pool['nodes']}" if hours == HOURS_OF_WEEK else f"{pool['nodes']}, {hours:.4g} h a week"


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.2f}"


def _sums(document: Mapping[str, Any]) -> Iterator[str]:
    month = f"{_usd(document['usd_per_month'])} USD a month of {HOURS_PER_MONTH} h"
    yield f'<p class="total"><strong>{_usd(document["usd_per_hour"])} USD/h</strong>, {month}</p>'
    facts: list[str] = []
    if document["by_capacity"]:
        mix = (f"{kind} {_usd(usd)}" for kind, usd in document["by_capacity"].items())
        facts.append(f"Capacity: {', '.join(mix)} USD/h.")
    if document["budget_usd_per_month"] is not None:
        facts.append(f"Budget: {_usd(document['budget_usd_per_month'])} USD a month.")
    facts.append(f"Not allocated to any team: {_usd(document['unallocated_usd_per_hour'])} USD/h.")
    if document["idle_usd_per_hour"] is not None:
        facts.append(f"Idle: {_usd(document['idle_usd_per_hour'])} USD/h.")
    if document["unknown"]:
        facts.append(f"Not included, because their price is unknown: {', '.join(document['unknown'])}.")
    yield f"<p>{escape(' '.join(facts))}</p>"


def _parts(document: Mapping[str, Any], pool: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the cost of a pool by team in USD/h; the last entry is not allocated to any team."""
    teams = [(team["team"], team["by_pool"].get(pool["pool"], 0.0)) for team in document["teams"]]
    parts = [*teams, (_NOBODY, pool["unallocated_usd_per_hour"] or 0.0)]
    return [(who, usd) for who, usd in parts if usd > 0]


def _picture(document: Mapping[str, Any], colours: Mapping[str, str]) -> Iterator[str]:
    priced = [pool for pool in document["pools"] if pool["usd_per_hour"]]
    if not priced:
        return
    most = max(pool["usd_per_hour"] for pool in priced)
    yield "<h2>Cost of each pool by team</h2>"
    keys = "".join(
        f'<span class="key"><span {_fill(who, colours)}></span>{escape(who)}</span>' for who in (*colours, _NOBODY)
    )
    yield f"<p>{keys}</p>"
    yield '<div class="scroll"><table class="bars"><tr><th>pool</th><th class="number">USD/h</th>'
    yield "<th>by team</th></tr>"
    for pool in priced:
        parts = _parts(document, pool)
        told = ", ".join(f"{who} {_usd(usd)}" for who, usd in parts)
        bars = "".join(
            f'<span {_fill(who, colours, usd / most)} title="{escape(f"{who}: {_usd(usd)} USD/h")}"></span>'
            for who, usd in parts
        )
        picture = f'<div class="bar" role="img" aria-label="{escape(told)} USD/h">{bars}</div>'
        yield _row(
            (f"<td>{escape(pool['pool'])}</td>", _number(pool["usd_per_hour"]), f'<td class="wide">{picture}</td>')
        )
    yield "</table></div>"


def _fill(who: str, colours: Mapping[str, str], share: float | None = None) -> str:
    width = "" if share is None else f"width:{share:.2%}"
    if who not in colours:
        return f'class="none" style="{width}"'
    return f'style="background:{colours[who]};{width}"'


def _pools(document: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Pools</h2>"
    heads = ("pool", "capacity", "nodes", "a node", "USD/h", "no team's", "in use", "idle")
    yield _table_start(heads, numbers=heads[2:])
    for pool in document["pools"]:
        used = "unknown" if pool["utilisation"] is None else f"{pool['utilisation']:.0%}"
        yield _row(
            (
                f"<td>{escape(pool['pool'])}</td>",
                f"<td>{escape(pool['capacity'])}</td>",
                f'<td class="number">{nodes_text(pool)}</td>',
                _number(pool["node_usd_per_hour"]),
                _number(pool["usd_per_hour"]),
                _number(pool["unallocated_usd_per_hour"]),
                f'<td class="number">{used if pool["gpus"] else ""}</td>',
                _number(pool["idle_usd_per_hour"]) if pool["gpus"] else "<td></td>",
            )
        )
    yield "</table></div>"


def _teams(document: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Teams and workloads</h2>"
    units = ("units",) if document["workloads"] else ()
    yield _table_start(("team", "workload", "pool", *units, "USD/h"), numbers=("units", "USD/h"))
    for team in document["teams"]:
        unknown = f"; unknown for {', '.join(team['unknown'])}" if team["unknown"] else ""
        name = f'<th scope="row">{escape(team["team"])}</th>'
        quotas: str = ", ".join(team["by_pool"])
        pools = escape(quotas + unknown)
        blank = "<td></td>" if units else ""
        yield _row((name, "<td>quota</td>", f"<td>{pools}</td>", blank, _number(team["usd_per_hour"])))
        for one in document["workloads"]:
            if one["team"] == team["team"]:
                yield _row(
                    (
                        "<td></td>",
                        f"<td>{escape(one['workload'])}</td>",
                        f"<td>{escape(one['pool'])}</td>",
                        f'<td class="number">{one["units"]}</td>',
                        _number(one["usd_per_hour"]),
                    )
                )
    yield "</table></div>"
    yield "<p>The cost of a team is its share of the pools by its quota; that of a workload is a part of it.</p>"


def _savings(document: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Changes that save</h2>"
    if not document["savings"]:
        yield "<p>Found no change of the stack file that reduces the cost and still fits.</p>"
        return
    yield "<p>Each applied alone; all quotas and declared workloads still fit.</p><ol>"
    for saving in document["savings"]:
        saved = saving["usd_per_hour"]
        amount = "an unknown amount: no list has spot prices" if saved is None else f"{_usd(saved)} USD/h"
        edits = "\n".join(
            f"{edit['path']}: {json.dumps(edit['before'])} → {json.dumps(edit['after'])}"
            for edit in saving["edits"]
        )
        yield (
            f"<li><strong>{escape(amount)}</strong>: {escape(saving['what'])}<pre>{escape(edits)}</pre>"
            f"{escape(saving['proof'])}</li>"
        )
    yield "</ol>"


def _sources(document: Mapping[str, Any]) -> Iterator[str]:
    sources = dict.fromkeys(
        pool["price_source"] for pool in document["pools"] if pool["node_usd_per_hour"] is not None
    )
    if sources:
        yield "<h2>Prices</h2><ul>"
        yield from (f"<li>{escape(source)}</li>" for source in sources)
        yield "</ul>"
    if any(kind == "spot" for kind in document["by_capacity"]):
        yield "<p>Spot nodes are counted at the on-demand price, unless the pool has usd_per_hour.</p>"


def _table_start(heads: Sequence[str], *, numbers: Iterable[str]) -> str:
    right = set(numbers)
    marked = ((' class="number"' if head in right else "", head) for head in heads)
    cells = (f"<th{mark}>{escape(head)}</th>" for mark, head in marked)
    return f'<div class="scroll"><table><tr>{"".join(cells)}</tr>'


def _row(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _number(value: float | None) -> str:
    return f'<td class="number">{_usd(value)}</td>'
