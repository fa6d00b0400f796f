"""`gpu-platform validate`: every node of a deployed stack against the Plan."""

from __future__ import annotations

import json
from pathlib import Path

from gpu_platform.cli.console import console
from gpu_platform.cluster_access import client_of
from gpu_platform.errors import BadInput, ExitCode, Problem
from gpu_platform.stacks import load_stack
from gpu_platform.validation import collect_report
from validators.render import as_junit, print_report


def validate_stack(stack: str, *, as_json: bool, junit: Path | None) -> ExitCode:
    """Print one report over all nodes, and write it as JUnit XML where asked."""
    plan = load_stack(stack).plan
    if plan.kind != "environment":
        problem = Problem("kind", "'team'", "environment: nodes belong to it", f"ask for {plan.environment_stack}")
        raise BadInput(stack, [problem])
    report = collect_report(client_of(plan), plan)
    if junit is not None:
        junit.write_text(as_junit(report), "utf-8")
    if as_json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        print_report(report, console())
    return report.exit_code
