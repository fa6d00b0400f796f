"""Commands of `gpu-platform` and their options; each command imports its own module when it is called.

Exit codes: 0 good, 1 finding, 2 bad input, 3 unknown.
"""

from __future__ import annotations

import functools
import gc
import itertools
import json
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from gpu_platform import garbage, interruption
from gpu_platform.cli.lookup import machines_app, policies_app
from gpu_platform.cli.options import CONTEXT, Format, FormatOption, StackArgument
from gpu_platform.errors import BadInput, ExitCode, GpuPlatformError, Problem
from gpu_platform.project import check_project, version

_INTERRUPTED = 130  # Typer's exit code for every KeyboardInterrupt


class _Commands(TyperGroup):
    """All commands; a wrong value of an option is said without pydantic's own prefix."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - Typer's own copy of Click
        """Run a command; raises typer.BadParameter with its text alone."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="gpu-platform",
    cls=_Commands,
    no_args_is_help=True,
    context_settings=CONTEXT,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
sandbox_app = typer.Typer(
    help="Kubernetes control plane on this machine with simulated GPU nodes.",
    no_args_is_help=True,
    context_settings=CONTEXT,
)
app.add_typer(sandbox_app, name="sandbox")
mig_app = typer.Typer(
    help="MIG geometry: profiles, legal layouts, minimum number of GPUs.",
    no_args_is_help=True,
    context_settings=CONTEXT,
)
app.add_typer(mig_app, name="mig")

team_app = typer.Typer(
    help="Namespaces of teams that left their stack.", no_args_is_help=True, context_settings=CONTEXT
)
app.add_typer(team_app, name="team")
app.add_typer(machines_app, name="machines")
app.add_typer(policies_app, name="policies")


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
    """Deploy a GPU platform on Kubernetes from a stack file, and validate its nodes."""
    interruption.begin()
    check_project()


class _StackFirst(TyperGroup):
    """Command group with the default command `show`: `capacity local` means `capacity show local`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer's own copy of Click
        """Insert the default command unless the first argument is a command of the group."""
        known = args and (args[0] in self.commands or args[0] in ("-h", "--help"))
        return super().parse_args(ctx, args if known else ["show", *args])


capacity_app = typer.Typer(
    cls=_StackFirst,
    context_settings=CONTEXT,
    help="Capacity and cost of a stack (`capacity STACK`), or pools for given workloads (`suggest`).",
)
app.add_typer(capacity_app, name="capacity")


class ReportFormat(StrEnum):
    """Output format of a command whose findings have places in a file."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"


class SchedulerProfile(StrEnum):
    """Scores by which kube-scheduler compares nodes."""

    DEFAULT = "default"
    PACKED = "packed"


class Engine(StrEnum):
    """Engine that deploys a stack."""

    AUTO = "auto"
    PULUMI = "pulumi"
    EMBEDDED = "embedded"


EngineOption = Annotated[
    Engine, typer.Option("--engine", help="auto: the Pulumi CLI if it can be used, else embedded.")
]
FailOnOption = Annotated[
    str | None,
    typer.Option(
        "--fail-on",
        metavar="EFFECTS",
        help="Exit with 1, before anything changes, if a change has one of these effects: "
        "deletes-data, replaces, cuts-access, removes-capacity, rolls-nodes, restarts-pods.",
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
NameOption = Annotated[str, typer.Option("--name", help="Name of the sandbox; several can run at the same time.")]


@app.command()
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new stack.")],
    provider: Annotated[
        str | None, typer.Option("--provider", metavar="NAME", help="sandbox, existing, eks or gke.")
    ] = None,
    machine_type: Annotated[
        str | None, typer.Option("--machine-type", metavar="TYPE", help="See `gpu-platform machines list`.")
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", min=0, help="Number of nodes.")] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", metavar="KIND", help="training, inference or development.")
    ] = None,
    team: Annotated[str | None, typer.Option("--team", metavar="NAME", help="Name of the first team.")] = None,
    member: Annotated[
        str | None, typer.Option("--member", metavar="WHO", help="Its members, such as group:research.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="REGION", help="EKS and GKE.")] = None,
    zone: Annotated[
        str | None, typer.Option("--zone", metavar="ZONE", help="EKS and GKE: zone of the GPU nodes.")
    ] = None,
    project: Annotated[str | None, typer.Option("--project", metavar="ID", help="GKE.")] = None,
    node_names: Annotated[
        str | None,
        typer.Option(
            "--node-names", metavar="NAMES", help="Existing cluster: names of its GPU nodes, separated by commas."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="File to write; default: in the folder of stack files."),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Write a first stack file that passes `check`; on a terminal, asks for missing options."""
    from gpu_platform.cli.init import Answers, write_stack

    given = Answers(
        provider=provider,
        machine_type=machine_type,
        nodes=nodes,
        workload=workload,
        team=team,
        member=member,
        region=region,
        zone=zone,
        project=project,
        node_names=node_names,
    )
    _leave(write_stack(name, given, out=out, to_json=output is Format.JSON))


@app.command()
def render(
    stack: StackArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")],
    output: FormatOption = Format.TEXT,
) -> None:
    """Write the resources of a stack to files: resources.json, manifests, state.json, plan.json."""
    gc.disable()  # until the command ends: almost all objects live as long
    from gpu_platform.cli.render import render_to

    render_to(stack, out, to_json=output is Format.JSON)


@app.command()
def check(
    stack: StackArgument,
    output: Annotated[
        ReportFormat,
        typer.Option("--format", help="Output format; sarif and junit report the findings by line of the file."),
    ] = ReportFormat.TEXT,
    production: Annotated[
        bool,
        typer.Option("--production", help="Print the checklist before production instead: text or json."),
    ] = False,
) -> None:
    """Check stack file, plan and policies without a cluster; print each decision of the plan and its reason."""
    gc.disable()  # until the command ends: almost all objects live as long
    if production:
        from gpu_platform.cli.production import show_production

        _leave(show_production(stack, output=output.value))
    from gpu_platform.cli.check import check_stack

    _leave(check_stack(stack, output=output.value))


class ReviewFormat(StrEnum):
    """Output format of `review`."""

    MARKDOWN = "markdown"
    JSON = "json"


@app.command()
def review(
    stack: StackArgument,
    base: Annotated[
        Path | None,
        typer.Option("--base", help="The stack file before the change, to compare with; absent: a new stack."),
    ] = None,
    preview: Annotated[
        Path | None, typer.Option("--preview", help="Output of `preview STACK --format json`.")
    ] = None,
    output: Annotated[
        ReviewFormat, typer.Option("--format", help="Output format; json has the Markdown as `markdown`.")
    ] = ReviewFormat.MARKDOWN,
) -> None:
    """Print the comment of a pull request as Markdown: GPUs and cost by pool, policies, impact."""
    from gpu_platform.cli.review import review_stack

    _leave(review_stack(stack, base=base, preview=preview, to_json=output is ReviewFormat.JSON))


class ConformanceFormat(StrEnum):
    """Output format of `conformance`."""

    TEXT = "text"
    JSON = "json"
    PRODUCT = "product"


@app.command()
def conformance(
    stack: StackArgument,
    live: Annotated[bool, typer.Option("--live", help="Also look at the cluster.")] = False,
    output: Annotated[
        ConformanceFormat,
        typer.Option("--format", help="Output format; product is the file that the conformance project takes."),
    ] = ConformanceFormat.TEXT,
) -> None:
    """Report for each requirement of the CNCF's Kubernetes AI Conformance what meets it, or what is missing."""
    from gpu_platform.cli.conformance import show_conformance

    _leave(show_conformance(stack, output=output.value, live=live))


class GuideFormat(StrEnum):
    """Output format of `guide`."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


@app.command()
def guide(
    stack: StackArgument,
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Name of the team, which is its namespace.")],
    manifest: Annotated[
        str | None,
        typer.Option(
            "--manifest", metavar="NAME", help="Print only this manifest: training, inference, notebook or batch."
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Also print what is used and free now, and what waits in the queue.")
    ] = False,
    output: Annotated[
        GuideFormat, typer.Option("--format", help="Output format; html is one page with the manifests.")
    ] = GuideFormat.TEXT,
) -> None:
    """Print a guide for members of a team: login, quota, pools, queue, storage, and manifests that run."""
    from gpu_platform.cli.guide import show_guide

    _leave(show_guide(stack, team, output=output.value, manifest=manifest, live=live))


@app.command()
def place(
    stack: StackArgument,
    workloads: Annotated[
        Path | None,
        typer.Option("--workloads", help="Kubernetes manifests, or a YAML file with the list pods."),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Start from the pods that run on the cluster, and find moves that free whole GPUs."
        ),
    ] = False,
    profile: Annotated[
        SchedulerProfile,
        typer.Option("--profile", help="Scores of the scheduler; packed: those that scheduler-config prints."),
    ] = SchedulerProfile.DEFAULT,
    output: Annotated[
        GuideFormat, typer.Option("--format", help="Output format; html is one page with a picture of the GPUs.")
    ] = GuideFormat.TEXT,
) -> None:
    """Show where pods would be placed, which stay pending and why, and what helps; exit with 1 if any do."""
    from gpu_platform.cli.place import show_placement

    _leave(show_placement(stack, workloads=workloads, live=live, output=output.value, profile=profile.value))


@app.command("scheduler-config")
def scheduler_config(stack: StackArgument, output: FormatOption = Format.TEXT) -> None:
    """Print the configuration of a kube-scheduler that packs pods with GPUs, so that whole nodes stay free."""
    from gpu_platform.cli.place import show_scheduler_config

    show_scheduler_config(stack, as_json=output is Format.JSON)


@app.command()
def rehearse(
    stack: StackArgument,
    trace: Annotated[
        Path, typer.Option("--trace", help="Jobs: a CSV table, or a trace of openb, Helios or Philly.")
    ],
    against: Annotated[
        str | None, typer.Option("--against", metavar="STACK", help="Another stack, to compare with.")
    ] = None,
    teams: Annotated[
        list[str] | None,
        typer.Option(
            "--team",
            metavar="NAME=TEAM",
            help="Team of the stack for a team of the trace; '*=TEAM' for all that are not named.",
        ),
    ] = None,
    node_start: Annotated[
        str, typer.Option("--node-start", metavar="DURATION", help="Time from a pending pod to a ready new node.")
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
            help="Interval at which jobs save checkpoints; without it a stopped job starts from the beginning.",
        ),
    ] = None,
    output: Annotated[
        GuideFormat, typer.Option("--format", help="Output format; html is one page with a time line.")
    ] = GuideFormat.TEXT,
) -> None:
    """Simulate how long the jobs of a trace would wait on a stack; exit with 1 if some never run."""
    from gpu_platform.cli.rehearse import Options, show_rehearsal

    options = Options(teams=teams or (), node_start=node_start, node_idle=node_idle, checkpoint=checkpoint)
    _leave(show_rehearsal(stack, trace=trace, against=against, options=options, output=output.value))


@app.command()
def images(stack: StackArgument, output: FormatOption = Format.TEXT) -> None:
    """List the container images and Helm charts that a stack uses, for a mirror or an air-gapped cluster."""
    from gpu_platform.cli.images import list_images

    _leave(list_images(stack, to_json=output is Format.JSON))


@app.command()
def recipe(
    stack: StackArgument,
    file: Annotated[
        Path, typer.Argument(help="Recipe of NVIDIA AICR: the output of `aicr recipe`, or an overlay.")
    ],
    output: FormatOption = Format.TEXT,
) -> None:
    """Compare a stack with a recipe of NVIDIA AICR: constraints that it meets, and each component."""
    from gpu_platform.cli.recipe import show_recipe

    _leave(show_recipe(stack, file, to_json=output is Format.JSON))


@capacity_app.command("show")
def capacity_show(
    stack: StackArgument,
    utilisation: Annotated[
        Path | None,
        typer.Option("--utilisation", help="YAML or JSON file: measured utilisation, 0 to 1, by pool."),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus", metavar="URL", help="Read the utilisation of the last 14 days from Prometheus."
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="Time limit of one placement, in seconds.")
    ] = 10.0,
    deployed: Annotated[
        bool, typer.Option("--deployed", help="Read the quotas of the stacks of teams from the cluster.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show GPUs by pool, whether all quotas fit the nodes, cost and waste; `show` is the default command."""
    from gpu_platform.cli.capacity import show_capacity

    to_json = output is Format.JSON
    _leave(
        show_capacity(
            stack,
            utilisation=utilisation,
            prometheus=prometheus,
            seconds=seconds,
            to_json=to_json,
            deployed=deployed,
        )
    )


@app.command()
def cost(
    stack: StackArgument,
    utilisation: Annotated[
        Path | None,
        typer.Option("--utilisation", help="YAML or JSON file: measured utilisation, 0 to 1, by pool."),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus", metavar="URL", help="Read the utilisation of the last 14 days from Prometheus."
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="Time limit of one placement, in seconds.")
    ] = 5.0,
    output: Annotated[
        GuideFormat, typer.Option("--format", help="Output format; html is one page with bars by pool and team.")
    ] = GuideFormat.TEXT,
) -> None:
    """Show the cost by pool, team and workload, what is idle, and changes of the stack file that reduce it."""
    from gpu_platform.cli.cost import show_cost

    _leave(show_cost(stack, utilisation=utilisation, prometheus=prometheus, seconds=seconds, output=output.value))


class PageFormat(StrEnum):
    """Output format of a command that prints a page."""

    HTML = "html"
    JSON = "json"


@app.command()
def dashboards(
    prometheus: Annotated[
        str, typer.Option("--prometheus", metavar="URL", help="Prometheus that evaluates the rules of the stack.")
    ],
    board: Annotated[
        list[str] | None,
        typer.Option("--board", metavar="NAME", help="Only this dashboard; repeatable. Default: all five."),
    ] = None,
    chosen: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Only this node, pool, team or workload; repeatable."),
    ] = None,
    last: Annotated[str, typer.Option("--last", metavar="TIME", help="How far back, 5m to 2160h.")] = "6h",
    output: Annotated[
        PageFormat, typer.Option("--format", help="Output format; json has the series of each panel.")
    ] = PageFormat.HTML,
) -> None:
    """Print the panels of the Grafana dashboards as one HTML page, where no Grafana can be installed."""
    import time

    from gpu_platform.cli.dashboards import show_dashboards

    _leave(
        show_dashboards(
            prometheus,
            names=board or (),
            chosen=chosen or (),
            last=last,
            now=time.time(),
            to_json=output is PageFormat.JSON,
        )
    )


@capacity_app.command("suggest")
def capacity_suggest(
    workloads: Annotated[Path, typer.Option("--workloads", help="YAML file with the workloads.")],
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, help="Time limit of the search, in seconds.")
    ] = 20.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Find the cheapest pools for workloads; print YAML for a stack file, with reasons and alternatives."""
    from gpu_platform.cli.suggest import suggest_pools

    _leave(suggest_pools(workloads, seconds=seconds, to_json=output is Format.JSON))


@app.command()
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
    _leave(preview_stack(stack, engine.value, to_json=to_json, objects=objects, fail_on=fail_on))


@app.command()
def up(
    stack: StackArgument,
    engine: EngineOption = Engine.AUTO,
    fail_on: FailOnOption = None,
    timeout: TimeoutOption = None,
    outside_window: Annotated[
        bool,
        typer.Option(
            "--outside-window",
            help="Change nodes although the maintenance window of the stack (`changes.window`) is closed.",
        ),
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Deploy a stack, wait until its nodes pass validation, and print a report."""
    from gpu_platform.cli.deploy import deploy_stack

    _leave(
        deploy_stack(
            stack,
            engine.value,
            to_json=output is Format.JSON,
            fail_on=fail_on,
            timeout=timeout,
            outside_window=outside_window,
        )
    )


@app.command()
def destroy(
    stack: StackArgument,
    engine: EngineOption = Engine.AUTO,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for the stack's name; required without a terminal.")
    ] = False,
    delete_data: Annotated[
        bool,
        typer.Option(
            "--delete-data", help="Also delete the objects that members of its teams created, including volumes."
        ),
    ] = False,
    timeout: TimeoutOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """List and delete what a stack deployed, after confirmation; objects of members of teams are kept."""
    from gpu_platform.cli.deploy import destroy_stack

    to_json = output is Format.JSON
    _leave(destroy_stack(stack, engine.value, yes=yes, delete_data=delete_data, timeout=timeout, to_json=to_json))


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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list, and write the file of --export.")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Delete the retained namespace of a team that left its stack, with everything that members created in it."""
    from gpu_platform.cli.team import remove_team

    _leave(
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


@app.command()
def validate(
    stack: StackArgument,
    output: FormatOption = Format.TEXT,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write a JUnit XML file.")] = None,
    ctrf: Annotated[Path | None, typer.Option("--ctrf", help="Also write a CTRF (JSON) file.")] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write one HTML page: nodes by checks, what differs, topology."),
    ] = None,
    earlier: Annotated[
        list[Path] | None,
        typer.Option("--earlier", help="JSON report of an earlier run, for the page's history; repeatable."),
    ] = None,
) -> None:
    """Compare every node of a deployed stack with the Plan."""
    from gpu_platform.cli.validate import ReportFiles, validate_stack

    files = ReportFiles(junit=junit, ctrf=ctrf, html=html, earlier=tuple(earlier or ()))
    _leave(validate_stack(stack, files, to_json=output is Format.JSON))


@app.command("burn-in")
def burn_in(
    stack: StackArgument,
    pool: Annotated[
        list[str] | None, typer.Option("--pool", metavar="POOL", help="Only nodes of this pool; repeatable.")
    ] = None,
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="NODE", help="Only this node; repeatable.")
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Measure idle nodes: copies, matrix products, all-reduce within a node and between nodes.

    Nodes with pods that use GPUs are skipped. The results are checks of `validate`.
    """
    from gpu_platform.cli.burn_in import burn_in_stack

    _leave(burn_in_stack(stack, pools=pool or [], nodes=node or [], to_json=output is Format.JSON))


@app.command()
def upgrade(
    stack: StackArgument,
    today: Annotated[
        str | None,
        typer.Option("--today", metavar="DATE", help="Evaluate support on this date, YYYY-MM-DD; default: today."),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show what is outdated or near its end of support, the steps of an upgrade, and what each disrupts."""
    from gpu_platform.cli.upgrade import report_upgrades

    _leave(report_upgrades(stack, today=today, to_json=output is Format.JSON))


@app.command()
def schema(
    check_only: Annotated[
        bool, typer.Option("--check", help="Only check that the file is up to date; exit code 1 if it is not.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Write the JSON Schema of stack files to stacks/, for editors; `--format json` prints it instead."""
    from gpu_platform.cli.schema import print_schema, write_schema

    _leave(print_schema() if output is Format.JSON else write_schema(check_only=check_only))


@app.command()
def doctor(
    stack: Annotated[
        str | None, typer.Argument(metavar="[STACK]", help="Also check what `up` of this stack needs.")
    ] = None,
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help="Also query the cloud, read-only and with your credentials, for what would make `up` fail.",
        ),
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Check the tools on this machine and, for a stack, the prerequisites of its `up`; print how to get them."""
    from gpu_platform.cli.doctor import examine

    _leave(examine(stack, to_json=output is Format.JSON, online=online))


@app.command("node-check")
def node_check(
    expect: Annotated[Path | None, typer.Option("--expect", help="JSON file with the expectations.")] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", help="Machine type of the catalogue to check against.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", help="Also write what NVML answered to a file, for --replay.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Check a recorded machine instead of this one.")
    ] = None,
    with_serials: Annotated[
        bool, typer.Option("--with-serials", help="Record UUIDs and serial numbers as they are.")
    ] = False,
    watch: Annotated[
        float | None,
        typer.Option("--watch", metavar="SECONDS", min=1, help="Check again; print when a verdict changes."),
    ] = None,
    topology: Annotated[
        bool, typer.Option("--topology", help="Only print how the GPUs reach each other, as nvidia-smi topo -m.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Run the node agent on this machine."""
    from gpu_platform.cli.node_check import Recordings, check_node, print_topology

    if topology:
        _leave(print_topology(machine, replay))
    recordings = Recordings(record=record, replay=replay, with_serials=with_serials)
    _leave(check_node(expect, machine, recordings, to_json=output is Format.JSON, watch_seconds=watch))


@app.command("node-metrics")
def node_metrics(
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where /metrics is.")] = 9401,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=1, help="How often NVML is read.")
    ] = 15,
    temperature: Annotated[
        float, typer.Option("--temperature", metavar="CELSIUS", help="Threshold of the temperature.")
    ] = 85,
    memory: Annotated[float, typer.Option("--memory", metavar="PERCENT", help="Threshold of used memory.")] = 95,
    power: Annotated[
        float, typer.Option("--power", metavar="PERCENT", help="Threshold of power, of its limit.")
    ] = 95,
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Serve a recorded machine (node-check --record).")
    ] = None,
) -> None:
    """Serve metrics of this machine's GPUs for Prometheus, as the node agent does with validation.metrics."""
    from gpu_platform.cli.node_metrics import serve_node_metrics
    from validators.exporter.collector import Thresholds

    thresholds = Thresholds(temperature=temperature, memory=memory, power=power)
    serve_node_metrics(port, interval, thresholds, replay)


GpuOption = Annotated[
    str, typer.Option("--gpu", metavar="MODEL", help="GPU model by its NVML or common name: A100-80GB.")
]


@mig_app.command("list")
def mig_list(gpu: GpuOption, output: FormatOption = Format.TEXT) -> None:
    """Show the MIG profiles of a GPU model, and all maximal layouts."""
    from gpu_platform.cli.mig import list_profiles

    _leave(list_profiles(gpu, to_json=output is Format.JSON))


@mig_app.command("check")
def mig_check(
    gpu: GpuOption,
    instances: Annotated[
        list[str],
        typer.Argument(metavar="PROFILE:COUNT...", help="Instances: 3g.40gb:1 1g.10gb:4; = may replace :"),
    ],
    output: FormatOption = Format.TEXT,
) -> None:
    """Check whether one GPU can hold the instances; exit code 1 if not, with the conflicts."""
    from gpu_platform.cli.mig import check_instances

    _leave(check_instances(gpu, instances, to_json=output is Format.JSON))


@mig_app.command("solve")
def mig_solve(
    gpu: Annotated[
        list[str], typer.Option("--gpu", metavar="MODEL", help="GPU model; repeat it, each with a --demand.")
    ],
    demand: Annotated[
        list[str],
        typer.Option(
            "--demand",
            metavar="PROFILE:COUNT,...",
            help="Number of instances: 1g.10gb:14,3g.40gb:3; = may replace :",
        ),
    ],
    gpus_per_node: Annotated[int, typer.Option("--gpus-per-node", min=1, max=16)] = 8,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="Time limit of a search, in seconds.")
    ] = 10.0,
    output: FormatOption = Format.TEXT,
) -> None:
    """Find the minimum number of GPUs for a demand; print placements, lower bound and a mig-parted config."""
    from gpu_platform.cli.mig import solve_demands

    _leave(solve_demands(gpu, demand, gpus_per_node=gpus_per_node, seconds=seconds, to_json=output is Format.JSON))


@sandbox_app.command("up")
def sandbox_up(
    name: NameOption = "local",
    api_port: Annotated[
        int | None, typer.Option("--api-port", min=1, max=65535, help="Default: a free port.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Folder of the sandbox's data.")] = None,
    crds: Annotated[
        Path | None, typer.Option("--crds", help="Folder of CRDs to install instead of the permissive ones.")
    ] = None,
    kubernetes: Annotated[
        str | None,
        typer.Option(
            "--kubernetes",
            metavar="VERSION",
            help="Minor version, such as 1.35; a newer one than a sandbox has upgrades it in place.",
        ),
    ] = None,
    karpenter: Annotated[
        bool,
        typer.Option(
            "--karpenter", help="Run Karpenter, which creates simulated nodes for NodePools, from now on."
        ),
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Start or upgrade a sandbox, or restart its components that do not run."""
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
    """Show whether a sandbox runs; exit code 1 if it does not."""
    from gpu_platform.cli.sandbox import show

    _leave(show(name, to_json=output is Format.JSON))


@sandbox_app.command("fault")
def sandbox_fault(
    node: Annotated[
        str | None,
        typer.Argument(metavar="NODE", help="Name of a simulated node, such as train-0; none: list all faults."),
    ] = None,
    faults: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FAULT", help='JSON, such as {"kind": "gpu-missing", "index": 3}; none: remove all faults.'
        ),
    ] = None,
    name: NameOption = "local",
    output: FormatOption = Format.TEXT,
) -> None:
    """Inject faults into a simulated node, remove them, or list those of all nodes."""
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
            metavar="FILE", help="Recording that `node-check --record` wrote on a node; absent: end the replay."
        ),
    ] = None,
    name: NameOption = "local",
    output: FormatOption = Format.TEXT,
) -> None:
    """Replay the recording of a real node on a simulated node, or end the replay."""
    from gpu_platform.cli.sandbox import replay

    replay(name, node, file, to_json=output is Format.JSON)


def _leave(code: ExitCode) -> None:
    raise typer.Exit(int(code))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a GpuPlatformError is printed as one message and sets the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if arguments is None:
        garbage.collect_seldom()
        _run(given)
    else:
        with garbage.restored():
            _run(given)


def _run(given: list[str]) -> None:
    try:
        _command()(given, prog_name="gpu-platform")
    except GpuPlatformError as error:
        _show(_located(error), to_json=_wants_json(given))
        sys.exit(int(error.exit_code))
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            _leave_interrupted()
        raise
    except KeyboardInterrupt:
        _leave_interrupted()
    except BrokenPipeError:
        # The reader closed the pipe; without this Python reports the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception:
        # Compiled code, such as that of pydantic, replaces a KeyboardInterrupt by an exception of its own.
        if interruption.was_raised():
            _leave_interrupted()
        raise


@functools.cache
def _command() -> Callable[..., object]:
    """Return the commands with their options, built once: that takes 16 ms, and tests call hundreds."""
    return get_command(app)


def _leave_interrupted() -> NoReturn:
    interruption.ignore()
    text = interruption.explanation() or "interrupted: run the same command again to continue"
    print(text, file=sys.stderr)
    sys.exit(interruption.exit_code())


def _wants_json(arguments: list[str]) -> bool:
    return "--format=json" in arguments or "json" in [
        value for flag, value in itertools.pairwise(arguments) if flag == "--format"
    ]


def _located(error: GpuPlatformError) -> GpuPlatformError:
    from gpu_platform.spec.positions import located

    return located(error) if isinstance(error, BadInput) else error


def _problem_document(problem: Problem) -> dict[str, Any]:
    place = {"line": problem.line, "column": problem.column} if problem.line else {}
    return {
        "path": problem.path,
        **place,
        "found": problem.found,
        "allowed": problem.allowed,
        "fix": problem.fix,
    }


def _show(error: GpuPlatformError, *, to_json: bool) -> None:
    if to_json:
        problems = error.problems if isinstance(error, BadInput) else ()
        document = {
            "version": 1,
            "error": str(error).splitlines()[0],
            "problems": [_problem_document(problem) for problem in problems],
        }
        print(json.dumps(document, indent=2))
    print(f"error: {error}", file=sys.stderr)
