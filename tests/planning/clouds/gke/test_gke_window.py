"""The window in `changes`, converted to a recurring GKE maintenance window in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.gke.window import recurring_window
from gpu_platform.planning.maintenance.section import DAYS, WindowPlan
from gpu_platform.planning.maintenance.window import open_until
from gpu_platform.stack.loaded import plan_platform

GKE: dict[str, Any] = {"provider": "gke", "name": "ml", "project": "ml-project", "location": "us-central1"}
POOL = {
    "name": "serve",
    "machine_type": "g2-standard-12",
    "zones": ["us-central1-a"],
    "count": {"desired": 1},
    "workload": "inference",
}


def window(days: str = "sat sun", start: str = "22:00", hours: int = 6, zone: str = "Europe/Berlin") -> WindowPlan:
    return WindowPlan(days=tuple(days.split()), start=start, seconds=hours * 3600, time_zone=zone)


def planned(cluster: dict[str, Any], **changes: Any) -> Any:
    document = {"kind": "environment", "cluster": cluster, "pools": [POOL], "changes": changes}
    return plan_platform(document, "test")


@pytest.mark.parametrize(
    ("given", "start", "end", "recurrence"),
    [
        (window(zone="UTC"), "22:00", "04:00", "FREQ=WEEKLY;BYDAY=SA,SU"),
        # The expected times fit both seasons. Berlin is one hour ahead of UTC in winter, and two hours in summer.
        (window(), "21:00", "02:00", "FREQ=WEEKLY;BYDAY=SA,SU"),
        (window(start="00:30"), "23:30", "04:30", "FREQ=WEEKLY;BYDAY=FR,SA"),
        (window(zone="America/Los_Angeles"), "06:00", "11:00", "FREQ=WEEKLY;BYDAY=MO,SU"),
        (window("mon", "02:00", 6, "Asia/Tokyo"), "17:00", "23:00", "FREQ=WEEKLY;BYDAY=SU"),
    ],
)
def test_gke_gets_the_hours_that_the_window_has_in_summer_and_in_winter(
    given: WindowPlan, start: str, end: str, recurrence: str
) -> None:
    first, last, rule = recurring_window(given)
    assert (f"{first:%H:%M}", f"{last:%H:%M}", rule) == (start, end, recurrence)
    assert f"{first:%a}".upper()[:2] in rule, "the first window is on a weekday of the rule"


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata"])
@pytest.mark.parametrize("month", [1, 7])
def test_whenever_gke_may_upgrade_the_window_of_the_stack_is_open(zone: str, month: int) -> None:
    given = window("sun wed", "23:30", 6, zone)
    first, last, rule = recurring_window(given)
    days = {DAYS.index(name) for name in DAYS if name[:2].upper() in rule.rpartition("=")[2].split(",")}
    for day in range(14):
        start = datetime(2026, month, 4, first.hour, first.minute, tzinfo=UTC) + timedelta(days=day)
        if start.weekday() in days:
            assert open_until(given, start) is not None
            assert open_until(given, start + (last - first) - timedelta(seconds=1)) is not None


def test_the_window_of_changes_is_that_of_a_new_cluster_and_check_says_so() -> None:
    declared = {"days": ["sat", "sun"], "start": "22:00", "duration": "6h", "time_zone": "Europe/Berlin"}
    plan = planned({**GKE, "create": {}}, window=declared)
    create = plan.cluster.cloud.create
    assert create.maintenance_recurrence == "FREQ=WEEKLY;BYDAY=SA,SU"
    assert create.maintenance_start.endswith("T21:00:00Z")
    assert create.maintenance_end.endswith("T02:00:00Z")
    [decision] = [one for one in plan.decisions if one.what == "changes of nodes"]
    assert decision.chosen == "sat, sun 22:00 for 6 h (Europe/Berlin)"
    assert "in UTC: FREQ=WEEKLY;BYDAY=SA,SU 21:00 to 02:00" in decision.why


def test_an_existing_cluster_keeps_its_window() -> None:
    plan = planned(GKE, window={"days": ["sat"], "start": "22:00", "duration": "1h"})
    [decision] = [one for one in plan.decisions if one.what == "changes of nodes"]
    assert "in the cluster's own maintenance window" in decision.why


def test_a_window_that_gke_does_not_count_is_refused_only_on_gke() -> None:
    short = {"days": ["mon"], "start": "22:00", "duration": "3h30m"}
    with pytest.raises(
        BadInput, match=r"changes.window.duration: found 3 h 30 min; allowed: windows with at least 4"
    ):
        planned({**GKE, "create": {}}, window=short)
    assert planned(GKE, window=short).changes.window.seconds == 3.5 * 3600
