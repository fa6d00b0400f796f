"""`gpu-platform upgrade`: software near the end of support, the upgrade steps and the disruption of each step."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Finding, Problem, UnknownOutcome
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, load_catalog
from gpu_platform.cli.dead_ends import dead_ends
from gpu_platform.cli.impact import details
from gpu_platform.deploy.embedded.applyset import stack_outputs
from gpu_platform.live.client import Refused
from gpu_platform.live.cluster_access import client_of
from gpu_platform.live.live_state import read_live
from gpu_platform.live.running_versions import read_running_versions
from gpu_platform.planning.changes import (
    Effect,
    Impact,
    classify,
    cluster_facts,
    impacts_of_replaced_nodes,
    pool_changes,
    pool_facts,
    software_facts,
    team_facts,
)
from gpu_platform.planning.changes.live_types import LiveState
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.upgrades import current_kubernetes, upgrade_items, upgrade_steps
from gpu_platform.planning.upgrades.report import Item, RunningVersions, Step
from gpu_platform.planning.upgrades.support import Status
from gpu_platform.stack.loaded import LoadedStack, environment_of, load_stack, plan_platform
from gpu_platform.stack.project import VERSION_OUTPUT, version

_STYLES = {
    Status.ENDED: "bold red",
    Status.EXTENDED: "red",
    Status.ENDING: "yellow",
    Status.OUTDATED: "yellow",
    Status.UNKNOWN: "magenta",
}


@dataclass(frozen=True, slots=True)
class _Disturbance:
    """Effect of a step on nodes, GPUs and pods.

    `problems` are the reasons why the stack file is not yet valid after the step's edits.
    """

    impacts: tuple[Impact, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Report:
    stack: str
    today: datetime.date
    items: tuple[Item, ...]
    steps: tuple[Step, ...]
    disturbances: tuple[_Disturbance, ...]
    blocked: tuple[str, ...]
    kubernetes: str | None
    not_read: str = ""
    """Reason why the cluster was not read, or an empty string if it was read."""
    past: tuple[Item, ...] = field(default=())
    deployed_by: str | None = None
    """Version of gpu-platform that deployed the stack, if it is deployed in a sandbox."""


def report_upgrades(stack: str, *, today: str | None, to_json: bool) -> ExitCode:
    """Print the upgrade report of an environment.

    `today` is a date such as 2026-11-22, by default the current date. Returns FINDING if something is past the end
    of its standard support, or UNKNOWN if the cluster's version is not known. Raises BadInput for a team's stack
    and for an invalid date.
    """
    day = _day(today)
    loaded = load_stack(stack)
    plan = environment_of(loaded, ", because teams have no software", "upgrade {}")
    report = _report(loaded, plan, day)
    if to_json:
        print(json.dumps(_as_json(report), indent=2))
    else:
        _show(console(), report, loaded.argument)
    if report.past:
        return ExitCode.FINDING
    return ExitCode.UNKNOWN if report.kubernetes is None else ExitCode.GOOD


def _day(text: str | None) -> datetime.date:
    if text is None:
        return datetime.datetime.now(datetime.UTC).date()
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        problem = Problem("--today", repr(text), "a date: YYYY-MM-DD", "for example, write --today 2026-12-02")
        raise BadInput("upgrade", [problem]) from None


def _report(loaded: LoadedStack, plan: EnvironmentPlan, today: datetime.date) -> _Report:
    catalog = load_catalog()
    live: LiveState | None = None
    running: RunningVersions | None = None
    not_read, deployed_by = "", None
    given_up: Mapping[str, str] = {}
    try:
        client = client_of(plan)
        live = read_live(client, plan, ())
        running = read_running_versions(client, plan, live.nodes)
        given_up = dead_ends(client, plan)
        if plan.cluster.access == "sandbox":
            deployed_by = (stack_outputs(client, loaded.stack) or {}).get(VERSION_OUTPUT)
    except (UnknownOutcome, Refused, Finding) as error:
        not_read = str(error).splitlines()[0]
    items = upgrade_items(plan, running, today, catalog)
    found = upgrade_steps(plan, running, today, catalog, declared_driver=_declares_driver(loaded.platform))
    return _Report(
        stack=loaded.stack,
        today=today,
        items=items,
        steps=found.steps,
        disturbances=tuple(_disturbances(loaded, plan, found.steps, live, catalog)),
        blocked=(*found.blocked, *given_up.values()),
        kubernetes=current_kubernetes(plan, running),
        not_read=not_read,
        past=tuple(item for item in items if item.support.status.past),
        deployed_by=deployed_by,
    )


def _disturbances(
    loaded: LoadedStack,
    plan: EnvironmentPlan,
    steps: Iterable[Step],
    live: LiveState | None,
    catalog: Catalog,
) -> list[_Disturbance]:
    """Apply the edits of each step to the stack file, and compare the plans before and after."""
    before, document = plan, deepcopy(loaded.platform)
    if live is not None:
        # Each step starts from the version that the previous step reaches, not from the running version.
        live = dataclasses.replace(live, kubernetes=None)
    found: list[_Disturbance] = []
    for step in steps:
        for path, value in step.edits.items():
            _set(document, path, value)
        try:
            after = plan_platform(document, loaded.stack, source=str(loaded.path), folder=loaded.path.parent)
        except BadInput as error:
            found.append(_Disturbance(problems=error.problems))
            continue
        assert isinstance(after, EnvironmentPlan)  # noqa: S101 - no edit changes the kind
        outputs = {
            "cluster": cluster_facts(before),
            "pools": pool_facts(before),
            "software": software_facts(before),
            "teams": team_facts(before),
        }
        pools = pool_changes(outputs["pools"], after, catalog)
        impacts = classify(outputs, after, catalog, live=live, pools=pools)
        if step.replaces_nodes:
            because = "nodes are upgraded after the control plane, by their owner or by the cloud"
            covered = {change.pool for change in pools}
            impacts = (*impacts_of_replaced_nodes(after, live, because, covered), *impacts)
        found.append(_Disturbance(impacts))
        before = after
    return found


def _declares_driver(platform: object) -> bool:
    here: Any = platform
    for key in ("operator", "driver", "version"):
        if not isinstance(here, dict):
            return False
        here = cast("dict[str, Any]", here).get(key)
    return here is not None


def _set(document: object, path: str, value: str) -> None:
    """Set the value at a path such as `operator.driver.version`. Missing mappings on the path are created."""
    *parents, last = path.split(".")
    here = cast("dict[str, Any]", document)
    for key in parents:
        inner: Any = here.get(key)
        if not isinstance(inner, dict):
            inner = here[key] = dict[str, Any]()
        here = cast("dict[str, Any]", inner)
    here[last] = value


# -- printing ------------------------------------------------------------------------------------------------


def _as_json(report: _Report) -> Mapping[str, Any]:
    return {
        "version": 1,
        "stack": report.stack,
        "today": report.today.isoformat(),
        "cluster_read": not report.not_read,
        "not_read": report.not_read or None,
        "program": {"installed": version(), "deployed": report.deployed_by},
        "software": [item.to_json() for item in report.items],
        "steps": [
            {
                **step.to_json(),
                "disturbs": [impact.to_json() for impact in disturbance.impacts],
                "problems": [str(problem) for problem in disturbance.problems],
            }
            for step, disturbance in zip(report.steps, report.disturbances, strict=True)
        ],
        "blocked": list(report.blocked),
    }


def _show(out: Console, report: _Report, argument: str) -> None:
    title = f"Stack {report.stack} on {report.today}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in ("software", "stack file", "running", "status"):
        table.add_column(heading, overflow="fold")
    table.add_column("supported until", no_wrap=True)
    table.add_column("newest", overflow="fold")
    for item in report.items:
        status, until = item.support.status, item.support.until
        table.add_row(
            Text(item.subject),
            Text(item.planned or "-"),
            Text(item.running or ("?" if report.not_read else "-")),
            Text(status.value, style=_STYLES.get(status, "")),
            until.isoformat() if until is not None else "unknown",
            Text(item.newest or "-"),
        )
    out.print(table, soft_wrap=False)
    for item in report.items:
        if item.support.text and item.support.status is not Status.SUPPORTED:
            _line(out, f"{item.subject}: {item.support.text}")
    if report.not_read:
        _line(out, f"The cluster was not read, so running versions and pods are unknown: {report.not_read}")
    out.print()
    if not report.steps:
        _line(out, "Nothing to upgrade.")
    for number, (step, disturbance) in enumerate(zip(report.steps, report.disturbances, strict=True), start=1):
        _show_step(out, number, step, disturbance, known=not report.not_read)
    for text in report.blocked:
        _line(out, f"No further step: {text}")
    if report.steps:
        _line(out, f"For each step: edit the stack file, `gpu-platform preview {argument}`, then `up`.")
    deployed = "" if report.deployed_by is None else f", and {report.deployed_by} deployed the stack"
    _line(
        out,
        f"gpu-platform {version()} is installed{deployed}. After you install a newer version, `gpu-platform "
        f"preview {argument}` shows what that version changes.",
    )


def _show_step(out: Console, number: int, step: Step, disturbance: _Disturbance, *, known: bool) -> None:
    _line(out, f"{number}. {step.subject} {step.old} -> {step.new}", style="bold")
    rows = [("edit", f"{path}: {_quoted(value)}") for path, value in step.edits.items()]
    rows += [("why", step.why), ("order", step.order)]
    disturbing = [impact for impact in disturbance.impacts if impact.effect is not Effect.IN_PLACE]
    for impact in disturbing:
        counts = _counts(impact, known=known)
        rows.append(("disturbs", f"{impact.subject}: {impact.effect.value}" + (f", {counts}" if counts else "")))
        rows += [("", line.strip()) for line in details(impact)[1:]]
    if not disturbing and not disturbance.problems:
        rows.append(("disturbs", "no node and no pod"))
    rows += [("needs", str(problem)) for problem in disturbance.problems]
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in rows:
        grid.add_row(Text(label), Text(text))
    out.print(Padding(grid, (0, 0, 0, 3), expand=False), soft_wrap=False)


def _counts(impact: Impact, *, known: bool) -> str:
    parts: Sequence[str] = [
        counted(impact.nodes, "node") if impact.nodes is not None else "",
        counted(impact.gpus, "GPU") if impact.gpus is not None else "",
    ]
    pods = ""
    if impact.pods is None or (not known and impact.nodes):
        pods = "pods unknown"
    elif impact.nodes is not None:
        pods = counted(len(impact.stopping), "pod")
    return ", ".join(part for part in (*parts, pods) if part)


def _quoted(value: str) -> str:
    """Return a value as YAML. A minor version is quoted, so that it is not read as a number."""
    return json.dumps(value) if value.replace(".", "", 1).isdecimal() else value


def _line(out: Console, text: str, *, style: str = "") -> None:
    out.print(Text(text, style=style), soft_wrap=False)
