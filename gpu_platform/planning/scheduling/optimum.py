"""Find the best placement of the admitted pods, with the bound that proves it.

Pods that request different resources compete for CPU and memory of a node alone, so each resource is packed by
itself (`placement/offline.py`): the bound of each holds. A node's units of the resource stand for its GPUs, CPU
counts exactly, memory in whole MiB in favour of the pods; NICs, huge pages and the number of pods of a node are
left out. All of this can only raise the bound. The packing itself is checked again with everything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpu_platform.planning.placement import WHOLE_GPU, NodeShape, PodShape, pack
from gpu_platform.planning.scheduling.model import CPU, MEMORY, PodGroup, Scenario
from gpu_platform.planning.scheduling.schedule import Placement, admit, start
from gpu_platform.planning.scheduling.state import NodeState

WORK: Final = 200_000_000
"""Cells of tables for each resource: some seconds on one core for 1,000 nodes."""
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """Units of one resource that the admitted pods get: by the scheduler, by the best packing found, at most.

    `bound_by`: `capacity`: units of all nodes that are free at the start; `demand`: units that the pods request;
    """

    resource: str
    placed: int
    packed: int
    bound: int
    bound_by: str
    proven: bool


def optimum(scenario: Scenario, placement: Placement, *, work: int = WORK) -> tuple[Optimum, ...]:
    """Return the optimum for each resource that GPUs are requested by; deterministic, and limited by work."""
    admitted = admit(scenario)[0]
    groups = tuple(replace(group, count=count) for group, count in zip(scenario.groups, admitted, strict=True))
    offered = dict.fromkeys(name for node in scenario.nodes for name in node.gpu_resources)
    return tuple(
        _of_resource(name, replace(scenario, groups=groups), placement, work)
        for name in offered
        if any(group.requests.get(name) for group in groups)
    )


def _of_resource(name: str, scenario: Scenario, placement: Placement, work: int) -> Optimum:
    offering = [state for state in start(scenario)[0] if state.node.allocatable.get(name)]
    wanting = [group for group in scenario.groups if group.requests.get(name)]
    classes = [_class_of(state, wanting) for state in offering]
    pods: list[PodGroup] = []
    shapes: list[PodShape] = []
    for index, group in enumerate(wanting):
        accepting = tuple(sorted({one for one in classes if index in one}))
        if accepting:
            pods.extend([group] * group.count)
            shapes.extend([_pod_shape(name, group, tuple(map(str, accepting)))] * group.count)
    nodes = [_node_shape(name, state, str(one)) for state, one in zip(offering, classes, strict=True)]
    packing = pack(nodes, shapes, work=work)
    packed = 0
    for one in packing.placed:
        if offering[one.node].fits(pods[one.pod].needs()):
            offering[one.node].take(pods[one.pod])
            packed += pods[one.pod].requests[name]
    placed = sum(scenario.groups[one.group].requests.get(name, 0) for one in placement.assignments)
    best, bound = max(packed, placed), packing.bound_milli // WHOLE_GPU
    return Optimum(
        resource=name, placed=placed, packed=best, bound=bound, bound_by=packing.bound_by, proven=best == bound
    )


def _class_of(state: NodeState, groups: Sequence[PodGroup]) -> tuple[int, ...]:
    """Return the groups that may run on a node: the same for all nodes of a class."""
    return tuple(index for index, group in enumerate(groups) if group.may_run_on(state.node))


def _node_shape(name: str, state: NodeState, model: str) -> NodeShape:
    return NodeShape(
        cpu_milli=max(0, state.free.get(CPU, 0)),
        memory_mib=max(0, math.ceil(state.free.get(MEMORY, 0) / _MIB)),
        gpus=max(0, state.free.get(name, 0)),
        model=model,
    )


def _pod_shape(name: str, group: PodGroup, models: tuple[str, ...]) -> PodShape:
    return PodShape(
        cpu_milli=group.requests.get(CPU, 0),
        memory_mib=group.requests.get(MEMORY, 0) // _MIB,
        gpus=group.requests[name],
        gpu_milli=WHOLE_GPU,
        models=models,
    )
