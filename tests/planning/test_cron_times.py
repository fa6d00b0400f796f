"""Cron schedules of batch jobs, and the hours when their pool has nodes."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.schedules import SchedulePlan
from gpu_platform.planning.workloads.cron_times import cron_in, cron_times
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team

EKS: dict[str, Any] = {"provider": "eks", "name": "prod", "region": "us-east-2"}
NIGHT: dict[str, Any] = {"start": "01:00", "stop": "05:00", "time_zone": "UTC", "stops_work": True}


def planned(schedule: str, hours: dict[str, Any], *, deadline: str = "8h", **platform: Any) -> object:
    batch = {
        "name": "nightly",
        "pool": "train",
        "image": "registry.example.com/run:1.0",
        "command": ["run"],
        "gpus": 1,
        "schedule": schedule,
        "deadline": deadline,
    }
    own = team(quota={"gpus": 8}, members=["user:ana@example.com"], batch_jobs=[batch])
    nodes = {**pool(count={"desired": 1}), "machine_type": "p5.48xlarge", "zones": ["us-east-2a"]}
    return plan_platform(environment({**nodes, "schedule": hours}, cluster=EKS, teams=[own], **platform), "test")


@pytest.mark.parametrize(
    ("schedule", "first"),
    [
        ("30 2 * * *", ["2026-01-05T02:30", "2026-01-06T02:30"]),
        ("*/30 9-10 * * 3", ["2026-01-07T09:00", "2026-01-07T09:30", "2026-01-07T10:00"]),
        ("0 0 10 * 2", ["2026-01-06T00:00", "2026-01-10T00:00"]),
        ("0 0 1-7 2 0", ["2026-02-01T00:00", "2026-02-02T00:00"]),
        ("0 50/5 1 1 *", []),
    ],
)
def test_times_of_a_cron_schedule(schedule: str, first: list[str]) -> None:
    found = list(islice(cron_times(schedule), len(first)))
    assert [one.replace(tzinfo=None) for one in found] == [datetime.fromisoformat(one) for one in first]


@pytest.mark.parametrize(
    ("hours", "schedule", "fixed"),
    [
        (NIGHT, "0 12 * * *", "0 1 * * 1,2,3,4,5"),
        ({**NIGHT, "time_zone": "Asia/Tokyo"}, "0 0 * * *", "0 16 * * 0,1,2,3,4"),
        ({**NIGHT, "days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}, "0 12 * * *", "0 1 * * *"),
    ],
)
def test_a_job_that_never_meets_its_pools_hours_is_refused(
    hours: dict[str, Any], schedule: str, fixed: str
) -> None:
    """A Job's deadline includes the time that its pods wait, so the Job would fail before the pool gets nodes."""
    with pytest.raises(BadInput) as caught:
        planned(schedule, hours)
    [problem] = caught.value.problems
    assert problem.path == "teams[0].batch_jobs[0].schedule"
    assert f'"{fixed}"' in problem.fix
    assert planned(fixed, hours)


def test_a_job_whose_deadline_reaches_its_pools_hours_passes() -> None:
    assert planned("0 12 * * *", NIGHT, deadline="14h")
    assert planned("0 20 * * 1", NIGHT, deadline="8h")


def test_a_job_waits_for_its_pools_hours_in_a_queue() -> None:
    assert planned("0 12 * * *", NIGHT, queueing={})


@pytest.mark.parametrize(
    ("zone", "cron"),
    [("America/New_York", "0 12 * * 1"), ("Australia/Sydney", "0 21 * * 0"), ("Asia/Kolkata", "30 1 * * 1")],
)
def test_a_suggested_time_is_never_before_the_start_of_the_pool(zone: str, cron: str) -> None:
    hours = SchedulePlan(days=("mon",), start="07:00", stop="20:00", time_zone=zone)
    assert cron_in(hours) == cron
    assert all(hours.is_on(moment) for moment in cron_times(cron))
