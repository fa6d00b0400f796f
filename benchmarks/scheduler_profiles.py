"""How far profiles of kube-scheduler are from the placement planner, on traces in the form of openb.

    python benchmarks/scheduler_profiles.py --nodes NODES.csv --pods PODS.csv [PODS.csv ...] [--seeds 42-44]

kube-scheduler knows no thousandths of a GPU, so a pod with a share requests a whole GPU here, for every placer.
The pods arrive as in the protocol `resampled` of placement.py. The figure is the allocated share of all GPUs when
the pods that arrived demand 130 % of them. Placers: the planner's, the default profile, and the profile
`gpu-packed` that `gpu-platform scheduler-config` prints, with the scores of planning/scheduling/state.py. Models
that a pod accepts are kept by all.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from placement import read_nodes, read_pods, resampled, seeds_of
from rich.console import Console
from rich.table import Table

from gpu_platform.planning.placement import WHOLE_GPU, NodeShape, OnlinePlacer, PodShape
from gpu_platform.planning.scheduling.model import CPU, MEMORY, PODS, Amounts, Node, PodGroup, ProfileName
from gpu_platform.planning.scheduling.state import NodeState

GPU: Final = "nvidia.com/gpu"
MIB: Final = 2**20
PLACERS: Final = ("planner", "default", "packed")


class ProfilePlacer:
    """Places one pod after the other on the first node with the best score of a profile."""

    def __init__(self, nodes: Sequence[NodeShape], profile: ProfileName) -> None:
        self._profile: ProfileName = profile
        self._states = [NodeState(index, _node(index, node)) for index, node in enumerate(nodes)]
        self._models = [node.model for node in nodes]
        self._scores: dict[PodShape, list[int]] = {}

    def place(self, pod: PodShape) -> int | None:
        """Place a pod and return the index of its node; None: it fits none."""
        group = PodGroup(name="pod", team="", requests=_requests(pod))
        # A score changes only on the node that a pod was placed on.
        scores = self._scores.setdefault(pod, [self._score(pod, group, one) for one in self._states])
        best = max(range(len(scores)), key=scores.__getitem__)
        if scores[best] < 0:
            return None
        self._states[best].take(group)
        for kind, known in self._scores.items():
            known[best] = self._score(
                kind, PodGroup(name="", team="", requests=_requests(kind)), self._states[best]
            )
        return best

    def _score(self, pod: PodShape, group: PodGroup, state: NodeState) -> int:
        wanted = not pod.models or self._models[state.index] in pod.models
        return state.score(group, 0, 0, self._profile) if wanted and state.fits(group.needs()) else -1


def _node(index: int, node: NodeShape) -> Node:
    allocatable = {CPU: node.cpu_milli, MEMORY: node.memory_mib * MIB, PODS: 1000, GPU: node.gpus}
    return Node(name=str(index), pool="", allocatable=allocatable, gpus=({GPU: 1},) * node.gpus)


def _requests(pod: PodShape) -> Amounts:
    return {CPU: pod.cpu_milli, MEMORY: pod.memory_mib * MIB, GPU: pod.gpus}


def allocated(placer: str, nodes: Sequence[NodeShape], pods: Sequence[PodShape], seed: int) -> float:
    """Return the allocated share of all GPUs in percent."""
    capacity = sum(node.gpus for node in nodes) * WHOLE_GPU
    profiles: Mapping[str, ProfileName] = {"default": "default", "packed": "packed"}
    chosen = ProfilePlacer(nodes, profiles[placer]) if placer in profiles else OnlinePlacer(nodes, Counter(pods))
    arriving = resampled(pods, capacity, seed)
    return 100 * sum(pod.demand_milli for pod in arriving if chosen.place(pod) is not None) / capacity


def main() -> None:
    """Print a row for each trace: the mean of the seeds for each placer."""
    parser = argparse.ArgumentParser(description="How far profiles of kube-scheduler are from the planner.")
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True, nargs="+")
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("42-44"))
    given = parser.parse_args()
    table = Table("trace", "seeds", *(f"{one} %" for one in PLACERS), box=None)
    try:
        nodes = read_nodes(given.nodes)
        traces = {path.stem: [_whole(pod) for pod in read_pods(path)] for path in given.pods}
    except (OSError, ValueError, KeyError) as problem:
        parser.error(f"cannot read the trace: {problem!r}")
    for name, pods in traces.items():
        means: list[str] = []
        for placer in PLACERS:
            shares = [allocated(placer, nodes, pods, seed) for seed in given.seeds]
            means.append(f"{statistics.mean(shares):.2f}")
            print(f"{name}, {placer}: {means[-1]} %", file=sys.stderr)
        table.add_row(name, str(len(given.seeds)), *means)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _whole(pod: PodShape) -> PodShape:
    return replace(pod, gpu_milli=WHOLE_GPU) if pod.gpus else pod


if __name__ == "__main__":
    main()
