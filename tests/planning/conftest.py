from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform

PlanMaker = Callable[..., EnvironmentPlan]


def environment(*pools: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": list(pools), **rest}


def pool(name: str = "train", machine_type: str = "p4de.24xlarge", **rest: Any) -> dict[str, Any]:
    return {
        "name": name,
        "machine_type": machine_type,
        "count": {"desired": 1},
        "workload": "training",
        **rest,
    }


def team(name: str = "vision", **rest: Any) -> dict[str, Any]:
    return {"name": name, "quota": {"gpus": 1}, "priority": "training", "members": ["group:a"], **rest}


@pytest.fixture
def make_plan() -> PlanMaker:
    def make(*pools: dict[str, Any], **rest: Any) -> EnvironmentPlan:
        plan = plan_platform(environment(*pools, **rest), "test")
        assert plan.kind == "environment"
        return plan

    return make
