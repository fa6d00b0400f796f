"""Has the policy pack judge what a program registers, in process: no Pulumi CLI is needed."""

from __future__ import annotations

import datetime

from gpu_platform.engine.record import RecordedProgram
from gpu_platform.planning import Plan
from policies import Judgement, examine


def judge(program: RecordedProgram, plan: Plan) -> Judgement:
    """Return what the policy pack finds in a recorded program, at the stack's own levels."""
    records = [record.to_json() for record in program.resources]
    return examine(records, plan.policy.config, datetime.datetime.now(datetime.UTC).date())
