"""One line of `doctor STACK --online`: what was looked at, what was found, and what it means for `up`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["stops", "warns", "fine", "unknown"]
"""Whether it stops `up`, may disturb it, is in order, or was not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineFinding:
    """A finding. `why`: why it stops or disturbs `up`, or why it was not looked at; `fix`: what to change."""

    looked_at: str
    severity: Severity
    found: str
    why: str = ""
    fix: str = ""


class NotLookedAt(Exception):
    """A question that the cloud did not answer: no credentials, a missing permission, no connection."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.why = why
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One question to a cloud or a cluster; `look` may raise NotLookedAt."""

    title: str
    look: Callable[[], Iterable[OnlineFinding]]

    def findings(self) -> tuple[OnlineFinding, ...]:
        """Return what was found; a question without an answer is one finding `unknown`."""
        found: list[OnlineFinding] = []
        try:
            for finding in self.look():
                found.append(finding)  # what was found before a failure is kept
        except NotLookedAt as reason:
            found.append(
                OnlineFinding(
                    looked_at=self.title, severity="unknown", found="not looked at", why=reason.why, fix=reason.fix
                )
            )
        return tuple(found)
