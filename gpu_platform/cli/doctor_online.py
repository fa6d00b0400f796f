"""`gpu-platform doctor STACK --online`: query the cloud for conditions that would make `up` fail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from gpu_platform.base.errors import BadInput, ExitCode, Problem
from gpu_platform.base.progress import Progress
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import load_catalog
from gpu_platform.online import OnlineFinding, questions
from gpu_platform.stack.loaded import load_stack

_MARKS = {"stops": "STOPS", "warns": "WARNS", "fine": "ok", "unknown": "UNKNOWN"}


def findings_of(stack: str) -> Sequence[OnlineFinding]:
    """Return the findings about the cloud account and region of a stack. Raises BadInput for a team's stack."""
    loaded = load_stack(stack)
    plan = loaded.plan
    if plan.kind != "environment":
        raise BadInput(
            stack,
            [
                Problem(
                    "--online",
                    "a team's stack",
                    "an environment's stack",
                    f"examine {loaded.environment_argument}",
                )
            ],
        )
    lookups = questions(plan, load_catalog(), datetime.now(UTC))
    found: list[OnlineFinding] = []
    with Progress().count("querying the cloud and the cluster", "questions", total=len(lookups)) as advance:
        for lookup in lookups:
            found += lookup.findings()
            advance()
    return found


def exit_code(findings: Sequence[OnlineFinding]) -> ExitCode:
    """Return the exit code. A finding that would stop `up` takes precedence over a query that had no answer."""
    severities = {finding.severity for finding in findings}
    if "stops" in severities:
        return ExitCode.FINDING
    return ExitCode.UNKNOWN if "unknown" in severities else ExitCode.GOOD


def show(stack: str, findings: Sequence[OnlineFinding]) -> None:
    """Print the findings, and their number by severity."""
    print(f"\nOnline, before `up` of stack {stack}:")
    if not findings:
        print("nothing to check: the stack uses no cloud and no existing cluster")
        return
    for finding in findings:
        print(f"{_MARKS[finding.severity]:<7} {finding.looked_at}: {finding.found}")
        if finding.why:
            print(f"        why: {finding.why}")
        if finding.fix:
            print(f"        fix: {finding.fix}")
    count = {severity: sum(finding.severity == severity for finding in findings) for severity in _MARKS}
    print(
        f"{counted(len(findings), 'line')}: {count['stops']} stop `up`, {count['warns']} warn, "
        f"{count['unknown']} unknown, {count['fine']} fine"
    )
