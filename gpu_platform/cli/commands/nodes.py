"""Commands about nodes and their GPUs: validation, active checks, the node agent, dashboards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpu_platform.cli.options import Format, FormatOption, StackArgument, leave


def validate(
    stack: StackArgument,
    output: FormatOption = Format.TEXT,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write a JUnit XML file.")] = None,
    ctrf: Annotated[Path | None, typer.Option("--ctrf", help="Also write a CTRF (JSON) file.")] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write one HTML page with nodes by check, differences and topology."),
    ] = None,
    earlier: Annotated[
        list[Path] | None,
        typer.Option("--earlier", help="JSON report of an earlier run, for the page's history; repeatable."),
    ] = None,
) -> None:
    """Compare every node of a deployed stack with the plan."""
    from gpu_platform.cli.validate import ReportFiles, validate_stack

    files = ReportFiles(junit=junit, ctrf=ctrf, html=html, earlier=tuple(earlier or ()))
    leave(validate_stack(stack, files, to_json=output is Format.JSON))


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
    """Measure the bandwidth and throughput of idle nodes with copies, matrix products and all-reduce.

    Nodes with pods that use GPUs are skipped. `validate` also reports the results.
    """
    from gpu_platform.cli.burn_in import burn_in_stack

    leave(burn_in_stack(stack, pools=pool or [], nodes=node or [], to_json=output is Format.JSON))


def node_check(
    expect: Annotated[Path | None, typer.Option("--expect", help="JSON file with the expected values.")] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", help="Machine type in the catalogue to compare with.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", help="Also write the responses of NVML to a file, for --replay.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Check a recorded machine instead of this one.")
    ] = None,
    with_serials: Annotated[
        bool, typer.Option("--with-serials", help="Record UUIDs and serial numbers unchanged.")
    ] = False,
    watch: Annotated[
        float | None,
        typer.Option(
            "--watch",
            metavar="SECONDS",
            min=1,
            help="Repeat the check at this interval, and print changed verdicts.",
        ),
    ] = None,
    topology: Annotated[
        bool, typer.Option("--topology", help="Only print how the GPUs are connected, like nvidia-smi topo -m.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Run the node agent on this machine."""
    from gpu_platform.cli.node_check import Recordings, check_node, print_topology

    recordings = Recordings(record=record, replay=replay, with_serials=with_serials)
    to_json = output is Format.JSON
    if topology:
        leave(print_topology(machine, recordings, expect=expect, watch_seconds=watch, to_json=to_json))
    leave(check_node(expect, machine, recordings, to_json=to_json, watch_seconds=watch))


def node_metrics(
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port that serves /metrics.")] = 9401,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=1, help="Interval between two readings of NVML.")
    ] = 15,
    temperature: Annotated[
        float, typer.Option("--temperature", metavar="CELSIUS", help="Temperature threshold.")
    ] = 85,
    memory: Annotated[float, typer.Option("--memory", metavar="PERCENT", help="Memory usage threshold.")] = 95,
    power: Annotated[
        float, typer.Option("--power", metavar="PERCENT", help="Power threshold, in percent of the power limit.")
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
