"""Problems of a trace: as many as a reader can use, then how many more there are."""

from __future__ import annotations

from typing import Final

from gpu_platform.base.errors import Problem

MOST: Final = 20


class TraceProblems:
    """Collects problems; of more than MOST only the number is kept."""

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
        """Return the problems, and in place of the rest one with their number."""
        if not self._more:
            return self._found
        rest = Problem("the rest of the file", f"{self._more} more problems", "none", "correct the first ones")
        return [*self._found, rest]
