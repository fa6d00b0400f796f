"""`gpu-platform recipe`: compares an NVIDIA AICR recipe with the plan of a stack."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from extensions.reports.recipe.compare import ComponentResult, ConstraintResult, Verdict, compare, components
from extensions.reports.recipe.document import read_recipe
from gpu_platform.api.plans import environment_of, load_stack
from gpu_platform.base.console import console
from gpu_platform.base.errors import ExitCode
from gpu_platform.catalog import load_catalog

_STYLES = {Verdict.MET: "green", Verdict.NOT_MET: "bold red", Verdict.UNKNOWN: "magenta"}


def show_recipe(stack: str, file: Path, *, to_json: bool) -> ExitCode:
    """Print how a stack meets a recipe. Returns FINDING if a constraint with severity error is not met.

    Raises BadInput if the file is not a recipe, and for a team's stack.
    """
    loaded = load_stack(stack)
    plan = environment_of(loaded, ", because a recipe describes clusters and nodes", f"recipe {{}} {file}")
    read = read_recipe(file)
    catalog = load_catalog()
    answers = compare(read, plan, catalog)
    parts = components(read, plan, catalog)
    warnings = {one.name for one in read.all_constraints if one.severity == "warning"}
    failed = [one for one in answers if one.verdict is Verdict.NOT_MET and one.constraint not in warnings]
    if to_json:
        document = {
            "stack": stack,
            "recipe": str(file),
            "constraints": [asdict(one) for one in answers],
            "components": [asdict(one) for one in parts],
        }
        print(json.dumps(document, indent=2))
    else:
        _print(stack, file, answers, parts)
    return ExitCode.FINDING if failed else ExitCode.GOOD


def _print(stack: str, file: Path, answers: Sequence[ConstraintResult], parts: Sequence[ComponentResult]) -> None:
    out = console()
    out.print(Text(f"Stack {stack} compared with {file}"))
    table = _table("constraint")
    for one in answers:
        verdict = Text(one.verdict + (f": {one.why}" if one.why else ""), style=_STYLES[one.verdict])
        table.add_row(Text(one.constraint), Text(one.wanted), Text(one.found), verdict)
    out.print(table)
    listed = _table("component")
    for part in parts:
        listed.add_row(Text(part.name), Text(part.wanted), Text(part.version), Text(part.handled))
    out.print(listed)


def _table(first: str) -> Table:
    """Return an empty table whose first column does not wrap."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for head in (first, "recipe", "stack", "answer"):
        table.add_column(head, overflow="fold", no_wrap=head == first)
    return table
