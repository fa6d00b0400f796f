"""Commands of the group `sandbox`: the control plane on this machine and its simulated nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpu_platform.cli.options import CONTEXT, CommandGroup, Format, FormatOption, leave

sandbox_app = typer.Typer(
    cls=CommandGroup,
    help="Kubernetes control plane on this machine with simulated GPU nodes.",
    no_args_is_help=True,
    context_settings=CONTEXT,
)


NameOption = Annotated[str, typer.Option("--name", help="Name of the sandbox; several can run at the same time.")]


@sandbox_app.command("up")
def sandbox_up(
    name: NameOption = "local",
    api_port: Annotated[
        int | None,
        typer.Option("--api-port", min=1, max=65535, help="Port of the API server. Default: a free port."),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Folder for the sandbox's data.")] = None,
    crds: Annotated[
        Path | None,
        typer.Option(
            "--crds", help="Folder with CRDs to install instead of the default CRDs, which accept any content."
        ),
    ] = None,
    kubernetes: Annotated[
        str | None,
        typer.Option(
            "--kubernetes",
            metavar="VERSION",
            help="Minor version, such as 1.35. A newer version upgrades an existing sandbox in place.",
        ),
    ] = None,
    karpenter: Annotated[
        bool,
        typer.Option(
            "--karpenter", help="From now on, run Karpenter, which creates simulated nodes for NodePools."
        ),
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Start or upgrade a sandbox, or restart its stopped components."""
    from gpu_platform.cli.sandbox import start

    to_json = output is Format.JSON
    start(
        name,
        api_port=api_port,
        data_dir=data_dir,
        crds=crds,
        kubernetes=kubernetes,
        karpenter=karpenter,
        to_json=to_json,
    )


@sandbox_app.command("list")
def sandbox_list(output: FormatOption = Format.TEXT) -> None:
    """List the sandboxes of this machine: state, Kubernetes version, address."""
    from gpu_platform.cli.sandbox import list_sandboxes

    list_sandboxes(to_json=output is Format.JSON)


@sandbox_app.command("down")
def sandbox_down(
    name: NameOption = "local",
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Keep the data of the cluster.")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Stop all processes of a sandbox and delete its data."""
    from gpu_platform.cli.sandbox import stop

    stop(name, keep_data=keep_data, to_json=output is Format.JSON)


@sandbox_app.command("status")
def sandbox_status(name: NameOption = "local", output: FormatOption = Format.TEXT) -> None:
    """Show whether a sandbox is running; exit with code 1 if it is not."""
    from gpu_platform.cli.sandbox import show

    leave(show(name, to_json=output is Format.JSON))


@sandbox_app.command("fault")
def sandbox_fault(
    node: Annotated[
        str | None,
        typer.Argument(
            metavar="NODE", help="Name of a simulated node, such as train-0. Without it, all faults are listed."
        ),
    ] = None,
    faults: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FAULT",
            help='Fault as JSON, such as {"kind": "gpu-missing", "index": 3}. Without it, all faults are removed.',
        ),
    ] = None,
    name: NameOption = "local",
    output: FormatOption = Format.TEXT,
) -> None:
    """Inject faults into a simulated node, remove them, or list the faults of all nodes."""
    from gpu_platform.cli.sandbox import list_faults, set_faults

    if node is None:
        list_faults(name, to_json=output is Format.JSON)
        return
    set_faults(name, node, faults or [], to_json=output is Format.JSON)


@sandbox_app.command("replay")
def sandbox_replay(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of a simulated node, such as train-0.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Recording that `node-check --record` wrote on a node. Without it, the replay ends.",
        ),
    ] = None,
    name: NameOption = "local",
    output: FormatOption = Format.TEXT,
) -> None:
    """Replay the recording of a real node on a simulated node, or end the replay."""
    from gpu_platform.cli.sandbox import replay

    replay(name, node, file, to_json=output is Format.JSON)
