"""Whether queues wait long enough for a pod's node to be created and for its model to be loaded."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team

EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}
SERVICE = {"name": "chat", "pool": "train", "image": "registry.example.com/chat:1.0"}
GROWS = {"count": {"min": 1, "desired": 1, "max": 4}, "zones": ["us-east-2a"]}
MIG = {"mode": "mig", "strategy": "single", "layout": {"1g.10gb": 7}}


def stack(timeout: str, *startups: str, **of_pool: Any) -> dict[str, Any]:
    services = [{**SERVICE, "name": f"s{index}", "startup": one} for index, one in enumerate(startups)]
    one = {**pool(), **GROWS, **of_pool}
    teams = [team(quota={"gpus": 8}, inference_services=services)]
    return environment(one, cluster=EKS, queueing={"pods_ready_timeout": timeout}, teams=teams)


def warnings(declared: dict[str, Any]) -> list[str]:
    plan = plan_platform(declared, "test")
    assert isinstance(plan, EnvironmentPlan)
    return [one.why for one in plan.decisions if one.what == "warning: waiting for nodes"]


def test_a_service_that_loads_as_long_as_queues_wait_is_refused() -> None:
    declared = stack("30m", "40m", "5m", "30m")
    with pytest.raises(BadInput) as caught:
        plan_platform(declared, "test")
    services = "teams[0].inference_services"
    assert [one.path for one in caught.value.problems] == [f"{services}[0].startup", f"{services}[2].startup"]
    (value,) = {
        re.findall(r"write queueing.pods_ready_timeout: (\w+)", one.fix)[0] for one in caught.value.problems
    }
    declared["queueing"]["pods_ready_timeout"] = value
    assert warnings(declared) == []


@pytest.mark.parametrize(
    ("timeout", "of_pool", "enough"),
    [
        ("15m", {}, "30m"),
        ("25m", {}, None),
        ("45m", {"machine_type": "p5.48xlarge", "sharing": MIG}, "1h"),
        ("15m", {"count": {"min": 0, "desired": 1, "max": 1}}, "30m"),
    ],
)
def test_the_time_of_a_new_node_counts_where_a_pool_grows(
    timeout: str, of_pool: dict[str, Any], enough: str | None
) -> None:
    declared = stack(timeout, "10m", **of_pool)
    found = warnings(declared)
    if enough is None:
        assert found == []
        return
    assert [re.findall(r"write queueing.pods_ready_timeout: (\w+)", one) for one in found] == [[enough]]
    declared["queueing"]["pods_ready_timeout"] = enough
    assert warnings(declared) == []


def test_a_new_node_later_than_queues_wait_is_warned_of_without_services() -> None:
    assert "10 min for a new node, and Kueue evicts" in warnings(stack("5m"))[0]


def test_a_new_node_of_an_existing_cluster_takes_its_time_too() -> None:
    count, teams = {"min": 0, "desired": 2, "max": 2}, [team(quota={"gpus": 8})]
    cluster = {"provider": "existing", "name": "dev", "kubernetes": "1.36"}
    one = pool(count=count, nodes={"selector": {"a": "b"}})
    queueing = {"pods_ready_timeout": "5m"}
    assert (
        "10 min for a new node" in warnings(environment(one, cluster=cluster, queueing=queueing, teams=teams))[0]
    )


def test_queues_need_not_wait_for_nodes_that_all_exist() -> None:
    teams = [team(quota={"gpus": 8}, inference_services=[SERVICE])]
    fixed = environment(pool(count={"desired": 2}), queueing={"pods_ready_timeout": "11m"}, teams=teams)
    assert warnings(fixed) == []
