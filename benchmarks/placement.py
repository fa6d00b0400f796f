"""Measure the share of a fleet's GPUs that the placement planner allocates, on traces in the form of openb.

    python benchmarks/placement.py --nodes NODES.csv --pods PODS.csv [PODS.csv ...] [--protocols offline,originals]

Nodes: columns cpu_milli, memory_mib, gpu, model. Pods: cpu_milli, memory_mib, num_gpu, gpu_milli (under 1000: a
share of one GPU) and gpu_spec (models that will do, joined by |; empty: any). The traces: alibaba/clusterdata,
cluster-trace-gpu-v2023, openb_node_list_gpu_node.csv and openb_pod_list_*.csv.

Protocols, each until the pods demand 130 % of all GPUs, placed one by one without departures; the figure is the
allocated share of all GPUs:

- resampled: every pod is drawn from the trace, with replacement (Weng et al., "Beware of Fragmentation", USENIX
  ATC 2023, as the paper tells it).
- originals: the trace's pods once, shuffled, then drawn ones (as the paper's artifact does it); of a trace that
  demands more, pods drawn by lot are left out.
- offline: all pods are known at once, as much GPU demand as possible is placed, and a bound says what is possible.

The planner knows the trace's kinds of pods and their numbers, as FGD does; it does not know what comes next.
Published figures stand beside the trace and the protocol that they belong to (placement_published.yaml).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console
from rich.table import Table

from gpu_platform.planning.placement import WHOLE_GPU, NodeShape, OnlinePlacer, PodShape, pack
from gpu_platform.planning.placement.offline import WORK

OVERLOAD: Final = 1.3
PUBLISHED: Final = Path(__file__).with_name("placement_published.yaml")
OFFLINE: Final = "offline"


def read_nodes(path: Path) -> list[NodeShape]:
    """Read the node list."""
    with path.open(newline="") as file:
        return [
            NodeShape(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in csv.DictReader(file)
        ]


def read_pods(path: Path) -> list[PodShape]:
    """Read the pod list."""
    with path.open(newline="") as file:
        return [
            PodShape(
                int(row["cpu_milli"]),
                int(row["memory_mib"]),
                int(row["num_gpu"]),
                int(row["gpu_milli"]),
                tuple(sorted(filter(None, (row.get("gpu_spec") or "").split("|")))),
            )
            for row in csv.DictReader(file)
        ]


def resampled(pods: Sequence[PodShape], capacity_milli: int, seed: int) -> list[PodShape]:
    """Draw pods with replacement up to 130 % of the capacity, and shuffle them."""
    draw = random.Random(seed)
    drawn: list[PodShape] = []
    demand = 0
    while demand < OVERLOAD * capacity_milli:
        pod = draw.choice(pods)
        drawn.append(pod)
        demand += pod.demand_milli
    draw.shuffle(drawn)
    return drawn


def originals(pods: Sequence[PodShape], capacity_milli: int, seed: int) -> list[PodShape]:
    """Shuffle the pods, and draw more up to 130 % of the capacity, or leave out as many as are above it."""
    draw = random.Random(seed)
    arriving = list(pods)
    draw.shuffle(arriving)
    demand = sum(pod.demand_milli for pod in arriving)
    while demand > OVERLOAD * capacity_milli:
        demand -= arriving.pop(draw.randrange(len(arriving))).demand_milli
    while True:
        pod = draw.choice(pods)
        if demand + pod.gpu_milli > OVERLOAD * capacity_milli:  # one GPU's thousandths, as the artifact has it
            return arriving
        arriving.append(pod)
        demand += pod.demand_milli


ONLINE: Final[Mapping[str, Callable[[Sequence[PodShape], int, int], list[PodShape]]]] = {
    "resampled": resampled,
    "originals": originals,
}


@dataclass(frozen=True, slots=True)
class Trace:
    """Pods on nodes; `published`: share of GPUs in percent by planner, by protocol."""

    name: str
    nodes: Sequence[NodeShape]
    pods: Sequence[PodShape]
    published: Mapping[str, Mapping[str, float]]

    @property
    def capacity_milli(self) -> int:
        """Thousandths of GPUs of all nodes."""
        return sum(node.gpus for node in self.nodes) * WHOLE_GPU


def read_traces(nodes: Path, pods: Sequence[Path], published: Path) -> list[Trace]:
    """Read the traces; raises OSError, ValueError and KeyError where a file cannot be read."""
    known: Any = yaml.safe_load(published.read_text("utf-8"))
    on_those_nodes: dict[str, dict[str, float]] = known["pods"] if known["nodes"] == _digest(nodes) else {}
    fleet = read_nodes(nodes)
    return [
        Trace(path.stem, fleet, read_pods(path), {known["protocol"]: on_those_nodes.get(_digest(path), {})})
        for path in pods
    ]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def place_all(
    nodes: Sequence[NodeShape], pods: Sequence[PodShape], protocol: str, seed: int
) -> tuple[float, float]:
    """Return the allocated share in percent and the seconds of one run."""
    began = time.monotonic()
    capacity = sum(node.gpus for node in nodes) * WHOLE_GPU
    placer = OnlinePlacer(nodes, Counter(pods))
    arriving = ONLINE[protocol](pods, capacity, seed)
    allocated = sum(pod.demand_milli for pod in arriving if placer.place(pod) is not None)
    return 100 * allocated / capacity, time.monotonic() - began


def online_row(trace: Trace, protocol: str, seeds: Sequence[int], workers: Executor) -> tuple[str, ...]:
    """Run one protocol with every seed and return its row of the table."""
    runs = [workers.submit(place_all, trace.nodes, trace.pods, protocol, seed) for seed in seeds]
    shares: list[float] = []
    seconds: list[float] = []
    for seed, run in zip(seeds, runs, strict=True):
        share, took = run.result()
        shares.append(share)
        seconds.append(took)
        print(f"{trace.name}, {protocol}, seed {seed}: {share:.2f} % in {took:.0f} s", file=sys.stderr)
    mean = statistics.mean(shares)
    spread = f" ± {statistics.stdev(shares):.2f}" if len(shares) > 1 else ""
    published = trace.published.get(protocol, {})
    best = max(published.values(), default=None)
    return (
        trace.name,
        protocol,
        str(len(seeds)),
        f"{mean:.2f}{spread}",
        ", ".join(f"{name} {share:.2f}" for name, share in published.items()) or "-",
        "-" if best is None else f"{mean - best:+.2f}",
        "-",
        f"{statistics.mean(seconds):.0f} a seed",
    )


def offline_row(trace: Trace, work: int) -> tuple[str, ...]:
    """Pack a trace and return its row of the table."""
    began = time.monotonic()
    packing = pack(trace.nodes, trace.pods, work=work)
    seconds = time.monotonic() - began
    bound = 100 * packing.bound_milli / packing.capacity_milli
    how = f"by {packing.bound_by}, {'converged' if packing.converged else 'not converged'}"
    share = f"{100 * packing.share:.2f}"
    return trace.name, OFFLINE, "-", share, "-", "-", f"{bound:.2f} {how}", f"{seconds:.0f}"


def seeds_of(text: str) -> list[int]:
    """Read `42-51` or `1,2,3`."""

    def parts() -> Iterator[int]:
        for part in text.split(","):
            first, _, last = part.partition("-")
            yield from range(int(first), int(last or first) + 1)

    return list(parts())


def protocols_of(text: str) -> list[str]:
    """Read `offline,resampled`."""
    chosen = text.split(",")
    if unknown := [one for one in chosen if one not in (OFFLINE, *ONLINE)]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join((OFFLINE, *ONLINE))}")
    return chosen


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the arguments (by default those of the process) ask for, and print one table."""
    parser = argparse.ArgumentParser(description="How much of a fleet's GPUs the placement planner gets to work.")
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True, nargs="+")
    parser.add_argument("--protocols", type=protocols_of, default=[OFFLINE, *ONLINE])
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("42-51"))
    parser.add_argument("--work", type=int, default=WORK, help="cells of tables that the offline search fills")
    parser.add_argument("--workers", type=int, default=2, help="online runs side by side")
    parser.add_argument("--published", type=Path, default=PUBLISHED, help="published figures by trace")
    given = parser.parse_args(arguments)
    try:
        traces = read_traces(given.nodes, given.pods, given.published)
    except (OSError, ValueError, KeyError) as problem:
        parser.error(f"cannot read the trace: {problem!r}")
    for trace in traces:
        if not trace.capacity_milli or not any(pod.demand_milli for pod in trace.pods):
            parser.error(f"{trace.name}: no node has a GPU, or no pod asks for one")
    heads = ("trace", "protocol", "seeds", "GPUs allocated %", "published %", "difference", "bound %", "seconds")
    table = Table(*heads, box=None)
    with ProcessPoolExecutor(given.workers) as workers:
        for trace in traces:
            for protocol in given.protocols:
                if protocol == OFFLINE:
                    table.add_row(*offline_row(trace, given.work))
                else:
                    table.add_row(*online_row(trace, protocol, given.seeds, workers))
    # Whole rows, too, where they go to a file or to another program.
    Console(width=None if sys.stdout.isatty() else 200).print(table)


if __name__ == "__main__":
    main()
