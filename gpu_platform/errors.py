"""The errors a user can meet, in one small hierarchy, and the exit codes they end with.

Exit codes, everywhere: 0 good, 1 a finding (policy, validation, illegal layout), 2 bad input,
3 could not tell.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Process exit codes of every command."""

    GOOD = 0
    FINDING = 1
    BAD_INPUT = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in an input: where it is, what was found, what is allowed, and the likely fix.

    `path` is written as a reader of the YAML would: `pools[2].sharing.replicas`.
    """

    path: str
    found: str
    allowed: str
    fix: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: found {self.found}; allowed: {self.allowed}"
        return f"{text}. Fix: {self.fix}" if self.fix else text


class GpuPlatformError(Exception):
    """Base of every error that is shown to a user without a traceback."""

    exit_code: ExitCode = ExitCode.BAD_INPUT


class BadInput(GpuPlatformError):
    """An input is wrong; carries every problem of the input, never only the first."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems: tuple[Problem, ...] = tuple(problems)
        count = len(self.problems)
        head = f"{source}: {count} problem{'s' if count != 1 else ''}"
        super().__init__("\n".join([head, *(f"  - {problem}" for problem in self.problems)]))


class Finding(GpuPlatformError):
    """The input is well formed, but something was found wrong with the thing it describes."""

    exit_code = ExitCode.FINDING


class UnknownOutcome(GpuPlatformError):
    """The answer could not be had: a tool, a cluster or a driver did not answer."""

    exit_code = ExitCode.UNKNOWN


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for a near miss of `word` among `known`, else an empty string."""
    candidates: Sequence[str] = list(known)
    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    close = difflib.get_close_matches(word.casefold(), list(by_folded), n=1, cutoff=0.6)
    return f"did you mean {by_folded[close[0]]!r}?" if close else ""
