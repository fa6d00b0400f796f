"""The HTML page of `gpu-platform cost`: the cost by pool and team, the idle cost, and possible savings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpu_platform.base.pages import HATCHED, colours_of, render_page
from gpu_platform.planning.clouds.schedules import HOURS_OF_WEEK
from gpu_platform.planning.cost import HOURS_PER_MONTH

_NOBODY: Final = "no team"


def cost_page(document: Mapping[str, Any]) -> str:
    """Return the document of `cost_document` as one HTML page without external links."""
    colours = {**colours_of(team["team"] for team in document["teams"]), _NOBODY: HATCHED}
    return render_page(
        "gpu_platform.cli",
        "cost_page.html",
        title=f"Cost of stack {document['stack']}",
        cost=document,
        colours=colours,
        bars=list(_bars(document, colours)),
        sources=dict.fromkeys(
            pool["price_source"] for pool in document["pools"] if pool["node_usd_per_hour"] is not None
        ),
        usd=_usd,
        nodes_text=nodes_text,
        to_json=json.dumps,
        hours_per_month=HOURS_PER_MONTH,
    )


def nodes_text(pool: Mapping[str, Any]) -> str:
    """Return the number of nodes of a pool. If the pool has a schedule, add its weekly hours, as in `2, 65 h a
    week`.
    """
    hours = pool["hours_per_week"]
    return f"{pool['nodes']}" if hours == HOURS_OF_WEEK else f"{pool['nodes']}, {hours:.4g} h a week"


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.2f}"


def _bars(
    document: Mapping[str, Any], colours: Mapping[str, str]
) -> Iterator[tuple[Mapping[str, Any], str, list[tuple[str, float, str]]]]:
    """Yield each pool that has a price, with the label and the segments of its bar: its teams, then `no team`."""
    priced = [pool for pool in document["pools"] if pool["usd_per_hour"]]
    for pool in priced:
        by_team = {team["team"]: team["by_pool"].get(pool["pool"], 0.0) for team in document["teams"]}
        by_team[_NOBODY] = pool["unallocated_usd_per_hour"] or 0.0
        shown = {who: usd for who, usd in by_team.items() if usd > 0}
        most = max(pool["usd_per_hour"] for pool in priced)
        label = ", ".join(f"{who} {_usd(usd)}" for who, usd in shown.items())
        parts = [(colours[who], usd / most, f"{who}: {_usd(usd)} USD/h") for who, usd in shown.items()]
        yield pool, f"{label} USD/h", parts
