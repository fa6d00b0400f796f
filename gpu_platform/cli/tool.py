"""One line of what `doctor` prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing that some command needs: what was found (empty: missing), what for, and what to do.

    `known` False: this machine cannot tell, somebody has to ask.
    """

    name: str
    found: str
    needed_for: str
    required: bool
    remedy: str
    known: bool = True
