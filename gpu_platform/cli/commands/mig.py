"""Commands of the group `mig`: profiles, legal layouts, minimum number of GPUs."""

from __future__ import annotations

from typing import Annotated

import typer

from gpu_platform.cli.options import CONTEXT, CommandGroup, Format, FormatOption, leave

mig_app = typer.Typer(
    cls=CommandGroup,
    help="MIG geometry: profiles, legal layouts, minimum number of GPUs.",
    no_args_is_help=True,
    context_settings=CONTEXT,
)


GpuOption = Annotated[
    str, typer.Option("--gpu", metavar="MODEL", help="GPU model by its NVML or common name, such as A100-80GB.")
]


@mig_app.command("list")
def mig_list(gpu: GpuOption, output: FormatOption = Format.TEXT) -> None:
    """Show the MIG profiles of a GPU model, and all maximal layouts."""
    from gpu_platform.cli.mig import list_profiles

    leave(list_profiles(gpu, to_json=output is Format.JSON))


@mig_app.command("check")
def mig_check(
    gpu: GpuOption,
    instances: Annotated[
        list[str],
        typer.Argument(
            metavar="PROFILE:COUNT...",
            help="Instances, such as 3g.40gb:1 1g.10gb:4. `=` is accepted instead of `:`.",
        ),
    ],
    output: FormatOption = Format.TEXT,
) -> None:
    """Check whether one GPU can hold the instances. If not, print the conflicts and exit with code 1."""
    from gpu_platform.cli.mig import check_instances

    leave(check_instances(gpu, instances, to_json=output is Format.JSON))


@mig_app.command("solve")
def mig_solve(
    gpu: Annotated[
        list[str],
        typer.Option("--gpu", metavar="MODEL", help="GPU model; repeatable, with one --demand for each."),
    ],
    demand: Annotated[
        list[str],
        typer.Option(
            "--demand",
            metavar="PROFILE:COUNT,...",
            help="Number of instances, such as 1g.10gb:14,3g.40gb:3. `=` is accepted instead of `:`.",
        ),
    ],
    gpus_per_node: Annotated[
        int, typer.Option("--gpus-per-node", min=1, max=16, help="Number of GPUs per node.")
    ] = 8,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="Time limit of a search, in seconds.")
    ] = 10.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Find the minimum number of GPUs for a demand; print placements, lower bound and a mig-parted config."""
    from gpu_platform.cli.mig import solve_demands

    leave(solve_demands(gpu, demand, gpus_per_node=gpus_per_node, seconds=seconds, to_json=output is Format.JSON))
