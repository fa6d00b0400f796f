"""Costs of pools whose price is known, and of those whose price is not."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest
from rich.console import Console

from gpu_platform.cli.summary import Summary, cost_lines, show_summary
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.usage import Usage
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
        "cost        unknown: no list price for pools a, b; write usd_per_hour in the pool",
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


def test_where_the_pods_were_not_counted_the_waste_is_unknown_and_the_layout_planned(make_plan: PlanMaker) -> None:
    plan, refused = make_plan(pool("a")), Summary(engine="embedded", why="")

    cost = refused.to_json(plan, None)["cost"]
    assert cost["wasted_usd_per_hour"] is None
    assert cost_lines(cost)[1].startswith(
        "waste       unknown, the pods were not counted; 27.45 USD/h not allocated"
    )
    out = Console(file=io.StringIO(), width=160)
    show_summary(out, refused, plan)
    assert "planned     a: 8 x nvidia.com/gpu logical" in cast("io.StringIO", out.file).getvalue()


def test_a_price_in_the_stack_file_makes_the_cost_known(make_plan: PlanMaker) -> None:
    cost = summed_up(make_plan(pool("a", **UNPRICED, usd_per_hour=50.0)))

    assert cost_lines(cost)[0] == "cost        50.00 USD/h"
