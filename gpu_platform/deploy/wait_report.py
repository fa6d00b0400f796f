"""Prints what a command waits for: soon after the start, when the reason changes, and otherwise every minute."""

from __future__ import annotations

from typing import Final

from gpu_platform.base.progress import Progress
from gpu_platform.base.quantity import duration_text

_FIRST_SECONDS: Final = 10.0  # most objects become ready within this time
_AGAIN_SECONDS: Final = 60.0


class WaitReport:
    """Progress lines for one wait. All times are in seconds on the same monotonic clock."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._said = ""
        self._at = 0.0

    def is_due(self, since: float, now: float) -> bool:
        """Return whether it is time to look for the reason for a wait that began at `since`."""
        return now - since >= _FIRST_SECONDS

    def say(self, what: str, since: float, now: float) -> None:
        """Print `what` and the time waited so far, unless it was printed less than a minute ago."""
        if what == self._said and now - self._at < _AGAIN_SECONDS:
            return
        self._said, self._at = what, now
        self._progress.line(f"waited {duration_text(now - since)} so far for {what}")
