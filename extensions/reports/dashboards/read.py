"""Reads the data of panels from a Prometheus server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extensions.reports.dashboards.panels import Board, Panel
from gpu_platform.api.live import Prometheus, QueryRefused, Series

_POINTS: Final = 240  # points of a line, about one for every two pixels on a phone
_LEAST_STEP: Final = 15.0


@dataclass(frozen=True, slots=True)
class Period:
    """Start and end of a period in seconds since 1970."""

    start: float
    end: float

    @property
    def step(self) -> float:
        """Seconds between two samples."""
        return max(_LEAST_STEP, (self.end - self.start) / _POINTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelData:
    """Data of a panel. The series with the highest last value comes first.

    `error` is the reason why there is no data.
    """

    panel: Panel
    series: tuple[Series, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardData:
    """A dashboard with its data."""

    board: Board
    answers: tuple[PanelData, ...]


def read_boards(
    server: Prometheus, boards: Sequence[Board], chosen: Mapping[str, Sequence[str]], period: Period
) -> tuple[BoardData, ...]:
    """Return the data of all panels. `chosen` contains values by variable, not necessarily for all variables.

    Raises UnknownOutcome if Prometheus does not answer. If Prometheus rejects a query, its panel contains the
    error.
    """
    return tuple(
        BoardData(board=board, answers=tuple(_answer(server, panel, chosen, period) for panel in board.panels))
        for board in boards
    )


def _answer(server: Prometheus, panel: Panel, chosen: Mapping[str, Sequence[str]], period: Period) -> PanelData:
    query = panel.query(chosen)
    try:
        if panel.kind == "table":
            found = server.at(query, period.end)
        else:
            found = server.over(query, period.start, period.end, period.step)
    except QueryRefused as error:
        return PanelData(panel=panel, error=str(error))
    ordered = sorted(found, key=lambda one: (-one.last, panel.name_of(one.labels)))
    return PanelData(panel=panel, series=tuple(ordered))
