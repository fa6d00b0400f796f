"""Commands that deploy and remove stacks or check their prerequisites: preview, up, destroy, doctor, team."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gpu_platform.cli.options import CONTEXT, CommandGroup, Format, FormatOption, StackArgument, leave

team_app = typer.Typer(
    cls=CommandGroup,
    help="Namespaces of teams that left their stack.",
    no_args_is_help=True,
    context_settings=CONTEXT,
)


class Engine(StrEnum):
    """Engine that deploys a stack."""

    AUTO = "auto"
    PULUMI = "pulumi"
    EMBEDDED = "embedded"


EngineOption = Annotated[
    Engine, typer.Option("--engine", help="auto uses the Pulumi CLI if possible, otherwise the embedded engine.")
]
FailOnOption = Annotated[
    str | None,
    typer.Option(
        "--fail-on",
        metavar="EFFECTS",
        help="Exit with 1, before anything changes, if a change has one of these effects: "
        "deletes-data, replaces, cuts-access, removes-capacity, rolls-nodes, restarts-pods. With `blocked`, also "
        "exit if a pod that is never evicted blocks a change.",
    ),
]
TimeoutOption = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        help="Stop after this time, such as 45m, and print what is not finished; run the command again to "
        "continue.",
    ),
]


def preview(
    stack: StackArgument,
    engine: EngineOption = Engine.AUTO,
    objects: Annotated[bool, typer.Option("--objects", help="Also print each object that changes.")] = False,
    fail_on: FailOnOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show the changes that `up` would make, and their impact on nodes, GPUs, pods, data and access."""
    from gpu_platform.cli.deploy import preview_stack

    to_json = output is Format.JSON
    leave(preview_stack(stack, engine.value, to_json=to_json, objects=objects, fail_on=fail_on))


def up(
    stack: StackArgument,
    engine: EngineOption = Engine.AUTO,
    fail_on: FailOnOption = None,
    timeout: TimeoutOption = None,
    outside_window: Annotated[
        bool,
        typer.Option(
            "--outside-window",
            help="Change nodes even if the maintenance window of the stack (`changes.window`) is closed.",
        ),
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Deploy a stack, wait until its nodes pass validation, and print a report."""
    from gpu_platform.cli.deploy import deploy_stack

    leave(
        deploy_stack(
            stack,
            engine.value,
            to_json=output is Format.JSON,
            fail_on=fail_on,
            timeout=timeout,
            outside_window=outside_window,
        )
    )


def destroy(
    stack: StackArgument,
    engine: EngineOption = Engine.AUTO,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for the stack's name; required without a terminal.")
    ] = False,
    delete_data: Annotated[
        bool,
        typer.Option(
            "--delete-data",
            help="Also delete the objects that members of the stack's teams created, including volumes. Before a "
            "cluster is deleted, also delete its load balancers.",
        ),
    ] = False,
    timeout: TimeoutOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """List what a stack deployed and delete it after confirmation. Objects that team members created are kept."""
    from gpu_platform.cli.deploy import destroy_stack

    to_json = output is Format.JSON
    leave(destroy_stack(stack, engine.value, yes=yes, delete_data=delete_data, timeout=timeout, to_json=to_json))


@team_app.command("remove")
def team_remove(
    stack: StackArgument,
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Name of the team, which is its namespace.")],
    confirm: Annotated[
        str | None,
        typer.Option(
            "--confirm", metavar="TEAM", help="The team's name, which confirms the deletion without a terminal."
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write manifests of the objects to a new YAML file."),
    ] = None,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Write the data of Secrets to the file as well.")
    ] = False,
    delete_claims: Annotated[
        bool, typer.Option("--delete-claims", help="Delete bound volume claims too.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the objects, and write the file for --export.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Delete the retained namespace of a team that left its stack, with everything that members created in it."""
    from gpu_platform.cli.team import remove_team

    leave(
        remove_team(
            stack,
            team,
            confirm=confirm,
            export=export,
            with_secrets=with_secrets,
            delete_claims=delete_claims,
            dry_run=dry_run,
            to_json=output is Format.JSON,
        )
    )


def doctor(
    stack: Annotated[
        str | None, typer.Argument(metavar="[STACK]", help="Also check the prerequisites of `up` for this stack.")
    ] = None,
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help=(
                "Also query the cloud, read-only and with your credentials, for problems that would make `up` "
                "fail."
            ),
        ),
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Check the tools on this machine and a stack's prerequisites for `up`; print how to get missing ones."""
    from gpu_platform.cli.doctor import examine

    leave(examine(stack, to_json=output is Format.JSON, online=online))
