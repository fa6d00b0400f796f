"""`gpu-platform check`: check stack file, plan and policies without a cluster."""

from __future__ import annotations

import datetime
import json
import sys

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpu_platform.catalog import load_catalog
from gpu_platform.cli.console import console
from gpu_platform.errors import ExitCode
from gpu_platform.planning import Plan, plan_to_json
from gpu_platform.planning.clouds.offerings import offering_warnings
from gpu_platform.planning.pools import capacity_gaps, ended_capacity
from gpu_platform.planning.upgrades import kubernetes_warnings
from gpu_platform.policy_check import evaluate_policies
from gpu_platform.program import record_stack
from gpu_platform.stacks import load_stack
from policies import Level, PolicyReport, Severity


def check_stack(stack: str, *, to_json: bool) -> ExitCode:
    """Check a stack and print what was chosen, why, and which rules it breaks."""
    loaded = load_stack(stack)
    report = evaluate_policies(record_stack(loaded), loaded.plan)
    warnings: tuple[str, ...] = ()
    if loaded.plan.kind == "environment":
        now = datetime.datetime.now(datetime.UTC)
        catalog = load_catalog()
        ended = (str(problem) for problem in ended_capacity(loaded.plan.pools, now))
        warnings = (
            *kubernetes_warnings(loaded.plan, now.date(), catalog),
            *offering_warnings(loaded.plan, catalog),
            *ended,
            *capacity_gaps(loaded.plan.pools),
        )
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if to_json:
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
        show_policies(out, report)
    return verdict(report)


def verdict(report: PolicyReport) -> ExitCode:
    """Return a finding where a mandatory rule is broken; an advisory one is none."""
    broken = any(violation.level is Level.MANDATORY for violation in report.violations)
    return ExitCode.FINDING if broken else ExitCode.GOOD


def show_decisions(console: Console, plan: Plan) -> None:
    """Print the decisions of a plan: subject, setting, value and reason."""
    table = Table(title=f"Stack {plan.stack}: decisions", title_justify="left", box=None)
    for column in ("subject", "setting", "value", "reason"):
        table.add_column(column, overflow="fold")
    for decision in plan.decisions:
        table.add_row(*(escape(text) for text in (decision.subject, decision.what, decision.chosen, decision.why)))
    console.print(table)


def show_policies(console: Console, report: PolicyReport) -> None:
    """Print broken rules, the mandatory ones first and the most severe first; then what rules could not check."""
    severities = list(Severity)
    for violation in sorted(
        report.violations, key=lambda one: (one.level is not Level.MANDATORY, severities.index(one.severity))
    ):
        console.print(
            escape(f"{violation.level.value}: {violation.rule} ({violation.severity.value}): {violation}")
        )
    for violation in report.exempted:
        console.print(escape(f"exempted: {violation.rule}: {violation}"))
    for gap in report.not_checked:
        console.print(escape(f"not checked: {gap.rule}: {gap}"))
    if not report.violations:
        console.print("policies: no violation")
