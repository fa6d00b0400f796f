"""Rich console for the results of commands on standard output."""

from __future__ import annotations

import os

from rich.console import Console

_WIDTH_WITHOUT_TERMINAL = 160  # width in columns, for logs and pipes


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output or standard error. Without a terminal, its width is `COLUMNS` or 160
    columns.
    """
    out = Console(highlight=False, soft_wrap=True, stderr=stderr)
    if out.is_terminal:
        return out
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and int(columns) else _WIDTH_WITHOUT_TERMINAL
    return Console(highlight=False, soft_wrap=True, width=width, stderr=stderr)
