"""Number of free GPUs that the pods of a list cannot use.

The measure is taken from fragmentation gradient descent (Weng et al., "Beware of Fragmentation: Scheduling
GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023, section 4): the free GPUs of a node
that a pod cannot use, averaged over the pods of the list. This module's measure differs in one point: it considers
only pods that could run on the node if it were empty. A pool of shares is therefore not fragmented for pods that
request whole GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from extensions.capacity.scheduling.model import CPU, MEMORY, PodGroup, Scenario
from extensions.capacity.scheduling.state import NodeState
from gpu_platform.base import names

_WHOLE = (names.GPU_RESOURCE, names.GPU_DEVICE_CLASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """State of all GPUs, or of the GPUs of one pool.

    `free` is the number of free GPUs, including fractions of GPUs. `unusable` is the number of free GPUs that the
    pods of the list cannot use (the measure of Weng et al., USENIX ATC 2023). `idle` is the number of GPUs that no
    pod uses. `largest_pod` is the number of whole GPUs of the largest pod that fits, if only free GPUs count.
    `largest_with_part` is the same number for a pod that also requests CPU and memory in proportion to its GPUs.
    Both are 0 if no node offers whole GPUs.
    """

    gpus: int
    free: float
    unusable: float
    idle: int
    empty_nodes: int
    largest_pod: int
    largest_with_part: int


def fragmentation(scenario: Scenario, states: Sequence[NodeState], pool: str | None = None) -> Fragmentation:
    """Return the fragmentation of nodes in the given states. If `pool` is given, consider only its nodes."""
    kinds = _kinds(scenario)
    gpu_nodes = [state for state in states if state.node.gpus and pool in (None, state.node.pool)]
    return Fragmentation(
        gpus=sum(len(state.gpus) for state in gpu_nodes),
        free=round(float(sum(map(_free, gpu_nodes))), 4),
        unusable=round(float(sum(_unusable(state, kinds) for state in gpu_nodes)), 4),
        idle=sum(len(state.idle_gpus()) for state in gpu_nodes),
        empty_nodes=sum(len(state.idle_gpus()) == len(state.gpus) for state in gpu_nodes),
        largest_pod=max((_whole_free(state) for state in gpu_nodes), default=0),
        largest_with_part=max(map(_with_part, gpu_nodes), default=0),
    )


def _kinds(scenario: Scenario) -> list[tuple[PodGroup, int]]:
    """Group pods, including running pods, by their requests and node constraints. Return each group with its
    number of pods.
    """
    counts: dict[tuple[object, ...], tuple[PodGroup, int]] = {}
    for group, count in [
        *((group, group.count) for group in scenario.groups),
        *((one.pod, 1) for one in scenario.running),
    ]:
        key = (
            tuple(sorted(group.requests.items())),
            tuple(sorted(group.node_selector.items())),
            group.affinity,
            group.tolerations,
        )
        known = counts.get(key)
        counts[key] = (known[0] if known else group, count + (known[1] if known else 0))
    return list(counts.values())


def _unusable(state: NodeState, kinds: Sequence[tuple[PodGroup, int]]) -> Fraction:
    node, resources = state.node, state.node.gpu_resources
    empty = NodeState(state.index, node)
    total, weights = Fraction(0), 0
    for group, count in kinds:
        wanted = [name for name in resources if group.requests.get(name)]
        needs = group.needs()
        if not wanted or not group.may_run_on(node) or not empty.fits(needs):
            continue
        weights += count
        # A pod cannot use a GPU that offers none of the requested resources, or has no free units of them.
        usable = (
            sum(
                (
                    _free_of_gpu(state, index)
                    for index, gpu in enumerate(state.gpus)
                    if any(gpu.get(name) for name in wanted)
                ),
                Fraction(0),
            )
            if state.fits(needs)
            else Fraction(0)
        )
        total += count * (_free(state) - usable)
    return total / weights if weights else Fraction(0)


def _free(state: NodeState) -> Fraction:
    return sum((_free_of_gpu(state, index) for index in range(len(state.gpus))), Fraction(0))


def _free_of_gpu(state: NodeState, index: int) -> Fraction:
    """Return the free fraction of a GPU. Each unit is an equal part of the GPU."""
    offered = sum(state.node.gpus[index].values())
    return Fraction(sum(state.gpus[index].values()), offered) if offered else Fraction(0)


def _whole_free(state: NodeState) -> int:
    return max(
        (
            state.free.get(name, 0)
            for name in state.node.gpu_resources
            if name in _WHOLE and all(gpu.get(name, 1) == 1 for gpu in state.node.gpus)
        ),
        default=0,
    )


def _with_part(state: NodeState) -> int:
    gpus = _whole_free(state)
    for name in (CPU, MEMORY):
        total = state.node.allocatable.get(name, 0)
        if total:
            gpus = min(gpus, state.free[name] * len(state.gpus) // total)
    return max(0, gpus)
