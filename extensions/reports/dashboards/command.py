"""`gpu-platform dashboards`: the panels of the Grafana dashboards as one HTML page, with current data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from extensions.reports.dashboards import VARIABLES, Board, BoardData, Period, boards, dashboards_page, read_boards
from gpu_platform.api.live import Prometheus
from gpu_platform.base.errors import BadInput, ExitCode, Problem, did_you_mean
from gpu_platform.base.quantity import parse_duration

_LEAST_SECONDS: Final = 300.0
_MOST_SECONDS: Final = 90 * 86400.0


def show_dashboards(
    prometheus: str, *, names: Sequence[str], chosen: Sequence[str], last: str, now: float, to_json: bool
) -> ExitCode:
    """Print the page, or its data as JSON.

    `names` are the names of dashboards; an empty sequence means all. `chosen` contains values such as
    `pool=train`. `now` is the end of the period in seconds since 1970. Raises BadInput, or UnknownOutcome if
    Prometheus does not answer.
    """
    problems: list[Problem] = []
    drawn = _drawn(names, problems)
    values = _values(chosen, problems)
    seconds = _seconds(last, problems)
    if problems:
        raise BadInput("command line", problems)
    server = Prometheus(prometheus)
    period = Period(now - seconds, now)
    answers = read_boards(server, drawn, values, period)
    if to_json:
        print(json.dumps(_document(answers, server.shown, values, period), indent=2))
    else:
        print(dashboards_page(answers, server.shown, values, period), end="")
    return ExitCode.GOOD


def _document(
    answers: Sequence[BoardData], source: str, chosen: Mapping[str, Sequence[str]], period: Period
) -> dict[str, Any]:
    """Return the data of the page as plain JSON values. Times are in seconds since 1970."""
    return {
        "version": 1,
        "prometheus": source,
        "start": period.start,
        "end": period.end,
        "dashboards": [
            {
                "name": one.board.name,
                "title": one.board.title,
                "panels": [
                    {
                        "title": answer.panel.title,
                        "query": answer.panel.query(chosen),
                        "unit": answer.panel.unit,
                        "error": answer.error or None,
                        "series": [asdict(series) for series in answer.series],
                    }
                    for answer in one.answers
                ],
            }
            for one in answers
        ],
    }


def _drawn(names: Sequence[str], problems: list[Problem]) -> tuple[Board, ...]:
    known = [board.name for board in boards()]
    for name in names:
        if name not in known:
            allowed = f"one of {', '.join(known)}"
            problems.append(Problem("--board", f"{name!r}", allowed, did_you_mean(name, known)))
    return tuple(board for board in boards() if not names or board.name in names)


def _values(chosen: Sequence[str], problems: list[Problem]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in chosen:
        name, given, value = one.partition("=")
        if name not in VARIABLES or not given or not value:
            allowed = f"{', '.join(VARIABLES[:-1])} or {VARIABLES[-1]}, and a value"
            problems.append(Problem("--set", f"{one!r}", allowed, "for example, write --set pool=train"))
        found.setdefault(name, []).append(value)
    return found


def _seconds(last: str, problems: list[Problem]) -> float:
    try:
        seconds = parse_duration(last)
    except ValueError:
        seconds = 0.0
    if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        problems.append(Problem("--last", f"{last!r}", "5m to 2160h (90 days)", "for example, write 6h"))
    return seconds
