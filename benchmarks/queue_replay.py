"""Replays a published trace on virtual clusters, and prints mean completion and queueing times under FIFO, SJF and
SRTF.

    python benchmarks/queue_replay.py --trace philly_trace.csv --clusters philly_vc.csv [--orders fifo,sjf,srtf]

The trace is Philly's job log or a table in the Helios format. `gpu-platform rehearse` accepts the same formats.
The clusters are a CSV file with the columns `vc` and `node num` (or `nodes`). Jobs of other virtual clusters are
left out. The trace is rehearsed (extensions.capacity.rehearsal) with the job orders and the consolidated placement
of the published simulator (queue_orders.py). If figures were published for the trace and the clusters, the output
shows them next to the results (queue_replay_published.yaml).

Under SRTF, the published simulator ends each job one second late, and so does this program. Jobs that arrive at
the same time keep the order of the file. The published table is the exception: there, the published simulator's
sort (numpy_sort.py) determines their order. docs/queue-replay.md describes how to get the traces and how closely
the two simulators agree.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml
from numpy_sort import argsort
from queue_orders import fifo, sjf, srtf
from rich.console import Console
from rich.table import Table

from extensions.capacity.rehearsal import Assumptions, Platform, Trace, TraceJob, rehearse, report
from extensions.capacity.rehearsal.model import RehearsalPool, Shape
from extensions.capacity.rehearsal.simulator import Actions, Admission, Recorded
from extensions.capacity.trace_sources import read_trace
from extensions.capacity.trace_sources.table import seconds_of
from gpu_platform.base.errors import BadInput

PUBLISHED: Final = Path(__file__).with_name("queue_replay_published.yaml")
ORDERS: Final[Mapping[str, Callable[[Actions], Admission]]] = {"fifo": fifo, "sjf": sjf, "srtf": srtf}
ALL: Final = "all"
_GPU: Final = "gpu"
_FORMS: Final = ("helios", "philly")


def read_clusters(path: Path) -> dict[str, int]:
    """Read the number of nodes of each virtual cluster."""
    with path.open(newline="") as file:
        found = {row["vc"].strip(): int(row.get("nodes") or row["node num"]) for row in csv.DictReader(file)}
    if not found or min(found.values()) < 1:
        raise ValueError("every virtual cluster needs a node")
    return found


@dataclass(frozen=True, slots=True)
class Window:
    """Time window of replayed jobs. It begins at `start`, and ends `seconds` after its first job arrives."""

    start: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """The jobs of a replay, and the number of jobs left out for each reason."""

    jobs: Sequence[TraceJob]
    left_out: Mapping[str, int]


def sorted_lines(table: Path) -> list[int]:
    """Return the line numbers of a table in the Helios format, in the order in which HeliosArtifact's
    log_process.py sorts the lines.
    """
    with table.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        found = [(reader.line_num, seconds_of(row["submit_time"]) or 0.0) for row in reader]
    return [found[at][0] for at in argsort([arrival for _, arrival in found])]


def jobs_of(
    trace: Trace,
    clusters: Mapping[str, int],
    gpus_per_node: int,
    window: Window,
    lines: Sequence[int] | None = None,
) -> Replayed:
    """Return the jobs of the virtual clusters in the order of their arrival, as pods with one GPU each.

    `lines` contains the line numbers of the table in the order of arrival. If it is given, the jobs are sorted a
    second time, as in the published simulator.
    """
    rank = {line: at for at, line in enumerate(lines or ())}
    left_out = Counter(trace.left_out)
    shapes: dict[tuple[str, int], Shape] = {}
    jobs: list[TraceJob] = []
    first: float | None = None
    for entry in sorted(trace.entries, key=lambda one: rank[one.row] if rank else one.arrival):
        arrival, duration, gpus = float(round(entry.arrival)), float(round(entry.duration)), int(entry.gpus)
        if entry.team not in clusters:
            left_out["of other virtual clusters"] += 1
            continue
        first = arrival if first is None and arrival >= (window.start or 0.0) else first
        if first is None or (window.seconds is not None and arrival - first > window.seconds):
            left_out["outside the window"] += 1
        elif not duration:
            left_out["without a duration"] += 1
        elif gpus > clusters[entry.team] * gpus_per_node:
            left_out["larger than the virtual cluster"] += 1
        else:
            shape = Shape(resource=_GPU, units=1, pods=gpus, pool=entry.team)
            shape = shapes.setdefault((entry.team, gpus), shape)
            jobs.append(
                TraceJob(name=entry.name, team=entry.team, arrival=arrival, duration=duration, shape=shape)
            )
    if rank:
        jobs = [jobs[at] for at in argsort([job.arrival for job in jobs])]
    return Replayed(jobs, left_out)


def platform_of(clusters: Mapping[str, int], gpus_per_node: int) -> Platform:
    """Return a platform with one pool and one team per virtual cluster. Its nodes have enough CPU and memory for
    every job.
    """
    pools = tuple(
        RehearsalPool(
            name=name,
            desired=nodes,
            min=nodes,
            max=nodes,
            scaled=False,
            gpus_per_node=gpus_per_node,
            cpu=gpus_per_node,
            memory=gpus_per_node,
            pods=gpus_per_node,
            offers={_GPU: gpus_per_node},
            gpus={_GPU: 1.0},
            parts={_GPU: (1, 1)},
            usd_per_hour=None,
        )
        for name, nodes in clusters.items()
    )
    return Platform(pools=pools, teams=tuple(clusters))


def replay(jobs: Sequence[TraceJob], clusters: Mapping[str, int], gpus_per_node: int, order: str) -> Recorded:
    """Rehearse the jobs in one order. A stopped job resumes from the point where it stopped."""
    longer = 1.0 if order == "srtf" else 0.0
    jobs = [
        TraceJob(
            name=one.name, team=one.team, arrival=one.arrival, duration=one.duration + longer, shape=one.shape
        )
        for one in jobs
    ]
    return rehearse(
        platform_of(clusters, gpus_per_node), jobs, Assumptions(checkpoint=1.0), admission=ORDERS[order]
    )


@dataclass(frozen=True, slots=True)
class Means:
    """Mean completion and queueing times of a virtual cluster's jobs in seconds, and the number of preemptions."""

    jobs: int
    completion: float
    queue: float
    preemptions: int


def means(recorded: Recorded, clusters: Mapping[str, int], gpus_per_node: int) -> dict[str, Means]:
    """Return the means for each virtual cluster that has jobs, and for all jobs together."""
    found = report(platform_of(clusters, gpus_per_node), recorded, steps=1)
    return {
        one.team or ALL: Means(one.jobs, one.completion.mean, one.wait.mean, one.preemptions)
        for one in (*found.teams, found.total)
        if one.completion is not None and one.wait is not None
    }


# -- published figures ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Published:
    """Published mean completion and queueing times by virtual cluster and order, and the time window of the jobs.

    `table` is true if the trace is the published table, and false if it is the original log.
    """

    table: bool
    window: Window
    means: Mapping[str, Mapping[str, Sequence[float]]]


def published_for(path: Path, trace: Trace, clusters: Mapping[str, int], gpus_per_node: int) -> Published | None:
    """Return the published figures for a trace on the given clusters, or None if no figures were published."""
    known: Any = yaml.safe_load(PUBLISHED.read_text("utf-8"))
    if dict(clusters) != known["nodes"] or gpus_per_node != known["gpus_per_node"]:
        return None
    if trace.form == "philly":
        start = known["log"]["from"]
    elif _git_blob(path) == known["table"]["blob"]:
        start = known["table"]["from"]
    else:
        return None
    window = Window(seconds_of(str(start)), known["seconds"])
    return Published(trace.form != "philly", window, known["means"])


def _git_blob(path: Path) -> str:
    """Return the Git blob ID of a file."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


# -- output -----------------------------------------------------------------------------------------------


def rows(name: str, found: Mapping[str, Means], published: Published | None) -> list[tuple[str, ...]]:
    """Return the table rows for a virtual cluster: the results of each order, next to the published figures."""
    rows: list[tuple[str, ...]] = []
    for order, one in found.items():
        known = published.means[name].get(order) if published is not None else None
        beside = tuple(_beside(mine, known, at) for at, mine in enumerate((one.completion, one.queue)))
        rows.append(
            (
                name,
                f"{one.jobs:,}",
                order,
                f"{one.completion:,.0f}",
                *beside[0],
                f"{one.queue:,.0f}",
                *beside[1],
                f"{one.completion - one.queue:,.0f}",
                "-" if known is None else f"{known[0] - known[1]:,.0f}",
                f"{one.preemptions:,}",
            )
        )
    return rows


def _beside(mine: float, known: Sequence[float] | None, at: int) -> tuple[str, str]:
    """Return a published figure, and the difference between the replayed figure and the published one."""
    if known is None:
        return "-", "-"
    return f"{known[at]:,.0f}", f"{100 * (mine / known[at] - 1):+.1f} %"


def orders_of(text: str) -> list[str]:
    """Parse a comma-separated list of orders, such as `fifo,sjf`."""
    chosen = text.split(",")
    if unknown := [one for one in chosen if one not in ORDERS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(ORDERS)}")
    return chosen


def date_of(text: str) -> float:
    """Parse a date, with or without a time, and return it as seconds since 1970."""
    try:
        return float(seconds_of(datetime.fromisoformat(text).isoformat()) or 0.0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2017-10-01") from None


def main(arguments: Sequence[str] | None = None) -> None:
    """Replay a trace and print one table. `arguments` are the command-line arguments."""
    parser = argparse.ArgumentParser(description="Replay a trace on virtual clusters under FIFO, SJF and SRTF.")
    parser.add_argument(
        "--trace", type=Path, required=True, help="Philly's job log, or a table in the Helios format"
    )
    parser.add_argument("--clusters", type=Path, required=True, help="CSV with columns vc and nodes")
    parser.add_argument("--gpus-per-node", type=int, default=8)
    parser.add_argument("--orders", type=orders_of, default=list(ORDERS))
    parser.add_argument(
        "--from",
        type=date_of,
        dest="start",
        help="leave out jobs that arrive before this date (Philly: 2017-10-01)",
    )
    parser.add_argument(
        "--seconds", type=float, help="leave out jobs that arrive more than this time after the first job"
    )
    given = parser.parse_args(arguments)
    try:
        clusters = read_clusters(given.clusters)
        trace = read_trace(given.trace)
        if trace.form not in _FORMS:
            parser.error(f"{given.trace}: a trace in the {trace.form} format; allowed: {', '.join(_FORMS)}")
    except BadInput as problem:
        parser.error("\n".join(f"{given.trace}: {one}" for one in problem.problems))
    except (OSError, ValueError, KeyError) as problem:
        parser.error(f"cannot read {given.clusters}: {problem!r}")
    published = published_for(given.trace, trace, clusters, given.gpus_per_node)
    window = Window(given.start, given.seconds)
    if window == Window() and published is not None:
        window = published.window
    if published is not None and window != published.window:
        published = None
    lines = sorted_lines(given.trace) if published is not None and published.table else None
    replayed = jobs_of(trace, clusters, given.gpus_per_node, window, lines)
    for reason, count in replayed.left_out.items():
        print(f"left out: {count:,} {'job' if count == 1 else 'jobs'} {reason}", file=sys.stderr)
    if not replayed.jobs:
        parser.error("no jobs are left")
    by_order: dict[str, dict[str, Means]] = {}
    for order in given.orders:
        began = time.monotonic()
        recorded = replay(replayed.jobs, clusters, given.gpus_per_node, order)
        by_order[order] = means(recorded, clusters, given.gpus_per_node)
        print(f"{order}: {len(replayed.jobs):,} jobs in {time.monotonic() - began:.1f} s", file=sys.stderr)
    heads = (
        "cluster", "jobs", "order", "completion s", "published", "difference",
        "queue s", "published", "difference", "duration s", "published", "stopped",
    )  # fmt: skip
    table = Table(box=None)
    for at, head in enumerate(heads):
        table.add_column(head, justify="left" if at in (0, 2) else "right")
    for name in (*clusters, ALL):
        for row in rows(
            name, {order: found[name] for order, found in by_order.items() if name in found}, published
        ):
            table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


if __name__ == "__main__":
    main()
