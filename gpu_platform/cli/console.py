"""Rich console for the results of commands on standard output."""

from __future__ import annotations

from rich.console import Console

_WIDTH_WITHOUT_TERMINAL = 160  # columns, for logs and pipes


def console() -> Console:
    """Return a console on standard output; without a terminal it is wide enough for tables."""
    out = Console(highlight=False, soft_wrap=True)
    return out if out.is_terminal else Console(highlight=False, soft_wrap=True, width=_WIDTH_WITHOUT_TERMINAL)
