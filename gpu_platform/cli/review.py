"""`gpu-platform review`: a pull request comment in Markdown with pools, GPUs, cost, policies and impact."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from gpu_platform.base.errors import BadInput, ExitCode, Problem
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.check import check_warnings, verdict
from gpu_platform.cli.check_report import placed
from gpu_platform.deploy.recorded.policy_check import evaluate_policies
from gpu_platform.planning.changes import pool_changes, pool_facts
from gpu_platform.planning.changes.pools import recreated_pools, unused_sizes, unused_text
from gpu_platform.planning.changes.sizes import size_changes, size_outputs, usd_per_hour
from gpu_platform.planning.cost import HOURS_PER_MONTH
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.program import record_stack
from gpu_platform.stack import find_stack_file
from gpu_platform.stack.loaded import LoadedStack, load_stack
from gpu_platform.stack.positions import located
from policies import Level, PolicyReport

_ALL = "**all**"
_MOST = 30  # maximum number of lines in a list, because a GitHub comment has at most 65,536 characters


def review_stack(stack: str, *, base: Path | None, preview: Path | None, to_json: bool) -> ExitCode:
    """Print the comment, and return the exit code of `check`.

    `base` is the stack file before the change. `preview` is a file with the JSON output of `preview`. If the stack
    file is not valid, print the comment and raise BadInput, so that the mistakes also appear in the log of the CI
    job.
    """
    path = find_stack_file(stack)
    try:
        loaded = load_stack(stack)
    except BadInput as error:
        problems = located(error).problems
        head = f"**The stack file is not valid: {counted(len(problems), 'mistake')}.**\n"
        lines = [head, *_listed([str(problem) for problem in problems])]
        _print(path, lines, error.exit_code, to_json=to_json)
        raise
    program = record_stack(loaded)
    report = evaluate_policies(program, loaded.plan)
    code = verdict(report)
    violated = "No mandatory rule" if code is ExitCode.GOOD else "A mandatory rule"
    lines = [f"**{violated} is violated.**"]
    warnings = _warnings(list(check_warnings(loaded, program)))
    for part in (_plan(loaded, base), warnings, _policies(placed(report, loaded)), _impact(preview)):
        found = list(part)
        lines += ["", *found] if found else []
    _print(path, lines, code, to_json=to_json)
    return code


def _print(path: Path, lines: Sequence[str], code: ExitCode, *, to_json: bool) -> None:
    text = "\n".join([f"### gpu-platform: `{path.name}`\n", *lines])
    if to_json:
        print(json.dumps({"version": 1, "file": str(path), "exit_code": int(code), "markdown": text}, indent=2))
    else:
        print(text + "\n")


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the table: one pool of a plan, or the sum of all pools."""

    machine_type: str
    nodes: int | str
    gpus: int
    usd_per_hour: float | None

    @property
    def cells(self) -> tuple[str, ...]:
        """Values of the row as text."""
        return tuple(map(_shown, (self.machine_type, self.nodes, self.gpus, self.usd_per_hour)))


def _rows(plan: EnvironmentPlan, unused: Mapping[str, int]) -> dict[str, _Row]:
    rows = {pool.name: _row(pool, unused.get(pool.name, pool.nodes.desired)) for pool in plan.pools}
    return {**rows, _ALL: _Row("", "", sum(row.gpus for row in rows.values()), usd_per_hour(plan, unused))}


def _row(pool: PoolPlan, nodes: int) -> _Row:
    price = pool.average_usd_per_hour
    cost = None if price is None else price * nodes
    return _Row(pool.machine_type, nodes, nodes * pool.gpus_per_node, cost)


def _unused(before: EnvironmentPlan | None, plan: EnvironmentPlan) -> Mapping[str, int]:
    """Return the pools for which the change to `desired` changes no nodes, with their previous number of nodes."""
    if before is None:
        return {}
    facts = pool_facts(before)
    return unused_sizes(facts, plan, recreated_pools(pool_changes(facts, plan, load_catalog())))


def _plan(loaded: LoadedStack, base: Path | None) -> Iterator[str]:
    """Yield the table of pools with nodes, GPUs and cost. With `base`, the table also contains the values before
    the change.
    """
    plan = loaded.plan
    if not isinstance(plan, EnvironmentPlan):
        return
    before, note = _before(base)
    if note:
        yield f"{note}\n"
    yield "| pool | machine type | nodes | GPUs | USD/h |"
    yield "|---|---|---:|---:|---:|"
    unused = _unused(before, plan)
    new = _rows(plan, unused)
    old = new if before is None else _rows(before, {})
    for name in sorted({**new, **old}, key=lambda one: one == _ALL):
        was, now = old.get(name), new.get(name)
        cells = [
            _change(*(None if row is None else row.cells[column] for row in (was, now))) for column in range(4)
        ]
        yield f"| {name} | " + " | ".join(cells) + " |"
    for pool in plan.pools:
        if pool.name in unused:
            edit = f"{pool.path}.count.desired {unused[pool.name]} → {pool.nodes.desired}"
            yield f"\n`{edit}`: {unused_text(pool)}."
    hourly = new[_ALL].usd_per_hour
    if hourly is not None:
        yield f"\nAt the desired size {hourly * HOURS_PER_MONTH:,.0f} USD a month, list prices."
    # The table already shows changes to the size of pools.
    changed = () if before is None else size_changes(size_outputs(before), plan)
    lines = [str(one) for one in changed if one.subject.startswith(("team ", "budget"))]
    if lines:
        yield ""
        yield from _details(f"Quotas and budget: {counted(len(lines), 'change')}", lines, opened=True)


def _before(base: Path | None) -> tuple[EnvironmentPlan | None, str]:
    """Return the plan before the change, or None and a note with the reason if there is no such plan."""
    if base is None:
        return None, ""
    if not base.is_file():
        return None, f"The stack is new: there is no file `{base}`."
    try:
        plan = load_stack(str(base)).plan
    except BadInput:
        return (
            None,
            f"`{base}`, the stack file before this change, is not valid, so there is nothing to compare with.",
        )
    return (plan, "") if isinstance(plan, EnvironmentPlan) else (None, "")


def _shown(value: str | float | None) -> str:
    """Return the text of a cell. None stands for an unknown price."""
    if value is None:
        return "unknown"
    return value if isinstance(value, str) else f"{value:,.2f}".removesuffix(".00")


def _change(old: str | None, new: str | None) -> str:
    """Return the new value, preceded by the old value if they differ. None means that the pool does not exist."""
    return str(new) if old == new else f"{old or 'none'} → **{new or 'none'}**"


def _policies(report: PolicyReport) -> Iterator[str]:
    """Yield the violations, mandatory violations first, and what the rules could not check."""
    ordered = sorted(report.violations, key=lambda one: one.level is not Level.MANDATORY)
    yield from _details(
        f"Policies: {counted(len(ordered), 'violation')}" if ordered else "Policies: no violation",
        [f"{one.level.value} `{one.rule}` ({one.severity.value}): {one}" for one in ordered],
        opened=bool(ordered),
    )
    if report.idle_exemptions:
        idle = [str(one) for one in report.idle_exemptions]
        yield from _details(f"Exemptions without effect: {len(idle)}", idle, opened=False)
    if report.not_checked:
        gaps = [f"`{names}`: {gap}" for names, gap in report.gaps]
        yield from _details(f"Not checked: {len(gaps)}", gaps, opened=False)


def _warnings(warnings: Sequence[str]) -> Iterator[str]:
    """Yield the warnings of `check` about a valid stack file."""
    if warnings:
        yield from _details(f"Warnings: {len(warnings)}", warnings, opened=True)


def _impact(preview: Path | None) -> Iterator[str]:
    """Yield the impact on nodes, pods and data from a preview, with the worst impact first."""
    if preview is None:
        return
    document = _read(preview)
    if document is None:
        yield "Impact: unknown, because the preview printed no report; see the log of the job."
        return
    impact = cast("Mapping[str, Any]", document["impact"])
    changes = cast("Sequence[Mapping[str, Any]]", impact["changes"])
    if not changes:
        yield "Impact: none on nodes, pods, data and access."
        return
    yield "| impact | what | nodes | GPUs | pods | data |"
    yield "|---|---|---:|---:|---:|---|"
    for one in changes[:_MOST]:
        what = f"{one['subject']}" + (f": {one['field']} {one['old']} → {one['new']}" if one["field"] else "")
        pods = "unknown" if one["pods"] is None else len(one["pods"])
        data = ", ".join(str(item.get("name", item)) for item in one["data"]) or "none"
        cells = (one["effect"], what, one["nodes"] or "", one["gpus"] or "", pods, data)
        yield "| " + " | ".join(_cell(str(cell)) for cell in cells) + " |"
    if len(changes) > _MOST:
        yield f"\nand {len(changes) - _MOST} more"
    if not impact["cluster_read"]:
        yield "\nPods and data were not read from the cluster."


def _read(path: Path) -> Mapping[str, Any] | None:
    """Return the JSON report of `preview`, or None for an empty or missing file.

    Raises BadInput for a file with other content.
    """
    text = path.read_text("utf-8") if path.is_file() else ""
    if not text.strip():
        return None
    try:
        document: object = json.loads(text)
    except ValueError:
        document = None
    report = cast("Mapping[str, Any]", document) if isinstance(document, Mapping) else {}
    if "impact" not in report:
        allowed = "the output of `preview STACK --format json`"
        raise BadInput(str(path), [Problem("", "another document", allowed, "write its output to the file")])
    return report


def _details(title: str, lines: Sequence[str], *, opened: bool) -> Iterator[str]:
    if not lines:
        yield title
        return
    yield f"<details{' open' if opened else ''}><summary>{title}</summary>\n"
    yield from _listed(lines)
    yield "\n</details>"


def _listed(lines: Sequence[str]) -> list[str]:
    more = [f"- and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return [*(f"- {_text(line)}" for line in lines[:_MOST]), *more]


def _text(line: str) -> str:
    """Escape characters that GitHub would interpret as HTML or as a mention of a person."""
    return line.replace("&", "&amp;").replace("<", "&lt;").replace("@", "@\u200b")


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|").replace("\n", " ")
