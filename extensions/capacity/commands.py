"""Commands for capacity: `place`, `scheduler-config`, `rehearse` and `suggest`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from gpu_platform.cli.options import ExtensionCommand, Format, FormatOption, HtmlFormat, StackArgument, leave


class SchedulerProfile(StrEnum):
    """Scores that kube-scheduler uses to compare nodes."""

    DEFAULT = "default"
    MOST_ALLOCATED = "most-allocated"
    PACKED = "packed"


def place(
    stack: StackArgument,
    workloads: Annotated[
        Path | None,
        typer.Option("--workloads", help="Kubernetes manifests, or a YAML file with a list of pods."),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Start from the pods that run on the cluster, and find moves that free whole GPUs."
        ),
    ] = False,
    profile: Annotated[
        SchedulerProfile | None,
        typer.Option(
            "--profile",
            help="Scores that the scheduler uses; by default, the scores of the cluster's scheduler. packed is "
            "the profile that scheduler-config prints.",
        ),
    ] = None,
    output: Annotated[
        HtmlFormat, typer.Option("--format", help="Output format; html is one page with a picture of the GPUs.")
    ] = HtmlFormat.TEXT,
) -> None:
    """Show where pods would be placed, why pods stay pending, and what helps; exit with 1 if any stay pending."""
    from extensions.capacity.place.command import show_placement

    leave(
        show_placement(
            stack,
            workloads=workloads,
            live=live,
            output=output.value,
            profile=profile.value if profile is not None else None,
        )
    )


def scheduler_config(stack: StackArgument, output: FormatOption = Format.TEXT) -> None:
    """Print the configuration of a kube-scheduler that packs pods with GPUs, so that whole nodes stay free."""
    from extensions.capacity.place.command import show_scheduler_config

    show_scheduler_config(stack, as_json=output is Format.JSON)


def rehearse(
    stack: StackArgument,
    trace: Annotated[
        Path, typer.Option("--trace", help="Jobs: a CSV table, or a trace of openb, Helios or Philly.")
    ],
    against: Annotated[
        str | None, typer.Option("--against", metavar="STACK", help="Another stack to compare with.")
    ] = None,
    teams: Annotated[
        list[str] | None,
        typer.Option(
            "--team",
            metavar="NAME=TEAM",
            help="Map a team of the trace to a team of the stack; '*=TEAM' maps all teams that are not named.",
        ),
    ] = None,
    node_start: Annotated[
        str,
        typer.Option("--node-start", metavar="DURATION", help="Time until a new node for a pending pod is ready."),
    ] = "10m",
    node_idle: Annotated[
        str,
        typer.Option("--node-idle", metavar="DURATION", help="Time without pods after which a node is removed."),
    ] = "10m",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="DURATION",
            help="Interval at which jobs save checkpoints. Without it, a stopped job starts from the beginning.",
        ),
    ] = None,
    output: Annotated[
        HtmlFormat, typer.Option("--format", help="Output format; html is one page with a time line.")
    ] = HtmlFormat.TEXT,
) -> None:
    """Simulate how long the jobs of a trace would wait on a stack; exit with 1 if some jobs never run."""
    from extensions.capacity.rehearse.command import Options, show_rehearsal

    options = Options(teams=teams or (), node_start=node_start, node_idle=node_idle, checkpoint=checkpoint)
    leave(show_rehearsal(stack, trace=trace, against=against, options=options, output=output.value))


def suggest(
    workloads: Annotated[Path, typer.Option("--workloads", help="YAML file with the workloads.")],
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, help="Time limit of the search, in seconds.")
    ] = 20.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Find the cheapest pools for workloads; print YAML for a stack file, with reasons and alternatives."""
    from extensions.capacity.suggest.command import suggest_pools

    leave(suggest_pools(workloads, seconds=seconds, to_json=output is Format.JSON))


_TASK: Final = "Capacity and cost"
COMMANDS: Final = (
    ExtensionCommand(place, _TASK),
    ExtensionCommand(rehearse, _TASK),
    ExtensionCommand(scheduler_config, _TASK),
    ExtensionCommand(suggest, _TASK, group="capacity"),
)
