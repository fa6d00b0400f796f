"""Commands about capacity and cost: whether the nodes can satisfy the quotas, and the cost of pools, teams and
workloads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gpu_platform.cli import extensions
from gpu_platform.cli.options import CONTEXT, CommandGroup, HtmlFormat, StackArgument, leave


class _StackFirst(CommandGroup):
    """Command group with the default command `show`: `capacity local` means `capacity show local`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer's own copy of Click
        """Insert the default command unless the first argument is a command of the group."""
        if args and args[0] not in self.commands and (missing := extensions.missing(args[0])):
            ctx.fail(missing)
        known = args and (args[0] in self.commands or args[0] in ("-h", "--help"))
        return super().parse_args(ctx, args if known else ["show", *args])


capacity_app = typer.Typer(
    cls=_StackFirst,
    context_settings=CONTEXT,
    help="Capacity and cost of a stack (`capacity STACK`), or pools for given workloads (`suggest`).",
)


UtilisationOption = Annotated[
    Path | None,
    typer.Option("--utilisation", help="YAML or JSON file with the measured utilisation, 0 to 1, by pool."),
]
PrometheusOption = Annotated[
    str | None,
    typer.Option("--prometheus", metavar="URL", help="Read the utilisation of the last 14 days from Prometheus."),
]
SecondsOption = Annotated[
    float, typer.Option("--seconds", min=0.1, help="Time limit of one placement, in seconds.")
]


@capacity_app.command("show")
def capacity_show(
    stack: StackArgument,
    utilisation: UtilisationOption = None,
    prometheus: PrometheusOption = None,
    seconds: SecondsOption = 10.0,
    deployed: Annotated[
        bool, typer.Option("--deployed", help="Read the quotas of team stacks from the cluster.")
    ] = False,
    output: Annotated[
        HtmlFormat, typer.Option("--format", help="Output format; html is one page with bars by resource.")
    ] = HtmlFormat.TEXT,
) -> None:
    """Show GPUs by pool, whether the nodes satisfy all quotas, cost and waste; `show` is the default command."""
    from gpu_platform.cli.capacity import show_capacity

    leave(
        show_capacity(
            stack,
            utilisation=utilisation,
            prometheus=prometheus,
            seconds=seconds,
            output=output.value,
            deployed=deployed,
        )
    )


def cost(
    stack: StackArgument,
    utilisation: UtilisationOption = None,
    prometheus: PrometheusOption = None,
    seconds: SecondsOption = 5.0,
    output: Annotated[
        HtmlFormat, typer.Option("--format", help="Output format; html is one page with bars by pool and team.")
    ] = HtmlFormat.TEXT,
) -> None:
    """Show the cost by pool, team and workload, the idle cost, and changes to the stack file that reduce it."""
    from gpu_platform.cli.cost import show_cost

    leave(show_cost(stack, utilisation=utilisation, prometheus=prometheus, seconds=seconds, output=output.value))
