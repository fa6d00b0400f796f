"""`gpu-platform rehearse`: how long the jobs of a trace would wait on a stack, and what the stack would cost."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from extensions.capacity.rehearsal import Assumptions, RehearsalStack, Trace, fit, rehearse, report, stack_of
from extensions.capacity.rehearse.document import rehearsal_document, stack_document
from extensions.capacity.rehearse.page import rehearsal_page, share_text, short_duration, usd_text
from extensions.capacity.trace_sources import read_trace
from gpu_platform.api.plans import load_stack
from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Problem
from gpu_platform.base.progress import Progress
from gpu_platform.base.quantity import counted, duration_text, parse_duration
from gpu_platform.catalog import load_catalog

_MOST_IMPOSSIBLE = 5
_SHORT = 2_000  # progress is shown only for traces with at least this number of jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Command-line options before parsing. Each entry of `teams` is TEAM_OF_TRACE=TEAM_OF_STACK."""

    teams: Sequence[str]
    node_start: str
    node_idle: str
    checkpoint: str | None


def show_rehearsal(
    stack: str, *, trace: Path, against: str | None, options: Options, output: Literal["text", "json", "html"]
) -> ExitCode:
    """Print the rehearsal of a trace on a stack and, if `against` is given, on a second stack.

    Returns a finding if some jobs never run on the stack. Raises BadInput if options, stacks or the trace have
    mistakes.
    """
    assumptions, teams = _read_options(options)
    stacks = _stacks([stack] if against is None else [stack, against])
    jobs = read_trace(trace)
    fitted = [fit(jobs, one, teams) for one in stacks]
    if problems := [problem for one in fitted for problem in one.problems]:
        raise BadInput(str(trace), dict.fromkeys(problems))
    progress = Progress(quiet=output == "json" or len(jobs.entries) < _SHORT)
    found: list[Mapping[str, Any]] = []
    # Millions of small objects stay alive until the end, so garbage collection would find nothing.
    gc.disable()
    try:
        for one, fit_to in zip(stacks, fitted, strict=True):
            with progress.count(f"rehearsing on stack {one.name}", "jobs", total=len(fit_to.jobs)) as advance:
                recorded = rehearse(one.platform, fit_to.jobs, assumptions, advance)
            texts = tuple(_assumption_texts(one, assumptions))
            found.append(stack_document(one, recorded, report(one.platform, recorded), texts))
    finally:
        gc.enable()
    document = rehearsal_document(jobs, str(trace), found)
    match output:
        case "json":
            print(json.dumps(document, indent=2))
        case "html":
            print(rehearsal_page(document), end="")
        case "text":
            _show(console(), document, jobs)
    total = document["stacks"][0]["total"]
    return ExitCode.FINDING if total["unfinished"] + total["impossible"] else ExitCode.GOOD


def _stacks(given: Sequence[str]) -> list[RehearsalStack]:
    """Load stacks by name or path.

    If several stacks have the same name, they are identified by the given names or paths instead.
    """
    stacks = [_stack(name) for name in given]
    if len({one.name for one in stacks}) == len(stacks):
        return stacks
    return [replace(one, name=name) for one, name in zip(stacks, given, strict=True)]


def _stack(name: str) -> RehearsalStack:
    loaded = load_stack(name)
    plan = loaded.plan
    if plan.kind != "environment":
        fix = f"name {loaded.environment_argument}"
        allowed = "a stack of kind environment, because teams have no pools"
        raise BadInput(name, [Problem("kind", "'team'", allowed, fix)])
    found = stack_of(plan, load_catalog())
    if not found.platform.pools or not found.teams:
        what = "pools with GPUs" if not found.platform.pools else "teams"
        raise BadInput(name, [Problem(what.split()[0], f"no {what}", f"{what} that jobs can use", f"add {what}")])
    return found


def _read_options(options: Options) -> tuple[Assumptions, dict[str, str]]:
    problems: list[Problem] = []
    teams: dict[str, str] = {}
    for text in options.teams:
        name, equals, target = text.partition("=")
        if not equals or not name or not target:
            problems.append(Problem("--team", repr(text), "TEAM_OF_TRACE=TEAM_OF_STACK", "for example '*=vision'"))
        elif name in teams:
            problems.append(Problem("--team", f"{name!r} twice", "each team of the trace only once", "remove one"))
        else:
            teams[name] = target
    seconds: dict[str, float] = {}
    for option, text in (
        ("--node-start", options.node_start),
        ("--node-idle", options.node_idle),
        ("--checkpoint", options.checkpoint),
    ):
        try:
            seconds[option] = float(parse_duration(text)) if text is not None else 0.0
        except ValueError:
            problems.append(Problem(option, repr(text), "a duration such as 10m, 1h30m or 90s", "write one"))
    if problems:
        raise BadInput("options", problems)
    checkpoint = seconds["--checkpoint"] or None
    return Assumptions(
        node_start=seconds["--node-start"], node_idle=seconds["--node-idle"], checkpoint=checkpoint
    ), teams


def _assumption_texts(stack: RehearsalStack, assumptions: Assumptions) -> Iterator[str]:
    if any(pool.scaled for pool in stack.platform.pools):
        start, idle = duration_text(assumptions.node_start), duration_text(assumptions.node_idle)
        yield f"a new node is ready after {start}, and is removed after {idle} without pods"
    every = assumptions.checkpoint
    yield "a stopped job " + (
        "starts over"
        if every is None
        else f"continues from its last checkpoint, saved every {duration_text(every)}"
    )


# -- text -------------------------------------------------------------------------------------------------


def _show(out: Console, document: Mapping[str, Any], trace: Trace) -> None:
    stacks: Sequence[Mapping[str, Any]] = document["stacks"]
    form = "" if trace.form == "table" else f" (form of {trace.form})"
    out.print(escape(f"Trace {document['trace']['file']}{form}: {counted(document['trace']['jobs'], 'job')}"))
    for reason, count in document["trace"]["left_out"].items():
        out.print(escape(f"left out: {counted(count, 'job')} {reason}"))
    for one in stacks:
        what = f"Stack {one['stack']}: {counted(one['gpus'], 'GPU')}, {short_duration(one['seconds'])} from the"
        out.print(escape(f"{what} first arrival to the end of the last job, {usd_text(one['usd'])} USD"))
    out.print()
    out.print(_teams(stacks))
    out.print()
    out.print(_pools(stacks))
    for one in stacks:
        out.print()
        for line in _lines(one, several=len(stacks) > 1):
            out.print(escape(line))


def _table(stacks: Sequence[Mapping[str, Any]], name: str, *heads: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(name, overflow="fold")
    if len(stacks) > 1:
        table.add_column("stack", overflow="fold")
    for head in heads:
        table.add_column(head, justify="right", overflow="fold")
    return table


def _teams(stacks: Sequence[Mapping[str, Any]]) -> Table:
    table = _table(stacks, "team", "jobs", "median wait", "p95", "worst", "stopped", "GPU h", "of all", "USD")
    names = list(dict.fromkeys(team["team"] for stack in stacks for team in stack["teams"]))
    for name in [*names, None]:
        for stack in stacks:
            one = stack["total"] if name is None else next((t for t in stack["teams"] if t["team"] == name), None)
            if one is None:
                continue
            wait = one["wait"] or dict.fromkeys(("median", "p95", "worst"))
            cells = [name or "all", *([stack["stack"]] if len(stacks) > 1 else [])]
            cells += [str(one["jobs"]), *(short_duration(wait[key]) for key in ("median", "p95", "worst"))]
            cells += [str(one["preemptions"]), f"{one['gpu_hours']:.1f}", f"{one['utilisation']:.0%}"]
            table.add_row(*map(escape, [*cells, usd_text(one["usd"])]))
    return table


def _pools(stacks: Sequence[Mapping[str, Any]]) -> Table:
    table = _table(stacks, "pool", "nodes (mean)", "GPUs held", "fragmented", "USD")
    for stack in stacks:
        for one in stack["pools"]:
            cells = [one["pool"], *([stack["stack"]] if len(stacks) > 1 else [])]
            cells += [
                f"{one['nodes']:.1f}",
                share_text(one["held"]),
                share_text(one["fragmented"]),
                usd_text(one["usd"]),
            ]
            table.add_row(*map(escape, cells))
    return table


def _lines(one: Mapping[str, Any], *, several: bool) -> Iterator[str]:
    total = one["total"]
    if several:
        yield f"Stack {one['stack']}:"
    for reason, count in sorted(total["waited_for"].items()):
        yield f"{counted(count, 'job')} waited for {reason}"
    yield f"GPUs idle while jobs waited: {one['idle_while_waiting']:.1%} of all GPU hours"
    if total["lost_gpu_hours"]:
        yield f"repeated work: {total['lost_gpu_hours']:.1f} GPU h"
    if total["unfinished"]:
        yield f"never received all their pods: {counted(total['unfinished'], 'job')}"
    for found in one["impossible"][:_MOST_IMPOSSIBLE]:
        pods = f"{counted(found['pods'], 'pod')} of {found['units']} {found['resource']}"
        jobs = f"{counted(found['count'], 'job')} of {found['team']}"
        yield f"impossible: {jobs} with {pods}, because the quota or the nodes are too small"
    if len(one["impossible"]) > _MOST_IMPOSSIBLE:
        rest = sum(found["count"] for found in one["impossible"][_MOST_IMPOSSIBLE:])
        yield f"impossible: {counted(rest, 'job')} of other sizes"
    for text in one["assumptions"]:
        yield f"assumed: {text}"
