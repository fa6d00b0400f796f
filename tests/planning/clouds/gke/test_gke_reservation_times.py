"""GKE reservations with a fixed period, before their start and at their end."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.live.node_reports import expected_pool
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools import ended_capacity
from gpu_platform.stack.loaded import plan_platform

TIMES: dict[str, Any] = {"starts": "2026-12-01T00:00:00Z", "ends": "2026-12-14T00:00:00Z"}
BEFORE, DURING, AFTER = (
    datetime.fromisoformat(f"2026-{day}T00:00:00+00:00") for day in ("11-30", "12-02", "12-14")
)


def planned(desired: int = 2, **times: Any) -> EnvironmentPlan:
    capacity = {"type": "reservation", "reservation": "h100-mega", "zone": "us-central1-a", **times}
    pool: dict[str, Any] = {
        "name": "train",
        "machine_type": "a3-megagpu-8g",
        "count": {"desired": desired, "max": 2},
        "workload": "training",
        "capacity": capacity,
    }
    cluster = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
    plan = plan_platform({"kind": "environment", "cluster": cluster, "pools": [pool]}, "test")
    assert plan.kind == "environment"
    return plan


@pytest.mark.parametrize(("now", "field"), [(BEFORE, "capacity.starts"), (DURING, None), (AFTER, "capacity.ends")])
def test_desired_nodes_are_refused_before_the_start_and_after_the_end(now: datetime, field: str | None) -> None:
    found = [problem.path for problem in ended_capacity(planned(**TIMES).pools, now)]
    assert found == ([f"pools[0].{field}"] if field else [])
    assert ended_capacity(planned(desired=0, **TIMES).pools, now) == ()


def test_validation_expects_no_nodes_before_the_start_and_after_the_end() -> None:
    (pool,) = planned(**TIMES).pools
    assert expected_pool(pool, BEFORE).size.startswith("0 to 2 nodes, h100-mega has not begun")
    assert expected_pool(pool, AFTER).size.startswith("0 to 2 nodes, h100-mega has ended")
    assert expected_pool(pool, DURING).least == expected_pool(planned().pools[0], BEFORE).least


def test_a_reservation_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(BadInput, match="an end after the start"):
        planned(starts=TIMES["ends"], ends=TIMES["starts"])


def test_alerts_come_before_the_end_of_a_reservation() -> None:
    monitoring = planned(**TIMES).monitoring
    assert monitoring is not None
    assert {alert.alert for alert in monitoring.alerts} >= {"GpuCapacityEndsInADay", "GpuCapacityEndsInTwoHours"}
