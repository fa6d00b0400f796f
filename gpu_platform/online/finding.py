"""One line of `doctor STACK --online`: what was checked, what was found, and what it means for `up`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["stops", "warns", "fine", "unknown"]
"""Effect of a finding on `up`: it stops `up`, may disturb `up`, has no effect, or is unknown because nothing was
checked.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineFinding:
    """A finding. `why` explains why the finding stops or disturbs `up`, or why its effect is unknown. `fix` is
    what the user should change.
    """

    looked_at: str
    severity: Severity
    found: str
    why: str = ""
    fix: str = ""


class NotLookedAt(Exception):
    """A lookup has no result, because credentials, a permission or a connection is missing."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.why = why
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One check that queries a cloud or a cluster. `look` may raise NotLookedAt."""

    title: str
    look: Callable[[], Iterable[OnlineFinding]]

    def findings(self) -> tuple[OnlineFinding, ...]:
        """Return the findings. A lookup without a result is one finding with severity `unknown`."""
        found: list[OnlineFinding] = []
        try:
            for finding in self.look():
                found.append(finding)  # findings before a failure are kept
        except NotLookedAt as reason:
            found.append(
                OnlineFinding(
                    looked_at=self.title, severity="unknown", found="not checked", why=reason.why, fix=reason.fix
                )
            )
        return tuple(found)
