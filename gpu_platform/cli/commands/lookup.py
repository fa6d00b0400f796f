"""Lookup commands: the groups `machines` and `policies`."""

from __future__ import annotations

from typing import Annotated

import typer

from gpu_platform.cli.options import CONTEXT, CommandGroup, Format, FormatOption, leave

machines_app = typer.Typer(
    cls=CommandGroup,
    help="Machine types of the catalogue: GPUs, network, prices, regions.",
    no_args_is_help=True,
    context_settings=CONTEXT,
)
policies_app = typer.Typer(
    cls=CommandGroup,
    help="Rules of the policy pack, and a stack's own rules.",
    no_args_is_help=True,
    context_settings=CONTEXT,
)
StackOption = Annotated[
    str | None,
    typer.Option(
        "--stack", metavar="STACK", help="Also list the stack's own rules, and show its settings for each rule."
    ),
]


@machines_app.command("list")
def machines_list(
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider", metavar="NAME", help="Only machine types of eks, gke or existing (on-premises)."
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu", metavar="MODEL", help="Only machine types with this GPU, such as H100-80GB or L40S."
        ),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            "--region", metavar="REGION", help="Only machine types that this region offers, with their prices."
        ),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """List the machine types with GPUs, and their network and price."""
    from gpu_platform.cli.machines import list_machines

    leave(list_machines(provider=provider, gpu=gpu, region=region, to_json=output is Format.JSON))


@machines_app.command("show")
def machines_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Machine type, such as p5.48xlarge.")],
    output: FormatOption = Format.TEXT,
) -> None:
    """Show one machine type: GPUs, CPU, memory, network, disks, quotas, regions and prices."""
    from gpu_platform.cli.machines import show_machine

    leave(show_machine(name, to_json=output is Format.JSON))


@policies_app.command("list")
def policies_list(stack: StackOption = None, output: FormatOption = Format.TEXT) -> None:
    """List the rules with level, severity and requirement."""
    from gpu_platform.cli.policies import list_rules

    leave(list_rules(stack, to_json=output is Format.JSON))


@policies_app.command("explain")
def policies_explain(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="Id of a rule, such as gpu-node-taint.")],
    stack: StackOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Explain one rule: what it requires, its settings, and how to configure or exempt it."""
    from gpu_platform.cli.policies import explain_rule

    leave(explain_rule(rule, stack, to_json=output is Format.JSON))
