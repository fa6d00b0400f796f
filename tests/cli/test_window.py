"""`up` refuses node changes outside the maintenance window. The message names the changes and the time when the
window opens.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gpu_platform.base.errors import BadInput, ExitCode
from gpu_platform.cli.window import MaintenanceWindow
from gpu_platform.planning.changes import Effect, Impact
from gpu_platform.planning.maintenance.section import WindowPlan

WEEKEND = WindowPlan(days=("sat", "sun"), start="22:00", seconds=4 * 3600, time_zone="Europe/Berlin")
CLOSED = datetime(2026, 11, 25, 12, tzinfo=UTC)
OPEN = datetime(2026, 11, 28, 22, tzinfo=UTC)


def impact(subject: str, effect: Effect, field: str = "", *, nodes: bool = True) -> Impact:
    return Impact(subject=subject, effect=effect, field=field, old="a", new="b", changes_nodes=nodes)


ROLL = impact("pool lab", Effect.ROLLS_NODES, "pools[0].sharing.layout")
REPLACE = impact("pool train", Effect.REPLACES, "pools[1].machine_type")
QUOTA = impact("team vision", Effect.REMOVES_CAPACITY, "quota", nodes=False)
RESTART = impact("operator", Effect.RESTARTS_PODS, "operator", nodes=False)


def test_a_closed_window_refuses_each_change_of_nodes_and_says_when_it_opens() -> None:
    with pytest.raises(BadInput) as refusal:
        MaintenanceWindow(WEEKEND).refuse("prod", [ROLL, REPLACE, QUOTA, RESTART], CLOSED)
    assert refusal.value.exit_code is ExitCode.BAD_INPUT
    assert [problem.path for problem in refusal.value.problems] == ["pool lab", "pool train"]
    text = str(refusal.value)
    assert "pool lab: found rolls-nodes (pools[0].sharing.layout)" in text
    assert "sat, sun 22:00 for 4 h (Europe/Berlin)" in text
    assert "it opens Sat 2026-11-28 22:00 Europe/Berlin (21:00 UTC)" in text
    assert "up --outside-window" in text


@pytest.mark.parametrize(
    ("window", "at"),
    [
        (MaintenanceWindow(WEEKEND), OPEN),
        (MaintenanceWindow(WEEKEND, ignored=True), CLOSED),
        (MaintenanceWindow(None), CLOSED),
    ],
)
def test_an_open_or_missing_window_or_consent_allows_changes(window: MaintenanceWindow, at: datetime) -> None:
    window.refuse("prod", [ROLL, REPLACE], at)
    assert window.closed(at) == ""


def test_changes_that_affect_no_nodes_are_made_at_any_time() -> None:
    MaintenanceWindow(WEEKEND).refuse("prod", [QUOTA, RESTART], CLOSED)


@pytest.mark.parametrize(
    ("at", "impacts", "line"),
    [
        (OPEN, [ROLL], "; open until Sun 2026-11-29 02:00 Europe/Berlin (01:00 UTC)"),
        (CLOSED, [QUOTA], "; closed, opens Sat 2026-11-28 22:00 Europe/Berlin (21:00 UTC)"),
        (
            CLOSED,
            [ROLL, QUOTA],
            "; closed, opens Sat 2026-11-28 22:00 Europe/Berlin (21:00 UTC); until then, `up` without "
            "--outside-window refuses these changes: pool lab rolls-nodes",
        ),
    ],
)
def test_preview_says_whether_the_window_is_open_and_what_up_would_refuse(
    at: datetime, impacts: list[Impact], line: str
) -> None:
    assert MaintenanceWindow(WEEKEND).line(impacts, at) == "window: sat, sun 22:00 for 4 h (Europe/Berlin)" + line
    assert MaintenanceWindow(None).line(impacts, at) == ""
