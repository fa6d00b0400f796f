"""`gpu-platform check`: check stack file, plan and policies without a cluster."""

from __future__ import annotations

import json

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpu_platform.cli.console import console
from gpu_platform.errors import ExitCode
from gpu_platform.planning import Plan, plan_to_json
from gpu_platform.policy_check import evaluate_policies
from gpu_platform.program import record_stack
from gpu_platform.stacks import load_stack
from policies import Judgement, Level


def check_stack(stack: str, *, to_json: bool) -> ExitCode:
    """Check a stack and print the decisions of its plan and the policy rules that it violates."""
    loaded = load_stack(stack)
    judgement = evaluate_policies(record_stack(loaded), loaded.plan)
    if to_json:
        document = {
            "version": 1,
            "stack": loaded.stack,
            "decisions": plan_to_json(loaded.plan.decisions),
            "policies": judgement.to_json(),
        }
        print(json.dumps(document, indent=2))
    else:
        out = console()
        show_decisions(out, loaded.plan)
        show_judgement(out, judgement)
    return verdict(judgement)


def verdict(judgement: Judgement) -> ExitCode:
    """Return a finding if a mandatory rule is violated; violations of advisory rules are no finding."""
    broken = any(violation.level is Level.MANDATORY for violation in judgement.violations)
    return ExitCode.FINDING if broken else ExitCode.GOOD


def show_decisions(console: Console, plan: Plan) -> None:
    """Print the decisions of a plan: subject, setting, value and reason."""
    table = Table(title=f"Stack {plan.stack}: decisions", title_justify="left", box=None)
    for column in ("subject", "setting", "value", "reason"):
        table.add_column(column, overflow="fold")
    for decision in plan.decisions:
        table.add_row(*(escape(text) for text in (decision.subject, decision.what, decision.chosen, decision.why)))
    console.print(table)


def show_judgement(console: Console, judgement: Judgement) -> None:
    """Print the violations, mandatory ones first, then what the rules could not check."""
    for violation in sorted(judgement.violations, key=lambda one: one.level is not Level.MANDATORY):
        console.print(
            escape(f"{violation.level.value}: {violation.rule} ({violation.severity.value}): {violation}")
        )
    for violation in judgement.exempted:
        console.print(escape(f"exempted: {violation.rule}: {violation}"))
    for gap in judgement.undecided:
        console.print(escape(f"not checked: {gap.rule}: {gap}"))
    if not judgement.violations:
        console.print("policies: no violations")
