"""Measures the percentage of a fleet's GPUs that each kube-scheduler profile puts to use, on traces in the openb
format.

    python benchmarks/scheduler_profiles.py --nodes NODES.csv --pods PODS.csv [PODS.csv ...] [--seeds 42-44]

The node list has the columns cpu_milli, memory_mib, gpu and model. A pod list has the columns cpu_milli,
memory_mib, num_gpu and gpu_spec. The column gpu_spec contains the acceptable GPU models, joined by |. It is empty
if any model is acceptable. The traces are openb_node_list_gpu_node.csv and openb_pod_list_*.csv in
alibaba/clusterdata, cluster-trace-gpu-v2023. kube-scheduler does not support fractions of a GPU. If a pod requests
a fraction, the benchmark requests a whole GPU.

Pods are drawn from the trace with replacement until they request 130 % of all GPUs. They are placed one by one,
and no pod leaves, as in Weng et al., "Beware of Fragmentation", USENIX ATC 2023. The result is the percentage of
all GPUs that are then in use. The profiles are the default profile and `gpu-packed`, which `gpu-platform
scheduler-config` prints. Both use the scores of planning/scheduling/state.py.
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from extensions.capacity.scheduling.model import CPU, MEMORY, PODS, Node, PodGroup, ProfileName
from extensions.capacity.scheduling.state import NodeState

GPU: Final = "nvidia.com/gpu"
MIB: Final = 2**20
OVERLOAD: Final = 1.3
PROFILES: Final[tuple[ProfileName, ...]] = ("default", "packed")


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Allocatable resources of a node: CPU in millicores, memory in MiB, and GPUs of one model."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str = ""


@dataclass(frozen=True, slots=True)
class PodShape:
    """Requests of a pod: CPU in millicores, memory in MiB, and whole GPUs of one of `models`.

    If `models` is empty, the pod accepts GPUs of any model.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int
    models: tuple[str, ...] = ()


def read_nodes(path: Path) -> list[NodeShape]:
    """Read the node list. Raises OSError, ValueError or KeyError if the file cannot be read."""
    with path.open(newline="") as file:
        return [
            NodeShape(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in csv.DictReader(file)
        ]


def read_pods(path: Path) -> list[PodShape]:
    """Read the pod list. Raises OSError, ValueError or KeyError if the file cannot be read."""
    with path.open(newline="") as file:
        return [
            PodShape(
                int(row["cpu_milli"]),
                int(row["memory_mib"]),
                int(row["num_gpu"]),
                tuple(sorted(filter(None, (row.get("gpu_spec") or "").split("|")))),
            )
            for row in csv.DictReader(file)
        ]


def resampled(pods: Sequence[PodShape], capacity: int, seed: int) -> list[PodShape]:
    """Draw pods with replacement until they request 130 % of `capacity` GPUs, and shuffle them."""
    draw = random.Random(seed)
    drawn: list[PodShape] = []
    demand = 0
    while demand < OVERLOAD * capacity:
        pod = draw.choice(pods)
        drawn.append(pod)
        demand += pod.gpus
    draw.shuffle(drawn)
    return drawn


class ProfilePlacer:
    """Places pods one after another. Each pod goes to the first node with the best score under a profile."""

    def __init__(self, nodes: Sequence[NodeShape], profile: ProfileName) -> None:
        self._profile: ProfileName = profile
        self._states = [NodeState(index, _node(index, node)) for index, node in enumerate(nodes)]
        self._models = [node.model for node in nodes]
        self._scores: dict[PodShape, list[int]] = {}

    def place(self, pod: PodShape) -> int | None:
        """Place a pod and return the index of its node, or None if the pod does not fit on any node."""
        # Placing a pod changes only the score of its node.
        scores = self._scores.setdefault(pod, [self._score(pod, state) for state in self._states])
        best = max(range(len(scores)), key=scores.__getitem__)
        if scores[best] < 0:
            return None
        self._states[best].take(_group(pod))
        for kind, known in self._scores.items():
            known[best] = self._score(kind, self._states[best])
        return best

    def _score(self, pod: PodShape, state: NodeState) -> int:
        group = _group(pod)
        accepted = not pod.models or not pod.gpus or self._models[state.index] in pod.models
        return state.score(group, 0, 0, self._profile) if accepted and state.fits(group.needs()) else -1


def _node(index: int, node: NodeShape) -> Node:
    allocatable = {CPU: node.cpu_milli, MEMORY: node.memory_mib * MIB, PODS: 1000, GPU: node.gpus}
    return Node(name=str(index), pool="", allocatable=allocatable, gpus=({GPU: 1},) * node.gpus)


def _group(pod: PodShape) -> PodGroup:
    requests = {CPU: pod.cpu_milli, MEMORY: pod.memory_mib * MIB, GPU: pod.gpus}
    return PodGroup(name="pod", team="", requests=requests)


def allocated(profile: ProfileName, nodes: Sequence[NodeShape], pods: Sequence[PodShape], seed: int) -> float:
    """Return the percentage of all GPUs that are in use."""
    capacity = sum(node.gpus for node in nodes)
    placer = ProfilePlacer(nodes, profile)
    arriving = resampled(pods, capacity, seed)
    return 100 * sum(pod.gpus for pod in arriving if placer.place(pod) is not None) / capacity


def seeds_of(text: str) -> list[int]:
    """Parse seeds such as `42-51` or `1,2,3`."""

    def parts() -> Iterator[int]:
        for part in text.split(","):
            first, _, last = part.partition("-")
            yield from range(int(first), int(last or first) + 1)

    return list(parts())


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each trace, with the mean over all seeds for each profile."""
    parser = argparse.ArgumentParser(description="Measure how many GPUs kube-scheduler profiles put to use.")
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True, nargs="+")
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("42-44"))
    given = parser.parse_args(arguments)
    try:
        nodes = read_nodes(given.nodes)
        traces = {path.stem: read_pods(path) for path in given.pods}
    except (OSError, ValueError, KeyError) as problem:
        parser.error(f"cannot read the trace: {problem!r}")
    for name, pods in traces.items():
        if not any(node.gpus for node in nodes) or not any(pod.gpus for pod in pods):
            parser.error(f"{name}: no node has a GPU, or no pod requests one")
    table = Table("trace", "seeds", *(f"{profile} %" for profile in PROFILES), box=None)
    for name, pods in traces.items():
        means: list[str] = []
        for profile in PROFILES:
            shares = [allocated(profile, nodes, pods, seed) for seed in given.seeds]
            means.append(f"{statistics.mean(shares):.2f}")
            print(f"{name}, {profile}: {means[-1]} %", file=sys.stderr)
        table.add_row(name, str(len(given.seeds)), *means)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    main()
