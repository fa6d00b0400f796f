"""Problems found in a trace. The first few are kept; the rest are only counted."""

from __future__ import annotations

from typing import Final

from gpu_platform.base.errors import Problem

MOST: Final = 20


class TraceProblems:
    """Collects the first `MOST` problems and counts all further problems."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._more = 0

    def add(self, place: str, found: str, allowed: str, fix: str = "") -> None:
        """Record a problem."""
        if len(self._found) < MOST:
            self._found.append(Problem(place, found, allowed, fix))
        else:
            self._more += 1

    def all(self) -> list[Problem]:
        """Return the problems. If there are more than `MOST`, the last entry contains the number of further
        problems.
        """
        if not self._more:
            return self._found
        rest = Problem("the rest of the file", f"{self._more} more problems", "none", "correct the first problems")
        return [*self._found, rest]
