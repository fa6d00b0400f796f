"""Titles, queries and units of panels, read from the JSON of the Grafana dashboards so that the page matches
Grafana.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, cast

from gpu_platform.api.plans import grafana

Kind = Literal["timeseries", "stat", "table"]
VARIABLES: Final = ("node", "pool", "team", "workload")
"""Variables that narrow the queries of all dashboards."""
_ALL: Final = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel of a dashboard.

    `expr` is the query with variables. `legend` is the name of a series, with labels in braces. `unit` is
    Grafana's name for the unit. `lowest` and `highest` are the ends of the scale, or None if they depend on the
    values. `columns` is the width in columns of a grid with 24 columns.
    """

    title: str
    kind: Kind
    expr: str
    legend: str
    unit: str
    description: str
    lowest: float | None
    highest: float | None
    columns: int

    def query(self, chosen: Mapping[str, Sequence[str]]) -> str:
        """Return the query with the values that are chosen for each variable.

        All values match if none is chosen.
        """
        return re.sub(r"\$(\w+)", lambda found: _pattern(chosen.get(found[1], ())), self.expr)

    def name_of(self, labels: Mapping[str, str]) -> str:
        """Return the name of a series from its labels."""
        if not self.legend:
            return ", ".join(f"{key} {value}" for key, value in sorted(labels.items()) if key != "__name__")
        named = re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: labels.get(found[1], ""), self.legend)
        return " ".join(named.split()) or "without a name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard with its panels."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def _pattern(values: Sequence[str]) -> str:
    """Return a regular expression for the values, escaped for a quoted string in PromQL."""
    if not values:
        return _ALL
    # Prometheus uses RE2, which rejects unnecessary escapes.
    escaped = (re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", value) for value in values)
    return "|".join(escaped).replace("\\", "\\\\").replace('"', '\\"')


@cache
def boards() -> tuple[Board, ...]:
    """Return all dashboards in order."""
    return tuple(
        _board(name, json.loads(grafana.content(plan)))
        for name, plan in zip(grafana.NAMES, grafana.dashboards(), strict=True)
    )


def _board(name: str, document: Mapping[str, Any]) -> Board:
    return Board(name=name, title=document["title"], panels=tuple(_panel(one) for one in document["panels"]))


def _panel(document: Mapping[str, Any]) -> Panel:
    (target,) = document["targets"]
    defaults = document["fieldConfig"]["defaults"]
    return Panel(
        title=document["title"],
        kind=cast("Kind", document["type"]),
        expr=target["expr"],
        legend=target.get("legendFormat", ""),
        unit=defaults.get("unit", "short"),
        description=document.get("description", ""),
        lowest=defaults.get("min"),
        highest=defaults.get("max"),
        columns=document["gridPos"]["w"],
    )
