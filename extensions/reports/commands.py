"""Commands that report about a stack: `conformance`, `recipe`, `production` and `dashboards`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from gpu_platform.cli.options import ExtensionCommand, Format, FormatOption, StackArgument, leave


class ConformanceFormat(StrEnum):
    """Output format of `conformance`."""

    TEXT = "text"
    JSON = "json"
    PRODUCT = "product"


def conformance(
    stack: StackArgument,
    live: Annotated[bool, typer.Option("--live", help="Also check the cluster.")] = False,
    output: Annotated[
        ConformanceFormat,
        typer.Option(
            "--format", help="Output format; product is the file that is submitted to the conformance project."
        ),
    ] = ConformanceFormat.TEXT,
) -> None:
    """Report what meets each requirement of the CNCF's Kubernetes AI Conformance, or what is missing."""
    from extensions.reports.conformance.command import show_conformance

    leave(show_conformance(stack, output=output.value, live=live))


def recipe(
    stack: StackArgument,
    file: Annotated[Path, typer.Argument(help="NVIDIA AICR recipe: the output of `aicr recipe`, or an overlay.")],
    output: FormatOption = Format.TEXT,
) -> None:
    """Compare a stack with an NVIDIA AICR recipe: which constraints it meets, and how it provides components."""
    from extensions.reports.recipe.command import show_recipe

    leave(show_recipe(stack, file, to_json=output is Format.JSON))


class PageFormat(StrEnum):
    """Output format of a command that prints a page."""

    HTML = "html"
    JSON = "json"


def dashboards(
    prometheus: Annotated[
        str,
        typer.Option("--prometheus", metavar="URL", help="Prometheus server that evaluates the stack's rules."),
    ],
    board: Annotated[
        list[str] | None,
        typer.Option(
            "--board", metavar="NAME", help="Show only this dashboard; repeatable. The default is all five."
        ),
    ] = None,
    chosen: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Show only this node, pool, team or workload; repeatable."
        ),
    ] = None,
    last: Annotated[
        str, typer.Option("--last", metavar="TIME", help="Length of the period, from 5m to 2160h.")
    ] = "6h",
    output: Annotated[
        PageFormat, typer.Option("--format", help="Output format; json contains the series of each panel.")
    ] = PageFormat.HTML,
) -> None:
    """Print the panels of the Grafana dashboards as one HTML page, for use without Grafana."""
    import time

    from extensions.reports.dashboards.command import show_dashboards

    leave(
        show_dashboards(
            prometheus,
            names=board or (),
            chosen=chosen or (),
            last=last,
            now=time.time(),
            to_json=output is PageFormat.JSON,
        )
    )


def production(stack: StackArgument, output: FormatOption = Format.TEXT) -> None:
    """Print a checklist for a platform before production; exit with 1 if something is missing."""
    from extensions.reports.production.command import show_production

    leave(show_production(stack, to_json=output is Format.JSON))


_TASK: Final = "Reports"
COMMANDS: Final = (
    ExtensionCommand(production, _TASK),
    ExtensionCommand(conformance, _TASK),
    ExtensionCommand(recipe, _TASK),
    ExtensionCommand(dashboards, _TASK),
)
