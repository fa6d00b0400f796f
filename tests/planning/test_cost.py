"""Costs of pools with a known price and with an unknown price."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest
from rich.console import Console

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.summary import Summary, cost_lines, show_summary
from gpu_platform.live.usage import Usage
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.spending.report import TeamSpending
from tests.planning.conftest import PlanMaker, pool

UNPRICED: dict[str, Any] = {"machine_type": "p5e.48xlarge"}


def summed_up(plan: EnvironmentPlan) -> dict[str, Any]:
    nothing_runs = Usage(scheduled=0, pending=0, units={})
    return Summary(engine="embedded", why="", usage=nothing_runs).to_json(plan, None)["cost"]


def test_the_cost_of_pools_without_a_price_is_unknown_and_not_zero(make_plan: PlanMaker) -> None:
    plan = make_plan(pool("a", **UNPRICED), pool("b", **UNPRICED))

    assert plan.cost.usd_per_hour is None
    assert plan.cost.unallocated_usd_per_hour is None
    cost = summed_up(plan)
    assert cost == {
        "usd_per_hour": None,
        "wasted_usd_per_hour": None,
        "unallocated_usd_per_hour": None,
        "unknown_price": ["a", "b"],
        "prices": "unknown for a, b",
    }
    assert cost_lines(cost) == (
        "cost        unknown: no list price for pools a, b; set usd_per_hour in the pool",
        "waste       unknown",
        "prices      unknown for a, b",
    )


def test_a_pool_without_a_price_is_named_beside_the_cost_of_the_others(make_plan: PlanMaker) -> None:
    cost = summed_up(make_plan(pool("known"), pool("a", **UNPRICED), pool("b", **UNPRICED)))

    assert cost["usd_per_hour"] == pytest.approx(27.4471, abs=1e-3)
    assert cost_lines(cost) == (
        "cost        27.45 USD/h and the unknown price of pools a, b",
        "waste       27.45 USD/h (100%) not used by any pod; 27.45 USD/h not allocated to any team; "
        "without pools a, b",
        "prices      list, on demand, us-east-1 (reference), 2026-07-20; unknown for a, b",
    )


def test_without_a_pod_count_waste_is_unknown(make_plan: PlanMaker) -> None:
    plan, refused = make_plan(pool("a")), Summary(engine="embedded", why="")

    cost = refused.to_json(plan, None)["cost"]
    assert cost["wasted_usd_per_hour"] is None
    assert cost_lines(cost)[1].startswith(
        "waste       unknown, because the pods were not counted; 27.45 USD/h not allocated"
    )
    out = Console(file=io.StringIO(), width=160)
    show_summary(out, refused, plan)
    assert "planned     a: 8 x nvidia.com/gpu logical" in cast("io.StringIO", out.file).getvalue()


def test_a_price_in_the_stack_file_makes_the_cost_known(make_plan: PlanMaker) -> None:
    plan = make_plan(pool("a", **UNPRICED, usd_per_hour=50.0), pool("b"))
    assert plan.cost.declared == ("a",)

    cost = summed_up(make_plan(pool("a", **UNPRICED, usd_per_hour=50.0)))

    assert cost_lines(cost)[0] == "cost        50.00 USD/h"


# -- the maximum cost of a stack --------------------------------------------------------------------------------

EKS = {"provider": "eks", "name": "ml", "region": "us-east-2"}
SERVE: dict[str, Any] = {
    "machine_type": "g6e.4xlarge",
    "count": {"min": 0, "desired": 1, "max": 8},
    "workload": "inference",
}
ZONES: dict[str, Any] = {"zones": ["us-east-2a"]}


def usd(machine_type: str) -> float:
    price = load_catalog().price(load_catalog().machine_types[machine_type], "us-east-2")
    assert price is not None
    return price.usd_per_hour


def test_a_budget_below_a_month_of_desired_nodes_is_refused(make_plan: PlanMaker) -> None:
    serve = pool("serve", count={"desired": 2}, usd_per_hour=1.5)
    plan = make_plan(pool("train", usd_per_hour=20), serve, budget={"usd_per_month": 16_790})
    assert plan.cost.usd_per_hour == 23
    with pytest.raises(BadInput) as caught:
        make_plan(pool("train", usd_per_hour=20), serve, budget={"usd_per_month": 16_789})
    (problem,) = caught.value.problems
    assert problem.path == "budget.usd_per_month"
    assert problem.found == "16789, but the desired nodes cost 16790 USD a month: train 14600, serve 2190"


def test_a_budget_that_holds_is_shown_with_what_it_has(make_plan: PlanMaker) -> None:
    plan = make_plan(pool("train", usd_per_hour=20), budget={"usd_per_month": 20_000})
    (shown,) = [one.chosen for one in plan.decisions if one.what == "budget"]
    assert shown == "14,600 of 20,000 USD a month"


def test_pools_that_a_budget_leaves_out_are_named(make_plan: PlanMaker) -> None:
    unpriced = pool("arm", "c7g.4xlarge", workload="general", zones=["us-west-2a"])

    def said(one: dict[str, Any], **rest: Any) -> list[str]:
        plan = make_plan(one, cluster={**EKS, "region": "us-west-2"}, **rest)
        return [decision.chosen for decision in plan.decisions if decision.what == "warning: budget"]

    assert said(unpriced, budget={"usd_per_month": 100}) == ["without pool arm"]
    assert said(unpriced) == []
    assert said({**unpriced, "usd_per_hour": 0.1}, budget={"usd_per_month": 100}) == []


def test_the_highest_cost_counts_the_most_nodes_and_those_that_a_roll_adds(make_plan: PlanMaker) -> None:
    plan = make_plan(pool("serve", **SERVE, **ZONES), cluster=EKS)
    assert plan.cost.usd_per_hour == pytest.approx(usd("g6e.4xlarge"))
    assert plan.cost.most_usd_per_hour == pytest.approx((8 + 2) * usd("g6e.4xlarge"))


def test_the_highest_cost_counts_the_dearest_alternative(make_plan: PlanMaker) -> None:
    capacity: dict[str, Any] = {"type": "spot", "alternatives": ["g6e.16xlarge", "g6e.2xlarge"]}
    plan = make_plan(pool("serve", **SERVE, **ZONES, capacity=capacity), cluster=EKS)
    assert plan.cost.most_usd_per_hour == pytest.approx((8 + 2) * usd("g6e.16xlarge"))
    (said,) = [one for one in plan.decisions if one.what == "highest cost"]
    assert said.chosen == f"{10 * usd('g6e.16xlarge'):.2f} USD/h"
    assert "serve 10" in said.why


@pytest.mark.parametrize(
    ("workload", "most", "nodes"),
    [
        ("inference", 8, 9),
        ("inference", 10, 12),  # 10% of 10 nodes is 1, and 10% of the resulting 11 nodes is 2 (rounded up)
        ("development", 30, 34),
        ("training", 8, 8),  # drifted training nodes are removed when they are empty
    ],
)
def test_the_highest_cost_includes_nodes_that_karpenter_adds_for_a_roll(
    make_plan: PlanMaker, workload: str, most: int, nodes: int
) -> None:
    count = {"desired": 0, "max": most}
    by_karpenter: dict[str, Any] = {**SERVE, "workload": workload, "count": count, "provisioner": "karpenter"}
    capacity = {"type": "on-demand", "alternatives": ["g6e.16xlarge"]}
    plan = make_plan(pool("serve", **by_karpenter, capacity=capacity), cluster=EKS)
    assert plan.cost.most_usd_per_hour == pytest.approx(nodes * usd("g6e.16xlarge"))


def test_the_highest_cost_is_unknown_if_a_price_is_unknown(make_plan: PlanMaker) -> None:
    assert make_plan(pool("known"), pool("a", **UNPRICED)).cost.most_usd_per_hour is None


def test_a_price_in_the_stack_file_is_that_of_every_node(make_plan: PlanMaker) -> None:
    plan = make_plan(pool("serve", **SERVE, **ZONES, usd_per_hour=2.0), cluster=EKS)
    assert plan.cost.most_usd_per_hour == pytest.approx(20.0)


def test_costs_add_up_to_the_same_number_in_every_python(make_plan: PlanMaker) -> None:
    # From Python 3.12 on, sum() corrects rounding errors; in 3.11, the result here would be 0.9999999999999999.
    plan = make_plan(*(pool(f"p{i}", **UNPRICED, usd_per_hour=0.1, count={"desired": 1}) for i in range(10)))

    assert plan.cost.usd_per_hour == plan.cost.most_usd_per_hour == 1.0


def test_the_pools_of_a_team_add_up_to_the_same_number_in_every_python() -> None:
    spending = TeamSpending(team="vision", by_pool={f"p{i}": 0.1 for i in range(10)}, unknown=())

    assert spending.usd_per_hour == 1.0
