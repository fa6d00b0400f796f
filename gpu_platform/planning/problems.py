"""A collector for the mistakes that planning finds, so that one run reports all of them."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.base.errors import Problem


class Problems:
    """A growing list of problems with a stack file. New problems belong to `path` in the file."""

    def __init__(self, path: str = "", found: list[Problem] | None = None) -> None:
        self.path = path
        self.found: list[Problem] = [] if found is None else found

    def at(self, part: str) -> Problems:
        """Return a recorder that adds problems to the same list, at a path below the path of this recorder.

        For example, `at("sharing").at("[0]")` records problems at `sharing[0]`.
        """
        joined = f"{self.path}{part}" if part.startswith("[") else f"{self.path}.{part}" if self.path else part
        return Problems(joined, self.found)

    def add(self, found: str, allowed: str, fix: str = "") -> None:
        """Record a problem at this recorder's path."""
        self.found.append(Problem(self.path, found, allowed, fix))


def check_unique(
    kind: str, found: Sequence[tuple[str, str]], problems: Problems, field: str = ".name", fix: str = ""
) -> None:
    """Record a problem for each name that is used twice.

    Each entry of `found` is a pair: a path in the file, and a name. `field` is the path of the name below that
    path. `fix` replaces the default fix, for names that the stack file does not choose.
    """
    first: dict[str, str] = {}
    for path, name in found:
        if name in first:
            Problems(f"{path}{field}", problems.found).add(
                f"{name!r} again",
                f"each {kind} name only once (it is already in {first[name]})",
                fix or f"rename it, for example to '{name}-2'",
            )
        first.setdefault(name, path)
