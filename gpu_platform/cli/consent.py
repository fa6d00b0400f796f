"""Asks for consent to irreversible actions. At a terminal, the user types a name. Without a terminal, the user
sets an option.
"""

from __future__ import annotations

import sys

from gpu_platform.base.errors import BadInput, Problem


def ask_for(text: str, *, source: str, option: str) -> None:
    """Ask the user to type `text` at the terminal. Raise BadInput if the user types anything else.

    `source` is the command. `option` is the command's option that gives consent without a terminal. The error
    names this option.
    """
    allowed, untouched = f"consent: {text!r} typed at a terminal, or {option}", "nothing was changed"
    if not sys.stdin.isatty():
        problem = Problem(
            option, "not given, and standard input is not a terminal", allowed, f"add {option}; {untouched}"
        )
        raise BadInput(source, [problem])
    print(f"type {text} to continue: ", end="", file=sys.stderr, flush=True)
    typed = sys.stdin.readline().strip()
    if typed != text:
        fix = f"run the command again; {untouched}"
        raise BadInput(source, [Problem("the terminal", repr(typed), allowed, fix)])
