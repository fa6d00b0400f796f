"""`gpu-platform validate`: compare every node of a deployed stack with the Plan."""

from __future__ import annotations

import json
from pathlib import Path

from gpu_platform.cli.console import console
from gpu_platform.cluster_access import client_of
from gpu_platform.errors import BadInput, ExitCode, Problem, UnknownOutcome
from gpu_platform.stacks import load_stack
from gpu_platform.validation import collect_report
from validators.render import as_junit, print_report


def validate_stack(stack: str, *, to_json: bool, junit: Path | None) -> ExitCode:
    """Print a report of all nodes, and write it to the file `junit` as JUnit XML."""
    plan = load_stack(stack).plan
    if plan.kind != "environment":
        problem = Problem(
            "kind",
            "'team'",
            "a stack of kind environment, because teams have no nodes",
            f"run `gpu-platform validate {plan.environment_stack}`",
        )
        raise BadInput(stack, [problem])
    if junit is not None and not junit.parent.is_dir():
        problem = Problem("--junit", str(junit), "a file in an existing folder", f"create {junit.parent} first")
        raise BadInput("validate", [problem])
    client = client_of(plan)
    if client.get("v1", "Namespace", plan.validation.namespace) is None:
        raise UnknownOutcome(
            f"stack {plan.stack} is not deployed on this cluster: run `gpu-platform up {stack}` first"
        )
    report = collect_report(client, plan)
    if junit is not None:
        junit.write_text(as_junit(report), "utf-8")
    if to_json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        print_report(report, console())
    return report.exit_code
