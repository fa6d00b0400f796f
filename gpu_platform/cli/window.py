"""Keeps changes to nodes within the maintenance window of the stack, in `preview` and `up`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpu_platform.base.errors import BadInput, Finding, Problem
from gpu_platform.planning import Plan
from gpu_platform.planning.changes import Impact
from gpu_platform.planning.maintenance.section import WindowPlan
from gpu_platform.planning.maintenance.window import open_until, opens_next, time_text, window_text


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """Maintenance window of a stack. Without a `window`, nodes may be changed at any time.

    `ignored` is set by `--outside-window`.
    """

    window: WindowPlan | None
    ignored: bool = False

    def closed(self, at: datetime | None = None) -> str:
        """Return why nodes must not be changed at `at` (default: now), or an empty string if they may change."""
        now = at or datetime.now(UTC)
        if self.window is None or self.ignored or open_until(self.window, now) is not None:
            return ""
        return f"the maintenance window is closed; it opens {time_text(self.window, opens_next(self.window, now))}"

    def refuse(self, stack: str, impacts: Sequence[Impact], at: datetime | None = None) -> None:
        """Raise BadInput for changes to nodes while the window is closed."""
        closed = self.closed(at)
        if closed and self.window is not None:
            problems = [
                Problem(
                    impact.subject,
                    f"{impact.effect.value} ({impact.field})" if impact.field else impact.effect.value,
                    f"changes to nodes in the maintenance window {window_text(self.window)}; {closed}",
                    "run `up` in the window, or `up --outside-window`",
                )
                for impact in _of_nodes(impacts)
            ]
            if problems:
                raise BadInput(stack, problems)

    def check_still_open(self, impacts: Sequence[Impact]) -> None:
        """Raise Finding if the window closed while MIG layouts were changed and other nodes still have to be
        changed.
        """
        left = [impact for impact in _of_nodes(impacts) if not impact.field.endswith("sharing.layout")]
        closed = self.closed()
        if closed and left:
            named = ", ".join(f"{impact.subject} {impact.effect.value}" for impact in left)
            raise Finding(
                f"{closed}: {named} and all other changes were not started; run `up` again when the window is open"
            )

    def line(self, impacts: Sequence[Impact], at: datetime | None = None) -> str:
        """Return the line that `preview` prints about the maintenance window, or an empty string if there is no
        window.
        """
        if self.window is None:
            return ""
        now = at or datetime.now(UTC)
        until = open_until(self.window, now)
        text = f"window: {window_text(self.window)}"
        if until is not None:
            return f"{text}; open until {time_text(self.window, until)}"
        named = ", ".join(f"{impact.subject} {impact.effect.value}" for impact in _of_nodes(impacts))
        refused = f"; until then, `up` without --outside-window refuses these changes: {named}" if named else ""
        return f"{text}; closed, opens {time_text(self.window, opens_next(self.window, now))}{refused}"

    def to_json(self, impacts: Sequence[Impact]) -> dict[str, Any] | None:
        """Return the window's state for a JSON report, or None if there is no window. Times are in UTC."""
        if self.window is None:
            return None
        now = datetime.now(UTC)
        until = open_until(self.window, now)
        return {
            "window": window_text(self.window),
            "open": until is not None,
            "closes": until.isoformat() if until is not None else None,
            "opens": None if until is not None else opens_next(self.window, now).isoformat(),
            "refused": [] if until is not None else [impact.subject for impact in _of_nodes(impacts)],
        }


def window_of(plan: Plan, *, ignored: bool = False) -> MaintenanceWindow:
    """Return the maintenance window of a stack. A team's stack has none, because it changes no nodes."""
    return MaintenanceWindow(plan.changes.window if plan.kind == "environment" else None, ignored)


def _of_nodes(impacts: Sequence[Impact]) -> list[Impact]:
    return [impact for impact in impacts if impact.changes_nodes]
