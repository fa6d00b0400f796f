"""Removes tracebacks of interrupted programs and lines about unchanged resources from Pulumi's output."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):"
_CHAINED: Final = "During handling of the above exception"

# Matches lines such as ` +  kubernetes:core/v1:Namespace vision creating (0s)`.
_RESOURCE: Final = re.compile(r"(?P<does>[ +~<>=-]{4})[\w.-]+:[\w./-]+:[\w./-]+ \S+(?P<says>.*)")
_READ: Final = re.compile(r" (refresh|refreshed|refreshing(?!.*(error|warning)).*)( \([\d.]+s\))?")
_PROGRESS: Final = "@ "


class OnlyChanges:
    """Passes on lines, except lines about unchanged resources and repeated lines about a resource.

    Without a terminal, the CLI prints a line for each resource that it reads and for each unchanged resource.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._seen: set[str] = set()
        self._in_progress = False

    def __call__(self, line: str) -> None:
        """Pass on or drop one line."""
        if line.startswith(_PROGRESS):
            # Progress dots are passed on only once until other output follows.
            if not self._in_progress:
                self._write(line)
            self._in_progress = True
            return
        resource = _RESOURCE.fullmatch(line.rstrip("; "))
        if resource is not None:
            unchanged = not resource["does"].strip() and not resource["says"].strip()
            read = resource["does"].strip() == "~" and _READ.fullmatch(resource["says"])
            if unchanged or read or resource[0] in self._seen:
                return
            self._seen.add(resource[0])
        if line.strip():
            self._in_progress = False
        self._write(line)


class WithoutInterruptions:
    """Passes on lines, except the lines of a traceback that ends with KeyboardInterrupt.

    Each line has the prefix of its resource. Lines of other resources between the lines of a traceback are passed
    on.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._prefix = ""
        self._held: list[str] = []

    def __call__(self, line: str) -> None:
        """Pass on, hold or drop one line."""
        if not self._held:
            start = line.find(_TRACEBACK)
            if start < 0:
                if _CHAINED not in line:
                    self._write(line)
                return
            self._prefix, self._held = line[:start], [line]
            return
        text = line.removeprefix(self._prefix)
        if not line.startswith(self._prefix):
            if line.strip():
                self._write(line)
        elif not text.strip() or text.startswith((" ", _TRACEBACK)):
            self._held.append(line)
        elif text.startswith("KeyboardInterrupt"):
            self._held = []
        else:
            held = self._held
            self._held = []
            for one in [*held, line]:
                self._write(one)
