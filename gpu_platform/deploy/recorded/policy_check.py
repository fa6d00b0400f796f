"""Runs the policy pack in process and without the Pulumi CLI, on the resources of a recorded program."""

from __future__ import annotations

import datetime

from gpu_platform.deploy.recorded.record import RecordedProgram
from gpu_platform.planning import Plan
from policies import PolicyReport, evaluate


def evaluate_policies(program: RecordedProgram, plan: Plan) -> PolicyReport:
    """Return the policy pack's report on a recorded program, with the stack's policy configuration."""
    today = datetime.datetime.now(datetime.UTC).date()
    records = [record.to_json() for record in program.resources]
    return evaluate(records, plan.policy.config, today, plan.policy.own_rules)
