"""`gpu-platform production`: a checklist to go through before a platform goes into production."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from extensions.reports.production import Point, Status, Subject, checklist
from extensions.reports.production.checklist import missing
from gpu_platform.api.documents import Environment, Positions, chosen_backend, parse_platform
from gpu_platform.api.plans import LoadedStack, load_stack
from gpu_platform.api.program import record_stack
from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Problem
from gpu_platform.catalog import load_catalog

_STYLES: Final = {
    Status.DONE: "green",
    Status.NOT_DONE: "red",
    Status.NOT_APPLICABLE: "dim",
    Status.UNKNOWN: "yellow",
}


def show_production(stack: str, *, to_json: bool) -> ExitCode:
    """Print the checklist as text or JSON. A point that is not done is a finding.

    Raises BadInput for a team's stack.
    """
    loaded = load_stack(stack)
    points = checklist(_subject(loaded))
    if to_json:
        print(json.dumps(_document(loaded, points), indent=2))
    else:
        _print(loaded, points)
    return ExitCode.FINDING if any(missing(points)) else ExitCode.GOOD


def _subject(loaded: LoadedStack) -> Subject:
    spec, plan = parse_platform(loaded.platform, str(loaded.path)), loaded.plan
    if not isinstance(spec, Environment) or plan.kind != "environment":
        problem = Problem(
            "kind",
            "'team'",
            "a stack of kind environment, because the checklist is for platforms",
            f"run `gpu-platform production {loaded.environment_argument}`",
        )
        raise BadInput(str(loaded.path), [problem])
    return Subject(
        argument=loaded.argument,
        spec=spec,
        plan=plan,
        resources=record_stack(loaded).resources,
        backend=chosen_backend(),
        today=datetime.datetime.now(datetime.UTC).date(),
        catalog=load_catalog(),
    )


def _place(point: Point, path: Path, positions: Positions) -> str:
    return f"{path}:{positions.of(point.field).line}" if point.field else ""


def _document(loaded: LoadedStack, points: Sequence[Point]) -> dict[str, Any]:
    positions = Positions(loaded.path)
    return {
        "version": 1,
        "stack": loaded.stack,
        "points": [
            {
                "name": point.name,
                "status": point.status.value,
                "evidence": list(point.evidence),
                "field": point.field or None,
                "line": positions.of(point.field).line if point.field else None,
                "fix": point.fix or None,
            }
            for point in points
        ],
        "not_done": len(list(missing(points))),
    }


def _print(loaded: LoadedStack, points: Sequence[Point]) -> None:
    out, positions = console(), Positions(loaded.path)
    table = Table(title=f"Stack {loaded.stack}: before production", title_justify="left", box=None)
    for column in ("point", "status", "evidence", "where"):
        table.add_column(column, overflow="fold")
    for point in points:
        lines = [*point.evidence, *([f"fix: {point.fix}"] if point.fix else [])]
        table.add_row(
            point.name,
            Text(point.status.value, style=_STYLES[point.status]),
            Text("\n".join(lines)),
            Text(_place(point, Path(loaded.path.name), positions)),
        )
    out.print(table)
    left = [point.name for point in missing(points)]
    asked = sum(point.status is Status.UNKNOWN for point in points)
    text = f"not done: {len(left)} of {len(points)}: {', '.join(left)}" if left else "nothing is left to do"
    unknown = f"; {asked} cannot be checked by this program" if asked else ""
    out.print(Text(text + unknown, style="red" if left else "green"))
