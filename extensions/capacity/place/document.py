"""The JSON document of `gpu-platform place`. The text and HTML output are rendered from it.

All keys are always present:

- `version` is 1. `stack` is the stack's name. `start` is `plan` for empty nodes of the plan, or `cluster` for
  nodes with their running pods. `assumptions` is a list of sentences.
- `summary`: `pods`, `placed`, `pending`, `skipped`, `nodes` and `gpus`.
- `groups`: groups of equal pods, in the order of the file. With `--live`, the groups of the cluster come first.
  Keys: `team`, `name`, `kind`, `count`, `placed`, `pending`, `priority` (a number), `priority_class`, `requests`
  (quantities by resource), `nodes` (number of pods by node) and `not_simulated` (pod fields that the simulation
  ignores).
- `pending`: `team`, `name`, `count`, `reasons` (`resource` and `text`), `advice` and `advice_complete` (false if
  the search stopped at its limit). Keys of `advice`: `kind` (`less`, `resource`, `nodes` or `quota`), `text` and
  `displaces` (the number of pods by group that become pending instead).
- `nodes`: `name`, `pool`, `allocatable` and `free` (quantities), `gpus` (each with `offered` and `free` units and
  `pods` with `owner`, `units` and `running`) and `pods` (`owner`, `count` and `running`).
- `fragmentation`: `pool` (null for all pools), and `before` and `after` with `gpus`, `free`, `unusable` (GPUs),
  `idle`, `empty_nodes`, `largest_pod` (the number of GPUs of the largest pod that fits) and `largest_with_part`
  (the same number for a pod that also requests CPU and memory in proportion to its GPUs).
- `profile` is the scheduler's profile. `profiles` contains, for each profile `name`, the number of `placed` pods
  and the GPUs that are then `unusable` and `idle`.
- `moves`: `purpose` (`pod` or `node`), `node`, `for` (a group or null), `idle_before`, `idle_after` and `moves`
  (`pod`, `controller` and `to`).
- `skipped`: `name` and `why`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from extensions.capacity.pod_sources import Skipped
from extensions.capacity.scheduling.explain import quantity_text
from extensions.capacity.scheduling.model import Amounts, PodGroup, Scenario
from extensions.capacity.scheduling.report import PendingGroup, PlacementReport


def place_document(
    report: PlacementReport, skipped: Sequence[Skipped], *, stack: str, live: bool, assumptions: Sequence[str]
) -> dict[str, Any]:
    """Return the report as plain JSON values."""
    scenario, placement = report.scenario, report.placement
    placed = placement.placed(len(scenario.groups))
    pods = sum(group.count for group in scenario.groups)
    return {
        "version": 1,
        "stack": stack,
        "start": "cluster" if live else "plan",
        "assumptions": list(assumptions),
        "summary": {
            "pods": pods,
            "placed": sum(placed),
            "pending": pods - sum(placed),
            "skipped": len(skipped),
            "nodes": len(scenario.nodes),
            "gpus": sum(len(node.gpus) for node in scenario.nodes),
        },
        "groups": [_group(report, index, placed[index]) for index in range(len(scenario.groups))],
        "pending": [_pending(scenario, one) for one in report.pending],
        "nodes": [_node(report, index) for index in range(len(scenario.nodes))],
        "fragmentation": [
            {"pool": pool or None, "before": asdict(before), "after": asdict(after)}
            for pool, (before, after) in report.fragmentation.items()
        ],
        "profile": scenario.profile,
        "profiles": [
            {"name": name, "placed": placed, "unusable": after.unusable, "idle": after.idle}
            for name, (placed, after) in report.profiles.items()
        ],
        "moves": _moves(report),
        "skipped": [asdict(one) for one in skipped],
    }


def _group(report: PlacementReport, index: int, placed: int) -> dict[str, Any]:
    group = report.scenario.groups[index]
    nodes = Counter(
        report.scenario.nodes[one.node].name for one in report.placement.assignments if one.group == index
    )
    return {
        "team": group.team,
        "name": group.name,
        "kind": group.kind,
        "count": group.count,
        "placed": placed,
        "pending": group.count - placed,
        "priority": group.priority,
        "priority_class": group.priority_class,
        "requests": _quantities(group.requests),
        "nodes": dict(nodes),
        "not_simulated": list(group.not_simulated),
    }


def _pending(scenario: Scenario, one: PendingGroup) -> dict[str, Any]:
    group = scenario.groups[one.group]
    return {
        "team": group.team,
        "name": group.name,
        "count": one.count,
        "reasons": [asdict(reason) for reason in one.reasons],
        "advice": [
            {"kind": advice.kind, "text": advice.text, "displaces": dict(advice.displaces)}
            for advice in one.advice
        ],
        "advice_complete": one.advised,
    }


def _node(report: PlacementReport, index: int) -> dict[str, Any]:
    node, state = report.scenario.nodes[index], report.placement.states[index]
    on_gpu: list[Counter[tuple[str, bool]]] = [Counter() for _ in node.gpus]
    pods: Counter[tuple[str, bool]] = Counter()
    for pod, gpus, running in _on_node(report, index):
        pods[str(pod), running] += 1
        for gpu in gpus:
            on_gpu[gpu][str(pod), running] += 1
    return {
        "name": node.name,
        "pool": node.pool,
        "allocatable": _quantities(node.allocatable),
        "free": _quantities(state.free),
        "gpus": [
            {
                "offered": dict(node.gpus[gpu]),
                "free": dict(state.gpus[gpu]),
                "pods": [
                    {"owner": owner, "units": units, "running": running}
                    for (owner, running), units in on_gpu[gpu].items()
                ],
            }
            for gpu in range(len(node.gpus))
        ],
        "pods": [{"owner": owner, "count": count, "running": running} for (owner, running), count in pods.items()],
    }


def _on_node(report: PlacementReport, index: int) -> list[tuple[PodGroup, tuple[int, ...], bool]]:
    """Return the pods of a node, each with its GPUs and whether it is already running."""
    running = zip(report.scenario.running, report.placement.running_gpus, strict=True)
    return [
        *((one.pod, gpus, True) for one, gpus in running if one.node == index),
        *(
            (report.scenario.groups[one.group], one.gpus, False)
            for one in report.placement.assignments
            if one.node == index
        ),
    ]


def _moves(report: PlacementReport) -> list[dict[str, Any]]:
    scenario = report.scenario
    return [
        {
            "purpose": plan.purpose,
            "node": scenario.nodes[plan.node].name,
            "for": None if plan.group is None else str(scenario.groups[plan.group]),
            "idle_before": plan.idle_before,
            "idle_after": plan.idle_after,
            "moves": [
                {
                    "pod": str(scenario.running[move.running].pod),
                    "controller": scenario.running[move.running].controller,
                    "to": scenario.nodes[move.target].name,
                }
                for move in plan.moves
            ],
        }
        for plan in report.moves
    ]


def _quantities(amounts: Amounts) -> Mapping[str, str]:
    return {name: quantity_text(name, amount) for name, amount in amounts.items()}
