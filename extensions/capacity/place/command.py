"""`gpu-platform place`: where pods would be placed, why pods stay pending, and which changes or moves help."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from extensions.capacity.place.document import place_document
from extensions.capacity.place.page import place_page
from extensions.capacity.pod_sources import Skipped, Workloads, read_cluster, read_workloads
from extensions.capacity.scheduling import (
    NodeType,
    ProfileName,
    Scenario,
    packed_config,
    report_placement,
    scored_by_amount,
)
from extensions.capacity.scheduling.nodes import daemonsets_text, planned_node, planned_nodes, quotas_of
from gpu_platform.api.live import client_of
from gpu_platform.api.plans import EnvironmentPlan, environment_of, load_stack
from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Problem
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import load_catalog

_SCHEDULERS: Final[Mapping[ProfileName, str]] = {
    "default": "kube-scheduler's default profile: nodes with the most free CPU and memory first",
    "most-allocated": "kube-scheduler with MostAllocated: nodes with the most CPU, memory and GPUs in use first",
    "packed": "profile gpu-packed for pods with GPUs: nodes whose CPU, memory and GPUs would be used most evenly "
    "first, then nodes with the most GPUs in use",
}
_NO_POOLS: Final = ", because teams have no pools"
_NOT_SIMULATED: Final = "; preemption and Kueue queues are not simulated"


def show_placement(
    stack: str,
    *,
    workloads: Path | None,
    live: bool,
    output: Literal["text", "json", "html"],
    profile: ProfileName | None = None,
) -> ExitCode:
    """Print where the pods of a file would be placed. With `live`, start from the pods running on the cluster.

    Returns a finding if some pods stay pending. Raises BadInput for a team's stack, for a file with mistakes, and
    if neither a file nor `live` is given. Raises UnknownOutcome if the cluster does not answer.
    """
    plan = environment_of(load_stack(stack), _NO_POOLS, "place {}")
    if workloads is None and not live:
        allowed = "a file with pods, or --live for the pods of the cluster"
        raise BadInput(stack, [Problem("--workloads", "nothing", allowed, "name a file")])
    listed = read_workloads(workloads, plan, any_team=live) if workloads is not None else Workloads((), ())
    scenario, skipped = _scenario(plan, listed, live=live)
    catalog = load_catalog()
    types = [
        NodeType(
            node=planned_node(pool, catalog, f"{pool.name}-new"),
            left=max(0, pool.nodes.max - (len([one for one in scenario.nodes if one.pool == pool.name]))),
        )
        for pool in plan.pools
    ]
    own = plan.cluster.scheduler
    source = f" ({own.why})" if profile is None else " (--profile)"
    profile = profile or own.scores
    scheduler = _SCHEDULERS[profile] + source + _NOT_SIMULATED
    assumptions = [scheduler] if live else [scheduler, daemonsets_text(plan)]
    report = report_placement(replace(scenario, profile=profile), types)
    document = place_document(report, skipped, stack=plan.stack, live=live, assumptions=assumptions)
    match output:
        case "json":
            print(json.dumps(document, indent=2))
        case "html":
            print(place_page(document), end="")
        case "text":
            _show(console(), document)
    return ExitCode.FINDING if document["summary"]["pending"] else ExitCode.GOOD


def show_scheduler_config(stack: str, *, as_json: bool) -> None:
    """Print the configuration of a kube-scheduler with the profile gpu-packed for the GPU resources of a stack.

    Raises BadInput for a team's stack and for a stack without GPU resources.
    """
    plan = environment_of(load_stack(stack), _NO_POOLS, "scheduler-config {}")
    nodes = planned_nodes(plan, load_catalog())
    if not any(scored_by_amount(name) for node in nodes for name in node.gpu_resources):
        allowed = "a pool whose GPUs are offered as resources"
        fix = "DRA claims need no profile, because the scheduler allocates the devices itself"
        raise BadInput(stack, [Problem("pools", "no GPU resources", allowed, fix)])
    config = packed_config(nodes)
    print(json.dumps(config, indent=2) if as_json else yaml.safe_dump(config, sort_keys=False).rstrip())


def _scenario(plan: EnvironmentPlan, listed: Workloads, *, live: bool) -> tuple[Scenario, tuple[Skipped, ...]]:
    catalog = load_catalog()
    if not live:
        nodes = planned_nodes(plan, catalog)
        return Scenario(nodes=nodes, groups=listed.groups, quotas=quotas_of(plan)), listed.skipped
    now = read_cluster(client_of(plan), plan, catalog)
    scenario = Scenario(
        nodes=now.nodes, groups=(*now.groups, *listed.groups), quotas=now.quotas, running=now.running
    )
    return scenario, (*now.skipped, *listed.skipped)


def _show(out: Console, document: Mapping[str, Any]) -> None:
    summary = document["summary"]
    what = "the planned nodes" if document["start"] == "plan" else "the cluster as it is now"
    gpus = f"{counted(summary['nodes'], 'node')}, {counted(summary['gpus'], 'GPU')}"
    out.print(escape(f"Stack {document['stack']}, {what}: {gpus}"))
    out.print(f"{summary['placed']} of {counted(summary['pods'], 'pod')} placed, {summary['pending']} pending")
    if document["groups"]:
        out.print(_groups(document))
    for line in (*_pending(document), *_left_out(document)):
        out.print(escape(line))
    out.print()
    out.print(_fragmentation(document))
    out.print()
    for line in (*_profiles(document), *_moves(document)):
        out.print(escape(line))
    for one in document["assumptions"]:
        out.print(escape(f"assumed: {one}"))


def _groups(document: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("pods", "a pod requests", "placed", "on"):
        table.add_column(column, overflow="fold", no_wrap=column in ("pods", "placed"))
    for group in document["groups"]:
        requests = ", ".join(f"{amount} {name}" for name, amount in group["requests"].items())
        nodes = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in group["nodes"].items())
        placed = f"{group['placed']} of {group['count']}"
        table.add_row(*map(escape, (f"{group['team']}/{group['name']}", requests, placed, nodes or "nowhere")))
    return table


def _pending(document: Mapping[str, Any]) -> Iterator[str]:
    for one in document["pending"]:
        yield ""
        yield f"pending: {one['team']}/{one['name']}, {counted(one['count'], 'pod')}"
        for reason in one["reasons"]:
            yield f"  why: {reason['text']}"
        for advice in one["advice"]:
            displaced = ", ".join(f"{count} of {name}" for name, count in advice["displaces"].items())
            yield f"  helps: {advice['text']}" + (f"; but these become pending: {displaced}" if displaced else "")
        if not one["advice"]:
            yield "  helps: " + (
                "no single change of requests, resource, nodes or quota"
                if one["advice_complete"]
                else "not searched, because too many pods are pending; only the first groups have advice"
            )


def _left_out(document: Mapping[str, Any]) -> Iterator[str]:
    if document["skipped"]:
        yield ""
    for one in document["skipped"]:
        yield f"not placed: {one['name']}: {one['why']}"
    for group in document["groups"]:
        if group["not_simulated"]:
            fields: str = ", ".join(group["not_simulated"])
            yield f"not simulated for {group['team']}/{group['name']}: {fields}"


def _fragmentation(document: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, title="GPUs before -> after", title_justify="left")
    columns = {
        "pool": "pool",
        "free": "free",
        "unusable": "unusable for these pods",
        "idle": "without any pod",
        "largest_pod": "largest pod",
        "largest_with_part": "with proportional CPU and memory",
    }
    for head in columns.values():
        table.add_column(head, overflow="fold")
    for one in document["fragmentation"]:
        before, after = one["before"], one["after"]
        figures = (f"{round(before[key], 1):g} -> {round(after[key], 1):g}" for key in list(columns)[1:])
        if before["gpus"]:
            table.add_row(escape(one["pool"] or "all"), *figures)
    return table


def _profiles(document: Mapping[str, Any]) -> Iterator[str]:
    own = document["profile"]
    yield f"profile of the scheduler: {own}"
    for other in document["profiles"]:
        if other["name"] != own:
            yield (
                f"  with {other['name']}: {counted(other['placed'], 'pod')} placed, then "
                f"{counted(other['unusable'], 'GPU')} unusable for these pods and {other['idle']} without any pod"
            )


def _moves(document: Mapping[str, Any]) -> Iterator[str]:
    for plan in document["moves"]:
        purpose = f"one more pod of {plan['for']} fits on" if plan["purpose"] == "pod" else "free all GPUs of"
        yield f"moves: {purpose} {plan['node']} (idle GPUs {plan['idle_before']} -> {plan['idle_after']})"
        for move in plan["moves"]:
            yield f"  {move['pod']} ({move['controller']}) fits on {move['to']}"
    if document["moves"]:
        yield "  nothing was moved: cordon the node, then evict the pods; the scheduler chooses their new nodes"
