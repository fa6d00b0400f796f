"""Errors in the arguments of a public component."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi

from gpu_platform.base.errors import BadInput, Problem


class BadArguments(pulumi.RunError):
    """The arguments of a component are wrong; Pulumi prints it without a traceback. Has every problem."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        error = BadInput(source, problems)
        self.problems = error.problems
        super().__init__(str(error))
