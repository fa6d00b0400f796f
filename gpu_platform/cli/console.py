"""The console that results are printed on."""

from __future__ import annotations

from rich.console import Console

_WIDTH_WITHOUT_TERMINAL = 160  # columns; logs and pipes have no width of their own


def console() -> Console:
    """Return a console on standard output; wide enough for tables where there is no terminal."""
    out = Console(highlight=False, soft_wrap=True)
    return out if out.is_terminal else Console(highlight=False, soft_wrap=True, width=_WIDTH_WITHOUT_TERMINAL)
