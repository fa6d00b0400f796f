"""Errors in the arguments of a public component."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi

from gpu_platform.base.errors import BadInput, Problem


class BadArguments(pulumi.RunError):
    """Reports all problems with the arguments of a component. Pulumi prints the error without a traceback."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        error = BadInput(source, problems)
        self.problems = error.problems
        super().__init__(str(error))
