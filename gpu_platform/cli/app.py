"""Commands and their options; each does its work in a module of its own, imported when it is called.

Exit codes everywhere: 0 good, 1 a finding, 2 bad input, 3 could not tell.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gpu_platform.errors import BadInput, ExitCode, GpuPlatformError
from gpu_platform.project import check_project, version

_INTERRUPTED = 130  # 128 + SIGINT, as shells have it

app = typer.Typer(
    name="gpu-platform",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
sandbox_app = typer.Typer(
    help="The control plane on this machine, with simulated GPU nodes.", no_args_is_help=True
)
app.add_typer(sandbox_app, name="sandbox")
mig_app = typer.Typer(help="MIG geometry: profiles, legal layouts, the fewest GPUs.", no_args_is_help=True)
app.add_typer(mig_app, name="mig")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(version())
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Turns a stack file into a working, proven GPU platform on Kubernetes."""
    check_project()


class _StackFirst(TyperGroup):
    """A group whose first word may be a stack instead of a command: `capacity local` is `capacity show local`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer's own copy of Click
        """Put the default command before anything that is none of the group's."""
        known = args and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if known else ["show", *args])


capacity_app = typer.Typer(
    cls=_StackFirst, help="Capacity of a stack: `capacity STACK`; or pools for workloads: `capacity suggest`."
)
app.add_typer(capacity_app, name="capacity")


class Format(StrEnum):
    """How a command prints its result."""

    TEXT = "text"
    JSON = "json"


class Engine(StrEnum):
    """Which engine deploys."""

    AUTO = "auto"
    PULUMI = "pulumi"
    EMBEDDED = "embedded"


StackArgument = Annotated[
    str, typer.Argument(metavar="STACK", help="A stack's name (local), or the path of a stack file.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="text for people, json for machines.")]
EngineOption = Annotated[Engine, typer.Option("--engine", help="auto: the Pulumi CLI where it is usable.")]
NameOption = Annotated[str, typer.Option("--name", help="Sandboxes of different names run side by side.")]


@app.command()
def render(stack: StackArgument, out: Annotated[Path, typer.Option("--out", help="Folder to write to.")]) -> None:
    """Write what a stack registers: resources.json, manifests, state.json, plan.json."""
    gc.disable()  # what a render makes lives until it ends; collecting takes a fifteenth of its time
    from gpu_platform.cli.render import render_to

    render_to(stack, out)


@app.command()
def check(stack: StackArgument, output: FormatOption = Format.TEXT) -> None:
    """Judge a stack without touching anything: spec, plan and policies; prints what was chosen and why."""
    from gpu_platform.cli.check import check_stack

    _leave(check_stack(stack, as_json=output is Format.JSON))


@capacity_app.command("show")
def capacity_show(
    stack: StackArgument,
    utilisation: Annotated[
        Path | None,
        typer.Option("--utilisation", help="Measured: YAML or JSON, pool to share of GPU time, 0 to 1."),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long one proof may take.")] = 10.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show GPUs by pool, whether the quotas can be honoured together, cost and waste; `show` may be left out."""
    from gpu_platform.cli.capacity import show_capacity

    _leave(show_capacity(stack, utilisation=utilisation, seconds=seconds, as_json=output is Format.JSON))


@capacity_app.command("suggest")
def capacity_suggest(
    workloads: Annotated[Path, typer.Option("--workloads", help="YAML: what is to run, and where it may.")],
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long the search may take.")] = 20.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Suggest the cheapest pools for workloads: YAML for a stack file, with the reasons and the next best."""
    from gpu_platform.cli.suggest import suggest_pools

    _leave(suggest_pools(workloads, seconds=seconds, as_json=output is Format.JSON))


@app.command()
def preview(stack: StackArgument, engine: EngineOption = Engine.AUTO, output: FormatOption = Format.TEXT) -> None:
    """Show what `up` would change."""
    from gpu_platform.cli.deploy import preview_stack

    _leave(preview_stack(stack, engine.value, as_json=output is Format.JSON))


@app.command()
def up(stack: StackArgument, engine: EngineOption = Engine.AUTO, output: FormatOption = Format.TEXT) -> None:
    """Deploy a stack, wait for the proof that its nodes are what was declared, and report."""
    from gpu_platform.cli.deploy import deploy_stack

    _leave(deploy_stack(stack, engine.value, as_json=output is Format.JSON))


@app.command()
def destroy(stack: StackArgument, engine: EngineOption = Engine.AUTO) -> None:
    """Remove everything that a stack deployed, and nothing else."""
    from gpu_platform.cli.deploy import destroy_stack

    _leave(destroy_stack(stack, engine.value))


@app.command()
def validate(
    stack: StackArgument,
    output: FormatOption = Format.TEXT,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write a JUnit XML file.")] = None,
) -> None:
    """Hold every node of a deployed stack against the Plan."""
    from gpu_platform.cli.validate import validate_stack

    _leave(validate_stack(stack, as_json=output is Format.JSON, junit=junit))


@app.command()
def schema(
    check_only: Annotated[
        bool, typer.Option("--check", help="Fail when the written file is out of date.")
    ] = False,
) -> None:
    """Write the stack file's JSON Schema to stacks/, for editors."""
    from gpu_platform.cli.schema import write_schema

    _leave(write_schema(check_only=check_only))


@app.command()
def doctor(
    stack: Annotated[
        str | None, typer.Argument(metavar="[STACK]", help="Say as well what an `up` of this stack needs.")
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Say what is installed here, what is missing, and what to do; of a stack, what its `up` needs."""
    from gpu_platform.cli.doctor import examine

    _leave(examine(stack, as_json=output is Format.JSON))


@app.command("node-check")
def node_check(
    expect: Annotated[Path | None, typer.Option("--expect", help="Expectations (JSON) of this node.")] = None,
    machine: Annotated[str | None, typer.Option("--machine", help="Machine type of this node.")] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Run the node agent on this very machine."""
    from gpu_platform.cli.node_check import check_node

    _leave(check_node(expect, machine, as_json=output is Format.JSON))


GpuOption = Annotated[
    str, typer.Option("--gpu", metavar="MODEL", help="As NVML or common use spell it: A100-80GB.")
]


@mig_app.command("list")
def mig_list(gpu: GpuOption, output: FormatOption = Format.TEXT) -> None:
    """Show the MIG profiles of a GPU model, and every maximal layout."""
    from gpu_platform.cli.mig import list_profiles

    _leave(list_profiles(gpu, as_json=output is Format.JSON))


@mig_app.command("check")
def mig_check(
    gpu: GpuOption,
    instances: Annotated[list[str], typer.Argument(metavar="PROFILE:COUNT...", help="3g.40gb:1 1g.10gb:4")],
    output: FormatOption = Format.TEXT,
) -> None:
    """Say whether one GPU can hold the instances; exit code 1 where it cannot, with what is in the way."""
    from gpu_platform.cli.mig import check_instances

    _leave(check_instances(gpu, instances, as_json=output is Format.JSON))


@mig_app.command("solve")
def mig_solve(
    gpu: Annotated[
        list[str], typer.Option("--gpu", metavar="MODEL", help="Repeat it with a --demand of its own.")
    ],
    demand: Annotated[
        list[str], typer.Option("--demand", metavar="PROFILE=COUNT,...", help="1g.10gb=14,3g.40gb=3")
    ],
    gpus_per_node: Annotated[int, typer.Option("--gpus-per-node", min=1, max=16)] = 8,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long a search may take.")] = 10.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Find the fewest GPUs for a demand; print every start, the proof, and a mig-parted config."""
    from gpu_platform.cli.mig import solve_demands

    _leave(solve_demands(gpu, demand, gpus_per_node=gpus_per_node, seconds=seconds, as_json=output is Format.JSON))


@sandbox_app.command("up")
def sandbox_up(
    name: NameOption = "local",
    api_port: Annotated[int | None, typer.Option("--api-port", min=1, max=65535, help="Default: free.")] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Where it keeps its data.")] = None,
    crds: Annotated[
        Path | None, typer.Option("--crds", help="Install these CRDs instead of permissive ones.")
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Start or repair a sandbox."""
    from gpu_platform.cli.sandbox import start

    start(name, api_port=api_port, data_dir=data_dir, crds=crds, as_json=output is Format.JSON)


@sandbox_app.command("down")
def sandbox_down(
    name: NameOption = "local",
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Keep what the cluster holds.")] = False,
) -> None:
    """Stop a sandbox; nothing of it is left running."""
    from gpu_platform.cli.sandbox import stop

    stop(name, keep_data=keep_data)


@sandbox_app.command("status")
def sandbox_status(name: NameOption = "local", output: FormatOption = Format.TEXT) -> None:
    """Show whether a sandbox runs; exit code 1 when it does not."""
    from gpu_platform.cli.sandbox import show

    _leave(show(name, as_json=output is Format.JSON))


@sandbox_app.command("fault")
def sandbox_fault(
    node: Annotated[str, typer.Argument(metavar="NODE", help="A simulated node, such as train-0.")],
    faults: Annotated[
        list[str] | None,
        typer.Argument(metavar="FAULT", help='JSON, such as {"kind": "gpu-missing", "index": 3}; none: heal it.'),
    ] = None,
    name: NameOption = "local",
) -> None:
    """Break a simulated node, or heal it."""
    from gpu_platform.cli.sandbox import set_faults

    set_faults(name, node, faults or [])


def _leave(code: ExitCode) -> None:
    raise typer.Exit(int(code))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors of ours end in one clear message and their exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        app(given)
    except GpuPlatformError as error:
        _show(error, as_json=_wants_json(given))
        sys.exit(int(error.exit_code))
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            print("interrupted: run the same command again to go on", file=sys.stderr)
        raise
    except BrokenPipeError:
        # The reader of our output has gone; without this Python complains once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wants_json(arguments: list[str]) -> bool:
    return "--format=json" in arguments or "json" in [
        value for flag, value in itertools.pairwise(arguments) if flag == "--format"
    ]


def _show(error: GpuPlatformError, *, as_json: bool) -> None:
    if as_json:
        problems = error.problems if isinstance(error, BadInput) else ()
        document = {
            "version": 1,
            "error": str(error).splitlines()[0],
            "problems": [{"path": p.path, "found": p.found, "allowed": p.allowed, "fix": p.fix} for p in problems],
        }
        print(json.dumps(document, indent=2))
    print(f"error: {error}", file=sys.stderr)
