"""Asks for consent to what cannot be undone: a name typed at a terminal, or an option where there is none."""

from __future__ import annotations

import sys

from gpu_platform.base.errors import BadInput, Problem


def ask_for(text: str, *, source: str, option: str) -> None:
    """Return once `text` was typed at the terminal; raises BadInput otherwise, which names `option`.

    `source`: the command; `option`: its option that is the consent where there is no terminal.
    """
    allowed, untouched = f"consent: {text!r} typed at a terminal, or {option}", "nothing was changed"
    if not sys.stdin.isatty():
        problem = Problem(
            option, "not given, and standard input is no terminal", allowed, f"add {option}; {untouched}"
        )
        raise BadInput(source, [problem])
    print(f"type {text} to continue: ", end="", file=sys.stderr, flush=True)
    typed = sys.stdin.readline().strip()
    if typed != text:
        fix = f"run the command again; {untouched}"
        raise BadInput(source, [Problem("the terminal", repr(typed), allowed, fix)])
