"""Shows the progress of a command as a live line on a terminal, or as plain lines if there is no terminal.

It writes to standard error, so that standard output contains only the result of a command. The module can be
imported without Rich, because the sandbox's control plane is built while pip is still installing Rich.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

_LINE_SHARE: Final = 0.1  # share of the work after which a plain line is printed
_LINE_SECONDS: Final = 30.0  # time without a line, in seconds, after which the next progress prints a line


class Progress:
    """Prints the steps of a command. With `quiet`, it prints nothing. With `plain`, it prints only lines."""

    def __init__(self, *, quiet: bool = False, plain: bool = False) -> None:
        self._quiet = quiet
        self._terminal = None if quiet or plain else _terminal()
        self.doing = ""
        """Text of the step that runs, or that an exception ended; empty outside of steps."""

    def line(self, text: str) -> None:
        """Print a line that stays on the terminal."""
        if self._terminal is not None:
            self._terminal.print(text, markup=False)
        elif not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def waiting(self, text: str) -> None:
        """Print that the command is waiting for another process, even with `quiet`."""
        if self._terminal is not None:
            self.line(text)
        else:
            print(text, file=sys.stderr, flush=True)

    @contextmanager
    def step(self, text: str) -> Generator[None]:
        """Show `text` while the body runs, then `text` with the duration in seconds."""
        started, before, self.doing = time.monotonic(), self.doing, text
        if self._terminal is not None:
            from rich.markup import escape

            with self._terminal.status(escape(text)):
                yield
        else:
            self.line(f"{text} ...")
            yield
        self.doing = before
        self.line(f"{text}: {time.monotonic() - started:.1f} s")

    @contextmanager
    def count(self, text: str, unit: str, total: int | None = None) -> Generator[Callable[[], None]]:
        """Show `text` and the number of finished units while the body runs, then the duration in seconds.

        The body receives a function, and calls it once for each finished unit. `unit` is the plural noun for the
        units, such as `packages`. `total` is None if the number of units is not known.
        """
        started, before, self.doing = time.monotonic(), self.doing, text
        if self._terminal is not None:
            with _bar(self._terminal, text, unit, total) as advance:
                yield advance
        else:
            self.line(f"{text} ...")
            yield _Lines(self.line, text, unit, total)
        self.doing = before
        self.line(f"{text}: {time.monotonic() - started:.1f} s")


class _Lines:
    """Prints a line after each tenth of the work, and at the first progress after 30 s without a line."""

    def __init__(self, line: Callable[[str], None], text: str, unit: str, total: int | None) -> None:
        self._line, self._text, self._unit, self._total = line, text, unit, total
        self._started = self._last_time = time.monotonic()
        self._done = self._last_done = 0

    def __call__(self) -> None:
        self._done += 1
        now = time.monotonic()
        if not self._is_due(now):
            return
        self._last_time, self._last_done = now, self._done
        seconds = f"{now - self._started:.0f} s"
        if self._total is None:
            self._line(f"{self._text}: {self._done} {self._unit}, {seconds}")
        else:
            percent = 100 * self._done // self._total
            self._line(f"{self._text}: {percent} % ({self._done} of {self._total} {self._unit}), {seconds}")

    def _is_due(self, now: float) -> bool:
        tenth = self._total is not None and (
            self._done == self._total or self._done - self._last_done >= _LINE_SHARE * self._total
        )
        return tenth or now - self._last_time >= _LINE_SECONDS


@contextmanager
def _bar(console: Console, text: str, unit: str, total: int | None) -> Generator[Callable[[], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn(unit)]
    with Bars(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        task = bars.add_task(text, total=total)
        yield lambda: bars.advance(task)


def _terminal() -> Console | None:
    """Return a console for live lines on standard error, or None without a terminal or without Rich."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    return console if console.is_terminal else None
