"""The costs of pools, teams and workloads add up, and every printed change saves the promised amount."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.capacity import report_capacity
from gpu_platform.planning.spending import Saving, Spending, savings, spending_of
from gpu_platform.stack.loaded import load_stack, plan_platform
from tests.planning.conftest import environment, pool, team

EKS = {"provider": "eks", "name": "ml", "region": "us-east-1"}
SHIPPED = ["local", "dev", "eks-training", "eks-monitoring", "gke-training", "gke-monitoring"]


def planned(platform: Mapping[str, Any]) -> EnvironmentPlan:
    plan = plan_platform(platform, "test")
    assert plan.kind == "environment"
    return plan


def spent(plan: EnvironmentPlan, measured: Mapping[str, float] | None = None) -> Spending:
    return spending_of(plan, report_capacity(plan, load_catalog(), measured=measured, seconds=1))


def savings_of(platform: Mapping[str, Any], held: Mapping[str, float] | None = None) -> tuple[Saving, ...]:
    def replan(changed: Mapping[str, Any]) -> EnvironmentPlan | None:
        try:
            return planned(changed)
        except BadInput:
            return None

    return savings(platform, planned(platform), load_catalog(), replan, held=held, seconds=2)


def adds_up(spending: Spending) -> None:
    total = sum(each.usd_per_hour for each in spending.teams)
    total += spending.unallocated_usd_per_hour + spending.without_gpus_usd_per_hour
    known = [each.usd_per_hour for each in spending.pools if each.usd_per_hour is not None]
    assert total == pytest.approx(sum(known))
    assert sum(spending.by_capacity.values()) == pytest.approx(sum(known))


@pytest.mark.parametrize("stack", SHIPPED)
def test_costs_of_teams_and_the_rest_add_up_for_shipped_stacks(stack: str) -> None:
    plan = load_stack(stack).plan
    assert plan.kind == "environment"
    spending = spent(plan)
    adds_up(spending)
    if plan.cost.unallocated_usd_per_hour is not None:
        assert spending.unallocated_usd_per_hour == pytest.approx(plan.cost.unallocated_usd_per_hour)


@settings(max_examples=20)
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=4),
    st.lists(st.sampled_from([0.5, 3.0, 100.0, None]), min_size=1, max_size=3),
    st.sampled_from([1.0, 10.0]),
)
def test_costs_of_teams_and_the_rest_add_up(
    quotas: list[int], prices: list[float | None], overcommit: float
) -> None:
    unpriced: dict[str, Any] = {"machine_type": "p5e.48xlarge"}
    of_price: list[dict[str, Any]] = [unpriced if price is None else {"usd_per_hour": price} for price in prices]
    pools = [pool(f"p{index}", count={"desired": index + 1}, **said) for index, said in enumerate(of_price)]
    teams = [team(f"t{index}", quota={"gpus": gpus}) for index, gpus in enumerate(quotas)]
    try:
        plan = planned(environment(*pools, teams=teams, overcommit=overcommit))
    except BadInput:
        return  # the quotas exceed the capacity of the pools
    adds_up(spent(plan))


def test_32_gpus_at_48_percent_waste_the_textbook_share() -> None:
    plan = planned(
        environment(
            pool(count={"desired": 4}, usd_per_hour=100.0, utilisation=0.48), teams=[team(quota={"gpus": 32})]
        )
    )
    spending = spent(plan)
    assert spending.pools[0].gpus == 32
    assert spending.usd_per_hour == pytest.approx(400)
    assert spending.idle_usd_per_hour == pytest.approx(208)
    wasted = spending.pools[0].wasted_usd_per_hour
    assert sum(value or 0 for value in wasted.values()) == pytest.approx(208)
    assert spent(plan, {"train": 0.75}).idle_usd_per_hour == pytest.approx(100)


def test_an_unknown_price_is_no_part_of_any_sum_and_never_zero() -> None:
    plan = planned(environment(pool(machine_type="p5e.48xlarge"), teams=[team()]))
    spending = spent(plan)
    assert spending.usd_per_hour is None
    assert spending.unknown == ("train",)
    assert spending.pools[0].usd_per_hour is None
    assert spending.teams[0].unknown == ("train",)


def test_a_workload_costs_its_part_of_a_node() -> None:
    platform = environment(
        pool("serve", "g6e.12xlarge", workload="inference", usd_per_hour=8.0),
        teams=[
            team(
                quota={"gpus": 4, "cpu": 40, "memory": "100Gi"},
                priority="inference",
                workloads=[
                    {
                        "name": "ranker",
                        "pool": "serve",
                        "image": "registry.example.com/ranker:1",
                        "command": ["serve"],
                        "gpus": 1,
                        "replicas": 3,
                        "cpu": 2,
                        "memory": "8Gi",
                    }
                ],
            )
        ],
    )
    (workload,) = spent(planned(platform)).workloads
    assert (workload.team, workload.workload, workload.units) == ("vision", "ranker", 3)
    assert workload.usd_per_hour == pytest.approx(6.0)


CHEAPER: dict[str, dict[str, Any]] = {
    "fewer nodes": environment(pool(count={"desired": 4}, usd_per_hour=10.0), teams=[team(quota={"gpus": 9})]),
    "shared": {
        **environment(
            pool(
                "serve",
                "g6e.12xlarge",
                workload="inference",
                count={"desired": 2},
                usd_per_hour=10.0,
                utilisation=0.3,
            ),
            teams=[team(quota={"gpus": 8}, priority="inference")],
        )
    },
    "a lower quota": environment(
        pool(count={"desired": 3}, usd_per_hour=10.0),
        teams=[
            team(
                quota={"gpus": 16, "cpu": 40, "memory": "100Gi"},
                workloads=[
                    {
                        "name": "tune",
                        "pool": "train",
                        "image": "registry.example.com/tune:1",
                        "command": ["tune"],
                        "gpus": 8,
                        "cpu": 2,
                        "memory": "8Gi",
                    }
                ],
            ),
            team("search", quota={"gpus": 8}),
        ],
    ),
    "another machine type": {
        "kind": "environment",
        "cluster": EKS,
        "pools": [
            pool("serve", "g6e.48xlarge", workload="inference", count={"min": 0, "desired": 1, "max": 4}),
        ],
        "teams": [team(quota={"gpus": 2, "cpu": 8, "memory": "32Gi"}, priority="inference")],
    },
}


@pytest.mark.parametrize("name", CHEAPER)
def test_each_change_saves_what_it_promises_when_it_is_made(name: str) -> None:
    platform = CHEAPER[name]
    before = planned(platform).cost.usd_per_hour
    assert before is not None
    found = savings_of(platform)
    assert found
    for saving in found:
        plan = planned(edited(platform, saving))
        assert plan.cost.usd_per_hour is not None
        assert before - plan.cost.usd_per_hour == pytest.approx(saving.usd_per_hour)
        assert report_capacity(plan, load_catalog(), seconds=5).desired.proof.verdict == "placed"
    amounts = [saving.usd_per_hour or 0.0 for saving in found]
    assert amounts == sorted(amounts, reverse=True)


def test_a_saving_names_fewer_nodes_shared_gpus_or_another_machine_type() -> None:
    assert "2 nodes instead of 4" in savings_of(CHEAPER["fewer nodes"])[0].what
    assert "two pods share a GPU" in savings_of(CHEAPER["shared"])[0].what
    assert any(
        "instead of 1 x g6e.48xlarge" in saving.what for saving in savings_of(CHEAPER["another machine type"])
    )


def quotas(found: tuple[Saving, ...]) -> list[tuple[str, float | None]]:
    """Return the suggested quota changes and their savings."""
    return [(one.what, one.usd_per_hour) for one in found if one.what.startswith("team ")]


def test_a_quota_beyond_what_the_declared_workloads_request_is_lowered_to_it() -> None:
    (saving,) = [one for one in savings_of(CHEAPER["a lower quota"]) if one.what.startswith("team ")]
    assert saving.what == (
        "team vision: quota of 8 GPUs instead of 16 (the requests of its workloads); pool train: 2 nodes"
    )
    assert saving.usd_per_hour == pytest.approx(10.0)
    edits = {edit.path: (edit.before, edit.after) for edit in saving.edits}
    assert edits == {"teams[0].quota.gpus": (16, 8), "pools[0].count.desired": (3, 2)}


def test_measured_use_shows_which_quota_is_too_large() -> None:
    found = quotas(savings_of(CHEAPER["a lower quota"], {"vision": 2.0, "search": 0.0}))
    assert found == [
        ("team vision: quota of 8 GPUs instead of 16 (it has held at most 2); pool train: 2 nodes", 10.0),
        ("team search: quota of 0 GPUs instead of 8 (it has held at most 0); pool train: 2 nodes", 10.0),
    ]


def test_a_quota_that_is_used_or_of_unknown_use_stays() -> None:
    assert quotas(savings_of(CHEAPER["a lower quota"], {"vision": 16.0, "search": 7.5})) == []
    assert quotas(savings_of(CHEAPER["a lower quota"], {})) == []
    assert quotas(savings_of(CHEAPER["fewer nodes"])) == []


def test_training_moves_to_cheaper_machines_with_the_same_gpu_alone() -> None:
    platform = {
        "kind": "environment",
        "cluster": EKS,
        "pools": [pool("train", "g6.16xlarge", count={"min": 0, "desired": 1, "max": 4}, zones=["us-east-1a"])],
        "teams": [team(quota={"gpus": 1, "cpu": 2, "memory": "8Gi"})],
    }
    moves = [saving.what for saving in savings_of(platform) if "instead of 1 x g6.16xlarge" in saving.what]
    assert moves
    assert all(re.search(r": \d+ x g6\.", move) for move in moves), moves


@pytest.mark.parametrize(("jobs", "is_offered"), [([True, True], True), ([True, False], False)])
def test_spot_capacity_is_for_pools_whose_training_jobs_all_have_checkpoints(
    jobs: list[bool], is_offered: bool
) -> None:
    kept = {"directory": "/checkpoints", "storage_class": "disk", "size": "10Gi"}
    job = {"pool": "train", "image": "r.example.com/t:1", "command": ["t"], "gpus": 1, "run_as_user": 1000}
    declared = [
        {**job, "name": f"job-{index}", **({"checkpoints": kept} if keeps else {})}
        for index, keeps in enumerate(jobs)
    ]
    platform = {
        "kind": "environment",
        "cluster": EKS,
        "queueing": {},
        "storage": {"disk": {"type": "disk"}},
        "pools": [pool("train", "g6.12xlarge", count={"min": 0, "desired": 1, "max": 2}, zones=["us-east-1a"])],
        "teams": [team(quota={"gpus": 4}, training_jobs=declared)],
    }
    assert any("spot capacity" in saving.what for saving in savings_of(platform)) is is_offered


def test_nodes_that_are_paid_for_in_any_case_are_left_alone() -> None:
    block = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-1a"}
    platform = {
        "kind": "environment",
        "cluster": EKS,
        "pools": [pool("train", "p5.48xlarge", count={"min": 0, "desired": 4, "max": 4}, capacity=block)],
        "teams": [team(quota={"gpus": 1})],
    }
    assert savings_of(platform) == ()


def edited(platform: Mapping[str, Any], saving: Saving) -> dict[str, Any]:
    """Make the suggested changes as a person would, at the printed paths."""
    changed: dict[str, Any] = copy.deepcopy(dict(platform))
    for edit in saving.edits:
        *parents, last = re.findall(r"[^.\[\]]+", edit.path)
        place: Any = changed
        for part in parents:
            place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
        assert place.get(last) == edit.before
        place[last] = edit.after
    return changed
