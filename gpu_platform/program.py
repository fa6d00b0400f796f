"""Runs the project's Pulumi program for a stack in this process and records the resources that it registers."""

from __future__ import annotations

import json

from gpu_platform.base.errors import BadInput
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.deploy.recorded.objects import declared_twice
from gpu_platform.deploy.recorded.record import RecordedProgram, StackResolver, record_program
from gpu_platform.stack import CONFIG_KEY
from gpu_platform.stack.loaded import ENVIRONMENT_FOLDER_KEY, LoadedStack
from gpu_platform.stack.project import project_name

PROGRAM = PROJECT_ROOT / "__main__.py"


def stack_config(loaded: LoadedStack) -> dict[str, str]:
    """Return the Pulumi configuration of a stack as keys and strings."""
    return {
        CONFIG_KEY: json.dumps(loaded.platform, default=str),
        ENVIRONMENT_FOLDER_KEY: str(loaded.path.resolve().parent),
    }


def record_stack(
    loaded: LoadedStack, *, preview: bool = True, resolve_stack: StackResolver | None = None
) -> RecordedProgram:
    """Run `__main__.py` for a stack and return what it registers. Exceptions of the program are not caught.

    Raises BadInput if two resources declare the same object.
    """
    program = record_program(
        PROGRAM,
        project=project_name(),
        stack=loaded.stack,
        config=stack_config(loaded),
        preview=preview,
        resolve_stack=resolve_stack,
    )
    if problems := declared_twice(program.resources):
        raise BadInput(f"stack {loaded.stack}", problems)
    return program
