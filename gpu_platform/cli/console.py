"""Rich console for the results of commands on standard output."""

from __future__ import annotations

from rich.console import Console

_WIDTH_WITHOUT_TERMINAL = 160  # columns, for logs and pipes


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output or error; without a terminal it is wide enough for tables."""
    out = Console(highlight=False, soft_wrap=True, stderr=stderr)
    if out.is_terminal:
        return out
    return Console(highlight=False, soft_wrap=True, width=_WIDTH_WITHOUT_TERMINAL, stderr=stderr)
