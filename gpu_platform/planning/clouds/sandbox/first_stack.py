"""Questions and fields of `init` for the first stack file of a sandbox."""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.clouds.first_stack import FirstStack

FIRST_STACK: Final = FirstStack(
    machine_type="p4de.24xlarge",
    cluster=lambda name, _answers: {"name": name},
    pool=lambda _answers: {},
)
