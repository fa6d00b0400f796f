"""The program refuses autoscaled GKE pools whose GPU resources the cluster autoscaler does not support."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import Problem
from tests.planning.clouds.gke.test_gke_invalid_pools import problems_of

SLICES = {"mode": "time-slicing", "replicas": 4}
INSTANCES = {"mode": "mig", "layout": {"1g.10gb": 7}}
GROW = {"min": 0, "desired": 2, "max": 10}
KEPT = {"min": 2, "desired": 2, "max": 10}
G2 = {"machine_type": "g2-standard-48", "workload": "inference", "capacity": {"type": "spot"}}
A2 = {"machine_type": "a2-ultragpu-8g", "workload": "development"}
PARTLY = {"mode": "mig", "layouts": [{"devices": [0, 1], "layout": {"1g.10gb": 7}}]}
EVERY = {"mode": "mig", "layouts": [{"devices": list(range(8)), "layout": {"3g.40gb": 2}}]}


def found(**pool: Any) -> list[Problem]:
    return problems_of(pool)


@pytest.mark.parametrize(
    ("pool", "resource"),
    [
        ({**G2, "sharing": SLICES, "count": GROW}, "nvidia.com/gpu.shared"),
        ({**G2, "sharing": SLICES, "count": KEPT}, "nvidia.com/gpu.shared"),
        ({**G2, "sharing": {"mode": "mps", "replicas": 4}, "count": GROW}, "nvidia.com/gpu.shared"),
        ({**A2, "sharing": INSTANCES, "count": GROW}, "nvidia.com/mig-1g.10gb"),
        ({**A2, "sharing": EVERY, "count": KEPT}, "nvidia.com/mig-3g.40gb"),
        (
            {**A2, "sharing": {**INSTANCES, "strategy": "single", "replicas": 2}, "count": GROW},
            "nvidia.com/gpu.shared",
        ),
    ],
)
def test_an_autoscaled_pool_without_whole_gpus_is_refused(pool: dict[str, Any], resource: str) -> None:
    (problem,) = found(**pool)
    assert problem.path == "pools[0].count"
    assert resource in problem.found
    assert "treats nodes that offer only another resource as unready" in problem.allowed
    own = {**pool, "device_plugin": "provider"}
    if pool["sharing"]["mode"] == "mps":
        own["sharing"] = {**pool["sharing"], "mode": "time-slicing"}
    assert ("device_plugin: provider" in problem.fix) == (found(**own) == [])
    assert "count: {desired: 2}" in problem.fix


@pytest.mark.parametrize("change", [{"device_plugin": "provider"}, {"count": {"desired": 2}}])
def test_what_the_refusal_proposes_is_taken(change: dict[str, Any]) -> None:
    assert found(**{**G2, "sharing": SLICES, "count": GROW, **change}) == []


@pytest.mark.parametrize(
    ("zones", "count", "fix", "taken"),
    [
        (["us-central1-a", "us-central1-b"], {"min": 0, "desired": 0, "max": 5}, "count: {desired: 6}", {}),
        (["us-central1-a", "us-central1-b"], {"min": 0, "desired": 2, "max": 5}, "count: {desired: 2}", {}),
        (
            None,
            {"min": 0, "desired": 0, "max": 5},
            "count: {desired: 5} and zones: [us-central1-a]",
            {"zones": ["us-central1-a"]},
        ),
    ],
)
def test_the_proposed_fixed_count_is_equal_in_each_zone(
    zones: list[str] | None, count: dict[str, int], fix: str, taken: dict[str, Any]
) -> None:
    shared = {**G2, "sharing": {"mode": "mps", "replicas": 4}, "zones": zones}
    (problem,) = found(**shared, count=count)
    assert problem.fix.endswith(f"or {fix}")
    number = int(fix.partition("desired: ")[2].partition("}")[0])
    assert found(**{**shared, **taken}, count={"desired": number}) == []


def test_mps_of_gke_is_refused_and_no_fix_leads_there() -> None:
    """MPS clients need hostIPC, which policies refuse for the pods of every team."""
    shared = {**G2, "sharing": {"mode": "mps", "replicas": 4}}
    (of_gke,) = found(**shared, device_plugin="provider", count=GROW)
    assert (of_gke.path, "hostIPC" in of_gke.allowed) == ("pools[0].sharing.mode", True)
    (of_operator,) = found(**shared, count=GROW)
    assert "device_plugin: provider with sharing.mode: time-slicing" in of_operator.fix
    assert found(**shared, count={"desired": 2}) == []


def test_the_fix_for_a_flex_start_pool_is_gkes_own_sharing() -> None:
    flex = {**G2, "capacity": {"type": "flex-start"}, "count": {"desired": 0, "max": 4}, "sharing": SLICES}
    (problem,) = found(**flex)
    assert "device_plugin: provider" in problem.fix
    assert "a different capacity" in problem.fix


def test_whole_gpus_next_to_instances_do_not_allow_scaling_from_zero() -> None:
    (problem,) = found(**A2, sharing=PARTLY, count=GROW)
    assert problem.path == "pools[0].count.min"
    assert "from zero nodes" in problem.allowed
    assert found(**A2, sharing=PARTLY, count={"min": 1, "desired": 2, "max": 10}) == []


@pytest.mark.parametrize(
    "sharing",
    [
        {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}},
        {"mode": "mig", "strategy": "mixed", "layout": {"1g.10gb": 7}},
        {"mode": "time-slicing", "replicas": 4, "fail_requests_greater_than_one": False},
        {"mode": "mps", "replicas": 4, "rename": True},
    ],
)
def test_gkes_own_sharing_is_no_fix_where_it_cannot_share_so(sharing: dict[str, Any]) -> None:
    (problem,) = found(**A2, sharing=sharing, count=GROW)
    assert problem.fix == "write count: {desired: 2}"
    assert found(**A2, sharing=sharing, count={"desired": 2}) == []
