"""RoleBindings and workloads are created only after all API servers enforce the policies of the namespace."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from components._policies_in_effect import last_change, seconds_left
from gpu_platform.planning.teams.pod_admission import POLICY_SECONDS

NOW = datetime.datetime(2026, 11, 25, 12, 0, 10, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("created", "seconds"),
    [
        ([], 0),
        ([None], 0),
        (["2026-11-25T12:00:10Z"], POLICY_SECONDS + 1),
        (["2026-11-25T12:00:08Z", None], POLICY_SECONDS - 1),
        (["2026-11-25T12:00:08Z", "2026-11-25T12:00:09Z", "2026-11-20T00:00:00Z"], POLICY_SECONDS),
        (["2026-11-25T12:00:07Z"], 0),
        (["2026-11-20T00:00:00Z"], 0),
        (["2026-11-25T12:05:00Z"], POLICY_SECONDS + 1),
    ],
)
def test_only_recently_changed_policies_are_waited_for(created: list[str | None], seconds: float):
    assert seconds_left(created, NOW) == seconds


@pytest.mark.parametrize(
    ("metadata", "time"),
    [
        (None, None),
        ({}, None),
        ({"creationTimestamp": "2026-11-25T12:00:08Z"}, "2026-11-25T12:00:08Z"),
        (
            {
                "creationTimestamp": "2026-11-20T00:00:00Z",
                "managedFields": [{"manager": "a", "time": "2026-11-25T12:00:09Z"}, {"manager": "b"}],
            },
            "2026-11-25T12:00:09Z",
        ),
    ],
    ids=["preview", "without times", "new", "changed"],
)
def test_a_policy_counts_from_its_last_change(metadata: dict[str, Any] | None, time: str | None):
    assert last_change(metadata) == time
