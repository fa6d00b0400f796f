"""`gpu-platform check`: check a stack file, its plan and the policies without a cluster."""

from __future__ import annotations

import datetime
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.check_report import Finding, as_junit, as_sarif, findings, mistakes, placed, warned
from gpu_platform.cli.tables import Column, show_table
from gpu_platform.deploy.recorded.policy_check import evaluate_policies
from gpu_platform.deploy.recorded.record import HELM_RELEASE_TYPE, RecordedProgram
from gpu_platform.planning import Plan, plan_to_json
from gpu_platform.planning.charts.section import ChartsPlan, ignored
from gpu_platform.planning.clouds.offerings import offering_warnings
from gpu_platform.planning.pools import capacity_gaps, ended_capacity
from gpu_platform.planning.schedules import off_notices
from gpu_platform.planning.upgrades import kubernetes_warnings
from gpu_platform.program import record_stack
from gpu_platform.stack import find_stack_file, parse_platform
from gpu_platform.stack.loaded import LoadedStack, load_stack
from gpu_platform.stack.positions import Positions
from policies import Level, PolicyReport, Severity, configure, rules

_WIDE = 120  # minimum console width for a table of decisions; a narrower console shows a list
Output = Literal["text", "json", "sarif", "junit"]


def check_stack(stack: str, *, output: Output) -> ExitCode:
    """Check a stack. Print the decisions of its plan with their reasons, and the rules that it violates.

    The SARIF and JUnit formats report the findings by line of the stack file. If the stack file is not valid, its
    mistakes are printed in that format before BadInput is raised.
    """
    try:
        loaded = load_stack(stack)
    except BadInput as error:
        if output in ("sarif", "junit"):
            path = find_stack_file(stack)
            unevaluated = {rule.id: "not checked: the stack file is not valid" for rule in rules()}
            _print_findings(mistakes(error, Positions(path)), path, output, unevaluated=unevaluated)
        raise
    program = record_stack(loaded)
    report = evaluate_policies(program, loaded.plan)
    warnings = tuple(check_warnings(loaded, program))
    if output in ("sarif", "junit"):
        spec, positions = parse_platform(loaded.platform, str(loaded.path)), Positions(loaded.path)
        found = (*warned(warnings, positions), *findings(report, spec, positions))
        policy = loaded.plan.policy
        disabled = {
            one.rule.id: "not checked: the stack file disables this rule"
            for one in configure(policy.config, own=policy.own_rules)
            if one.level is Level.DISABLED
        }
        _print_findings(found, loaded.path, output, policy.own_rules, disabled)
        return verdict(report)
    warnings = (*warnings, *(f"{one.path}: {one}" for one in report.idle_exemptions))
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if output == "json":
        document = {
            "version": 1,
            "stack": loaded.stack,
            "warnings": list(warnings),
            "decisions": plan_to_json(loaded.plan.decisions),
            "policies": report.to_json(),
        }
        print(json.dumps(document, indent=2))
    else:
        out = console()
        show_decisions(out, loaded.plan)
        show_policies(out, placed(report, loaded))
    return verdict(report)


def check_warnings(loaded: LoadedStack, program: RecordedProgram) -> Iterator[str]:
    """Yield the warnings about an environment. Each begins with a path in the stack file and a colon."""
    if loaded.plan.kind != "environment":
        return
    now = datetime.datetime.now(datetime.UTC)
    catalog = load_catalog()
    yield from kubernetes_warnings(loaded.plan, loaded.argument, now.date(), catalog)
    yield from offering_warnings(loaded.plan, catalog)
    yield from (str(problem) for problem in ended_capacity(loaded.plan.pools, now))
    yield from capacity_gaps(loaded.plan.pools)
    yield from off_notices(loaded.plan)
    yield from chart_warnings(loaded.plan.charts, program)


def chart_warnings(charts: ChartsPlan, program: RecordedProgram) -> Iterator[str]:
    """Yield a warning for each chart value in the stack file that has no effect.

    Such a value has no effect if the program overrides the value or does not install the chart.
    """
    own: dict[str, Mapping[str, Any]] = {}
    for resource in program.resources:
        if resource.type == HELM_RELEASE_TYPE:
            own[str(resource.inputs["chart"]).rsplit("/", 1)[-1]] = resource.inputs.get("values", {})
    for chart, added in charts.values.items():
        if chart not in own:
            yield f"charts.{chart}: this stack does not install the chart"
            continue
        for path in ignored(own[chart], added):
            yield f"charts.{chart}.values.{path}: the program sets another value, which takes precedence"


def _print_findings(
    found: tuple[Finding, ...],
    path: Path,
    output: str,
    own: Sequence[str] = (),
    unevaluated: Mapping[str, str] = MappingProxyType({}),
) -> None:
    print(as_sarif(found, path, own) if output == "sarif" else as_junit(found, path, own, unevaluated))


def verdict(report: PolicyReport) -> ExitCode:
    """Return the exit code of a finding if a mandatory rule is violated. Violated advisory rules are ignored."""
    broken = any(violation.level is Level.MANDATORY for violation in report.violations)
    return ExitCode.FINDING if broken else ExitCode.GOOD


def broken_rules(report: PolicyReport) -> list[str]:
    """Return a line for each violation of a mandatory rule."""
    return [
        f"  - {one.rule} ({one.severity.value}): {one}"
        for one in report.violations
        if one.level is Level.MANDATORY
    ]


def show_decisions(console: Console, plan: Plan) -> None:
    """Print the decisions of a plan: subject, setting, value and reason."""
    rows = [(one.subject, one.what, one.chosen, one.why) for one in plan.decisions]
    title = f"Stack {plan.stack}: decisions"
    if console.width >= _WIDE:
        columns = (Column("subject"), Column("setting"), Column("value", wrap=True), Column("reason", wrap=True))
        show_table(console, columns, rows, title)
        return
    console.print(title, markup=False)
    subject = ""
    for row in rows:
        if row[0] != subject:
            subject = row[0]
            console.print(subject, markup=False)
        for indent, text in ((2, f"{row[1]}: {row[2]}"), (4, row[3])):
            for line in textwrap.wrap(
                text, console.width - indent, break_on_hyphens=False, break_long_words=False
            ):
                console.print(" " * indent + line, markup=False)


def show_policies(console: Console, report: PolicyReport) -> None:
    """Print the violations, sorted by level and severity, and then what the rules could not check."""
    severities = list(Severity)
    for violation in sorted(
        report.violations, key=lambda one: (one.level is not Level.MANDATORY, severities.index(one.severity))
    ):
        console.print(
            escape(f"{violation.level.value}: {violation.rule} ({violation.severity.value}): {violation}")
        )
    for violation in report.exempted:
        console.print(escape(f"exempted: {violation.rule}: {violation}"))
    for names, gap in report.gaps:
        console.print(escape(f"not checked: {names}: {gap}"))
    if not report.violations:
        console.print("policies: no violation")
