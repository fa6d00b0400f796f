"""Commands that are about a platform take the stack of an environment, not that of a team."""

from __future__ import annotations

from gpu_platform.errors import BadInput, Problem
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.plan import Plan


def environment_of(plan: Plan, stack: str, because: str, command: str) -> EnvironmentPlan:
    """Return the plan of an environment; raises BadInput for that of a team.

    `because`: why, as it follows "a stack of kind environment"; `command`: what to run on the environment, with
    `{}` for its stack.
    """
    if plan.kind == "environment":
        return plan
    fix = f"run `gpu-platform {command.format(plan.environment_stack)}`"
    raise BadInput(stack, [Problem("kind", "'team'", f"a stack of kind environment{because}", fix)])
