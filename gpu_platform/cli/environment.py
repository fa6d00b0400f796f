"""Commands that are about a platform take the stack of an environment, not that of a team."""

from __future__ import annotations

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import LoadedStack


def environment_of(loaded: LoadedStack, because: str, command: str) -> EnvironmentPlan:
    """Return the plan of a stack that is an environment; raises BadInput for that of a team.

    `because`: why, as it follows "a stack of kind environment"; `command`: what to run on the environment, with
    `{}` for its stack.
    """
    if loaded.plan.kind == "environment":
        return loaded.plan
    fix = f"run `gpu-platform {command.format(loaded.environment_argument)}`"
    raise BadInput(loaded.argument, [Problem("kind", "'team'", f"a stack of kind environment{because}", fix)])
