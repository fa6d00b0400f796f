"""One choice of the program and its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One thing that was chosen, for whom, and why: printed by `check`, so that no default is silent."""

    subject: str
    what: str
    chosen: str
    why: str
