"""How much of a fleet's GPUs the placement planner gets to work, on a trace in the form of openb.

    python benchmarks/placement.py --nodes NODES.csv --pods PODS.csv [--online | --offline] [--seeds 42-51]

Nodes: columns cpu_milli, memory_mib, gpu, model. Pods: cpu_milli, memory_mib, num_gpu, gpu_milli (under 1000: a
share of one GPU) and gpu_spec (models that will do, joined by |; empty: any). The trace: alibaba/clusterdata,
cluster-trace-gpu-v2023, openb_node_list_gpu_node.csv and openb_pod_list_default.csv.

Offline: all pods are known, as much GPU demand as possible is placed. Online: the protocol of Weng et al., "Beware
of Fragmentation" (USENIX ATC 2023): pods are drawn with replacement up to 130 % of the GPU capacity, shuffled, and
placed one by one without departures; the figure is the allocated share of all GPUs. The planner knows the trace's
kinds of pods and their numbers, as theirs does; it does not know what comes next.
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gpu_platform.planning.placement import WHOLE_GPU, NodeShape, OnlinePlacer, PodShape, pack
from gpu_platform.planning.placement.offline import WORK

OVERLOAD = 1.3
PUBLISHED_ONLINE = {"random": 87.47, "best fit": 93.08, "FGD (USENIX ATC'23)": 95.39}
PUBLISHED_OFFLINE = {"naive greedy": 91.66, "dual bound": 96.77}


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


def arrivals(pods: Sequence[PodShape], capacity_milli: int, seed: int) -> list[PodShape]:
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


def online(task: tuple[list[NodeShape], list[PodShape], int]) -> tuple[int, float, float]:
    """Return the seed, the allocated share in percent and the seconds of one run."""
    nodes, pods, seed = task
    began = time.monotonic()
    capacity = sum(node.gpus for node in nodes) * WHOLE_GPU
    placer = OnlinePlacer(nodes, Counter(pods))
    allocated = sum(pod.demand_milli for pod in arrivals(pods, capacity, seed) if placer.place(pod) is not None)
    return seed, 100 * allocated / capacity, time.monotonic() - began


def seeds_of(text: str) -> list[int]:
    """Read `42-51` or `1,2,3`."""

    def parts() -> Iterator[int]:
        for part in text.split(","):
            first, _, last = part.partition("-")
            yield from range(int(first), int(last or first) + 1)

    return list(parts())


def main() -> None:
    """Run what was asked for, by default both, and print one table."""
    parser = argparse.ArgumentParser(description="How much of a fleet's GPUs the placement planner gets to work.")
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--online", action="store_true")
    which.add_argument("--offline", action="store_true")
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("42-51"))
    parser.add_argument("--work", type=int, default=WORK, help="cells of tables that the offline search fills")
    parser.add_argument("--workers", type=int, default=2, help="online runs side by side")
    given = parser.parse_args()
    try:
        nodes, pods = read_nodes(given.nodes), read_pods(given.pods)
    except (OSError, ValueError, KeyError) as problem:
        parser.error(f"cannot read the trace: {problem!r}")
    if not any(node.gpus for node in nodes) or not any(pod.demand_milli for pod in pods):
        parser.error("no node has a GPU, or no pod asks for one")
    table = Table("protocol", "planner", "GPUs allocated %", "seconds", box=None)
    if not given.online:
        began = time.monotonic()
        packing = pack(nodes, pods, work=given.work)
        seconds = time.monotonic() - began
        table.add_row("offline", "this planner", f"{100 * packing.share:.2f}", f"{seconds:.0f}")
        bound = 100 * packing.bound_milli / packing.capacity_milli
        how = f"by {packing.bound_by}, {'converged' if packing.converged else 'not converged'}"
        table.add_row("offline", f"  its own bound ({how})", f"{bound:.2f}", "")
        for name, share in PUBLISHED_OFFLINE.items():
            table.add_row("offline", f"{name} (published, openb)", f"{share:.2f}", "")
    if not given.offline:
        tasks = [(nodes, pods, seed) for seed in given.seeds]
        runs: list[tuple[int, float, float]] = []
        with ProcessPoolExecutor(given.workers) as workers:
            for run in workers.map(online, tasks):
                runs.append(run)
                print(f"seed {run[0]}: {run[1]:.2f} % in {run[2]:.0f} s", file=sys.stderr)
        shares = [share for _, share, _ in runs]
        spread = f" ± {statistics.stdev(shares):.2f}" if len(shares) > 1 else ""
        table.add_row(
            "online",
            f"this planner, mean of {len(runs)} seeds",
            f"{statistics.mean(shares):.2f}{spread}",
            f"{statistics.mean(seconds for *_, seconds in runs):.0f} a seed",
        )
        for name, share in PUBLISHED_ONLINE.items():
            table.add_row("online", f"{name} (published, openb)", f"{share:.2f}", "")
    Console().print(table)


if __name__ == "__main__":
    main()
