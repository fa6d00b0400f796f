"""Collect the mistakes that planning finds, so that one run shows all of them."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.base.errors import Problem


class Problems:
    """A growing list of problems below one place of the file."""

    def __init__(self, path: str = "", found: list[Problem] | None = None) -> None:
        self.path = path
        self.found: list[Problem] = [] if found is None else found

    def at(self, part: str) -> Problems:
        """Return the same list one place deeper: `at("sharing").at("[0]")`."""
        joined = f"{self.path}{part}" if part.startswith("[") else f"{self.path}.{part}" if self.path else part
        return Problems(joined, self.found)

    def add(self, found: str, allowed: str, fix: str = "") -> None:
        """Record a problem at this place."""
        self.found.append(Problem(self.path, found, allowed, fix))


def check_unique(
    kind: str, found: Sequence[tuple[str, str]], problems: Problems, field: str = ".name", fix: str = ""
) -> None:
    """Record names used twice. `found`: place in the file, name; `field`: where the name is below the place.

    `fix`: what to do with names that the stack file does not give.
    """
    first: dict[str, str] = {}
    for path, name in found:
        if name in first:
            Problems(f"{path}{field}", problems.found).add(
                f"{name!r} again",
                f"each {kind} name once (it is in {first[name]})",
                fix or f"rename it, for example to '{name}-2'",
            )
        first.setdefault(name, path)
