"""Shows the progress of a command: a live line on a terminal, plain lines without one.

It writes to standard error, so that standard output has only the result of a command.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape


class Progress:
    """Prints the steps of a command; `quiet` prints nothing."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._quiet = quiet

    def line(self, text: str) -> None:
        """Print one line."""
        if not self._quiet:
            self._console.print(escape(text))

    @contextmanager
    def step(self, text: str) -> Generator[None]:
        """Show `text` while the body runs, then `text` with the duration in seconds."""
        started = time.monotonic()
        if self._quiet:
            yield
        elif self._console.is_terminal:
            with self._console.status(escape(text)):
                yield
        else:
            self.line(f"{text} ...")
            yield
        self.line(f"{text}: {time.monotonic() - started:.1f} s")
