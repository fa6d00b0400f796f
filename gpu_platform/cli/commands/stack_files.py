"""Commands that need only a stack file: init, check, render, review, images, guide, upgrade, schema."""

from __future__ import annotations

import gc
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gpu_platform.base.errors import BadInput
from gpu_platform.cli.options import Format, FormatOption, HtmlFormat, StackArgument, leave, not_with


class ReportFormat(StrEnum):
    """Output format of a command that reports findings by line of a file."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new stack.")],
    provider: Annotated[
        str | None, typer.Option("--provider", metavar="NAME", help="sandbox, existing, eks or gke.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="KIND", help="On EKS and GKE: new (the program creates the cluster) or existing."
        ),
    ] = None,
    machine_type: Annotated[
        str | None,
        typer.Option(
            "--machine-type", metavar="TYPE", help="Machine type of the nodes; see `gpu-platform machines list`."
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", min=0, help="Number of nodes.")] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", metavar="KIND", help="training, inference or development.")
    ] = None,
    team: Annotated[str | None, typer.Option("--team", metavar="NAME", help="Name of the first team.")] = None,
    member: Annotated[
        str | None,
        typer.Option("--member", metavar="WHO", help="Members of the first team, such as group:research."),
    ] = None,
    region: Annotated[
        str | None, typer.Option("--region", metavar="REGION", help="Region on EKS, GKE or AKS.")
    ] = None,
    zone: Annotated[
        str | None, typer.Option("--zone", metavar="ZONE", help="Zone of the GPU nodes on EKS or GKE.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="ID", help="Google Cloud project on GKE.")
    ] = None,
    subscription: Annotated[
        str | None, typer.Option("--subscription", metavar="ID", help="Azure subscription on AKS.")
    ] = None,
    admin: Annotated[
        str | None,
        typer.Option(
            "--admin",
            metavar="WHO",
            help="Administrator of a new EKS or AKS cluster: IAM role or user (ARN), Entra ID group (object ID).",
        ),
    ] = None,
    node_names: Annotated[
        str | None,
        typer.Option(
            "--node-names",
            metavar="NAMES",
            help="Names of the GPU nodes of an existing cluster, separated by commas.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="File to write. Default: a file in the folder of stack files."),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Write a first stack file that passes `check`. On a terminal, the command asks for missing options."""
    from gpu_platform.cli.init import Answers, write_stack

    given = Answers(
        provider=provider,
        cluster=cluster,
        machine_type=machine_type,
        nodes=nodes,
        workload=workload,
        team=team,
        member=member,
        region=region,
        zone=zone,
        project=project,
        subscription=subscription,
        admin=admin,
        node_names=node_names,
    )
    leave(write_stack(name, given, out=out, to_json=output is Format.JSON))


def render(
    stack: StackArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")],
    output: FormatOption = Format.TEXT,
) -> None:
    """Write the resources of a stack to files: resources.json, manifests, state.json, plan.json."""
    gc.disable()  # garbage collection would free almost no memory before the command ends
    from gpu_platform.cli.render import render_to

    render_to(stack, out, to_json=output is Format.JSON)


def check(
    stack: StackArgument,
    output: Annotated[
        ReportFormat,
        typer.Option("--format", help="Output format; sarif and junit report the findings by line of the file."),
    ] = ReportFormat.TEXT,
) -> None:
    """Check stack file, plan and policies without a cluster; print each decision of the plan and its reason."""
    gc.disable()  # garbage collection would free almost no memory before the command ends
    from gpu_platform.cli.check import check_stack

    leave(check_stack(stack, output=output.value))


class ReviewFormat(StrEnum):
    """Output format of `review`."""

    MARKDOWN = "markdown"
    JSON = "json"


def review(
    stack: StackArgument,
    base: Annotated[
        Path | None,
        typer.Option("--base", help="The stack file before the change. Without it, the stack is new."),
    ] = None,
    preview: Annotated[
        Path | None, typer.Option("--preview", help="Output of `preview STACK --format json`.")
    ] = None,
    output: Annotated[
        ReviewFormat,
        typer.Option("--format", help="Output format; json contains the Markdown in the field `markdown`."),
    ] = ReviewFormat.MARKDOWN,
) -> None:
    """Print a pull request comment as Markdown: GPUs and cost by pool, policies, impact."""
    from gpu_platform.cli.review import review_stack

    leave(review_stack(stack, base=base, preview=preview, to_json=output is ReviewFormat.JSON))


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
        bool,
        typer.Option("--live", help="Also print the current usage, the free capacity and the queued workloads."),
    ] = False,
    output: Annotated[
        HtmlFormat, typer.Option("--format", help="Output format; html is one page with the manifests.")
    ] = HtmlFormat.TEXT,
) -> None:
    """Print a guide for members of a team: login, quota, pools, queue, storage, and example manifests."""
    from gpu_platform.cli.guide import show_guide

    leave(show_guide(stack, team, output=output.value, manifest=manifest, live=live))


def images(stack: StackArgument, output: FormatOption = Format.TEXT) -> None:
    """List the container images and Helm charts that a stack uses, for a mirror or an air-gapped cluster."""
    from gpu_platform.cli.images import list_images

    leave(list_images(stack, to_json=output is Format.JSON))


def upgrade(
    stack: StackArgument,
    today: Annotated[
        str | None,
        typer.Option("--today", metavar="DATE", help="Evaluate support on this date, YYYY-MM-DD; default: today."),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show what is outdated or near the end of its support, the upgrade steps, and what each step disrupts."""
    from gpu_platform.cli.upgrade import report_upgrades

    leave(report_upgrades(stack, today=today, to_json=output is Format.JSON))


def schema(
    check_only: Annotated[
        bool, typer.Option("--check", help="Only check that the file is up to date; exit code 1 if it is not.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Write the JSON Schema of stack files to stacks/, for editors; `--format json` prints it instead."""
    from gpu_platform.cli.schema import print_schema, write_schema

    if check_only and output is Format.JSON:
        raise BadInput("schema", [not_with("--check", "set", "--format json")])
    leave(print_schema() if output is Format.JSON else write_schema(check_only=check_only))
