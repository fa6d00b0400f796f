"""What the Pulumi CLI prints, without the tracebacks of a program that it interrupts because a resource failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):"
_CHAINED: Final = "During handling of the above exception"


class WithoutInterruptions:
    """Passes lines on, but not those of a traceback that ends with KeyboardInterrupt.

    Each line has the prefix of its resource; lines of other resources between those of a traceback are passed on.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._prefix = ""
        self._held: list[str] = []

    def __call__(self, line: str) -> None:
        """Take one line."""
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
