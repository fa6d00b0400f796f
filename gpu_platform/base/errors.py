"""Errors that the command line shows without a traceback, and its exit codes.

Exit codes: 0 success, 1 finding (policy, validation, illegal layout), 2 bad input, 3 unknown outcome.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from gpu_platform.base.quantity import counted


class ExitCode(IntEnum):
    """Exit codes of every command."""

    GOOD = 0
    FINDING = 1
    BAD_INPUT = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in an input: its path, the value found, what is allowed, and the likely fix.

    `path` is a path in the YAML file, such as `pools[2].sharing.replicas`. `line` and `column` are counted from 1,
    and are 0 if they are not known.
    """

    path: str
    found: str
    allowed: str
    fix: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}" if self.line else ""
        place = self.path if place == self.path or not place else f"{place}: {self.path}"
        text = f"{place}: found {self.found}; allowed: {self.allowed}"
        return f"{text}. Fix: {self.fix}" if self.fix else text


class GpuPlatformError(Exception):
    """Base class of all errors that the command line shows without a traceback."""

    exit_code: ExitCode = ExitCode.BAD_INPUT


class BadInput(GpuPlatformError):
    """An input is invalid. `problems` contains every problem of the input, not only the first."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems: tuple[Problem, ...] = tuple(problems)
        count = len(self.problems)
        head = f"{source}: {counted(count, 'problem')}"
        super().__init__("\n".join([head, *(f"  - {problem}" for problem in self.problems)]))


class Finding(GpuPlatformError):
    """The input is valid, but a check failed, such as a policy, node validation, or the check of a MIG layout."""

    exit_code = ExitCode.FINDING


class UnknownOutcome(GpuPlatformError):
    """The result is unknown because a tool, a cluster or a driver is missing or did not respond."""

    exit_code = ExitCode.UNKNOWN


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `did you mean 'x'?` if `word` is similar to an entry of `known`, else an empty string.

    `cutoff` is the minimum similarity, from 0 to 1.
    """
    candidates: Sequence[str] = list(known)
    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    close = difflib.get_close_matches(word.casefold(), list(by_folded), n=1, cutoff=cutoff)
    return f"did you mean {by_folded[close[0]]!r}?" if close else ""


def suggestion(fix: str) -> str | None:
    """Return the word that a fix suggests with `did you mean 'x'?`, or None if the fix suggests no word."""
    found = re.match(r"did you mean '([^']*)'\?", fix)
    return found[1] if found else None
