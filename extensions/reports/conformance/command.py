"""`gpu-platform conformance`: reports how a stack meets the CNCF's Kubernetes AI Conformance."""

from __future__ import annotations

import json
from typing import Final, Literal

from rich.table import Table
from rich.text import Text

from extensions.reports.conformance import answers, as_json, observe, product_file
from extensions.reports.conformance.answers import Answer, Status, unmet
from gpu_platform.api.live import client_of
from gpu_platform.api.plans import environment_of, load_stack
from gpu_platform.base.console import console
from gpu_platform.base.errors import ExitCode
from gpu_platform.catalog import load_catalog

_STYLES: Final = {
    Status.IMPLEMENTED: "green",
    Status.PARTIAL: "yellow",
    Status.MISSING: "red",
    Status.NOT_APPLICABLE: "dim",
}


def show_conformance(stack: str, *, output: Literal["text", "json", "product"], live: bool) -> ExitCode:
    """Print the answers to all requirements. With `live`, also check the cluster. Returns a finding if a MUST
    requirement is not met.

    Raises BadInput for a team's stack. Raises UnknownOutcome if the cluster does not answer.
    """
    loaded = load_stack(stack)
    plan = environment_of(loaded, ", because conformance applies to a platform", "conformance {}")
    conformance = max(load_catalog().ai_conformance.values(), key=lambda one: one.version)
    found = answers(plan, conformance)
    if live:
        found = observe(found, client_of(plan))
    if output == "json":
        print(json.dumps(as_json(loaded.stack, conformance, found), indent=2))
    elif output == "product":
        print(product_file(conformance, found), end="")
    else:
        _print(
            found, f"Stack {loaded.stack}: Kubernetes AI Conformance {conformance.version} ({conformance.source})"
        )
    return ExitCode.FINDING if unmet(found) else ExitCode.GOOD


def _print(found: tuple[Answer, ...], title: str) -> None:
    out = console()
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("requirement", no_wrap=True)
    table.add_column("met by, or missing", overflow="fold")
    for answer in found:
        lines = [*answer.by, *answer.observed, *([f"missing: {answer.missing}"] if answer.missing else [])]
        status = Text.assemble(
            answer.requirement.id,
            f"\n  {answer.requirement.level}: ",
            (answer.status.value, _STYLES[answer.status]),
        )
        table.add_row(status, Text("\n".join(lines)))
    out.print(table)
    left = unmet(found)
    names = ", ".join(answer.requirement.id for answer in left)
    out.print(
        Text(
            f"not met: {len(left)} MUST: {names}" if left else "every MUST requirement is met",
            style="red" if left else "green",
        )
    )
