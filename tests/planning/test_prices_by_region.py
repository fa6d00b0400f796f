"""Prices in the cluster's region only, and warnings about regions and zones without a machine type."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from gpu_platform.catalog import load_catalog
from gpu_platform.cli.capacity_document import capacity_document
from gpu_platform.cli.summary import Summary, show_summary
from gpu_platform.live.usage import Usage
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.capacity.quota_fit import report_capacity
from gpu_platform.planning.clouds.offerings import offering_warnings
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import PlanMaker, pool
from tests.support.racks import CLUSTERS, ULTRASERVER, rack

EKS: dict[str, Any] = {
    "provider": "eks",
    "name": "c",
    "region": "us-east-2",
    "create": {"admins": ["arn:aws:iam::123456789012:role/a"]},
}
GKE: dict[str, Any] = {"provider": "gke", "name": "c", "project": "my-project", "location": "us-central1"}


def _report(plan: EnvironmentPlan) -> dict[str, Any]:
    return capacity_document(plan, report_capacity(plan, load_catalog()))


def _prices(plan: EnvironmentPlan) -> str:
    (decision,) = [one for one in plan.decisions if one.what == "prices"]
    return decision.chosen


def _summary(plan: EnvironmentPlan) -> str:
    out = io.StringIO()
    show_summary(
        Console(file=out, width=200),
        Summary(engine="embedded", why="", usage=Usage(scheduled=0, pending=0, units={})),
        plan,
    )
    return out.getvalue()


def test_a_pool_costs_the_list_price_of_the_clusters_region(make_plan: PlanMaker) -> None:
    for region, usd in (("eu-central-1", 34.29122), ("ap-northeast-1", 37.6223), ("us-west-2", 27.44705)):
        plan = make_plan(pool(), cluster={**EKS, "region": region})
        assert plan.cost.usd_per_hour == usd
        assert _prices(plan) == f"list, on demand, {region}, 2025-11-30"


def test_the_region_of_a_zonal_gke_cluster_is_that_of_its_zone(make_plan: PlanMaker) -> None:
    plan = make_plan(pool(machine_type="g2-standard-4"), cluster={**GKE, "location": "us-west4-a"})
    assert plan.cost.usd_per_hour == pytest.approx(0.16533 + 0.63077, abs=2e-5)
    assert _prices(plan) == "list, on demand, us-west4, 2026-07-30"


def block(zone: str) -> dict[str, Any]:
    return {"capacity": {"type": "reservation", "reservation": "cr-0a1b2c3d4e5f60718", "zone": zone}}


def test_a_region_without_a_price_is_unknown_in_decision_report_and_capacity(make_plan: PlanMaker) -> None:
    plan = make_plan(
        pool(), pool("h200", "p5e.48xlarge", **block("eu-north-1a")), cluster={**EKS, "region": "eu-north-1"}
    )
    assert plan.cost.usd_per_hour is None
    assert _prices(plan) == "unknown in eu-north-1 for train, h200"
    document = _report(plan)
    assert document["cost"]["usd_per_hour"] is None
    assert document["cost"]["unknown_price"] == ["train", "h200"]
    assert document["cost"]["prices"] == "unknown in eu-north-1 for train, h200"
    for one, machine in zip(document["pools"], ("p4de.24xlarge", "p5e.48xlarge"), strict=True):
        assert one["usd_per_hour"] is None
        assert (one["price_region"], one["price_date"]) == ("eu-north-1", None)
        assert one["price_how"].startswith(f"unknown: no list price for {machine} in eu-north-1; write pools[")
    printed = _summary(plan)
    assert "cost        unknown: no list price for pools train, h200; set usd_per_hour in the pool" in printed
    assert "prices      unknown in eu-north-1 for train, h200" in printed


def test_a_declared_price_is_named_as_such_and_needs_no_region(make_plan: PlanMaker) -> None:
    plan = make_plan(pool(usd_per_hour=20), pool("b"), cluster={**EKS, "region": "eu-central-1"})
    assert plan.cost.usd_per_hour == pytest.approx(54.29122)
    wanted = "list, on demand, eu-central-1, 2025-11-30; usd_per_hour in the stack file for train"
    assert _prices(plan) == wanted
    assert Summary(engine="embedded", why="").to_json(plan, None)["cost"]["prices"] == wanted


def test_without_a_region_the_reference_region_is_named_as_reference(make_plan: PlanMaker) -> None:
    plan = make_plan(pool())
    assert _prices(plan) == "list, on demand, us-east-1 (reference), 2026-07-20"
    (one,) = _report(plan)["pools"]
    assert one["price_region"] == "us-east-1"
    assert one["price_date"] == "2026-07-20"
    assert "27.44705 USD/h on demand in us-east-1 as reference (" in one["price_how"]


def test_the_list_price_of_a_spot_pool_is_named_as_an_upper_bound(make_plan: PlanMaker) -> None:
    plan = make_plan(
        pool(machine_type="g4dn.xlarge", capacity={"type": "spot"}, workload="inference"), cluster=EKS
    )
    assert (
        "; an upper bound, because the price of spot capacity is unknown: write"
        in _report(plan)["pools"][0]["price_how"]
    )


# -- offerings ---------------------------------------------------------------------------------------------


def _warnings(plan: EnvironmentPlan) -> tuple[str, ...]:
    return offering_warnings(plan, load_catalog())


def test_a_region_without_a_machine_type_is_a_warning(
    make_plan: PlanMaker,
) -> None:
    plan = make_plan(pool(), pool("b", "p6-b200.48xlarge"), cluster={**EKS, "region": "eu-central-1"})
    assert _warnings(plan) == (
        "pools[1].machine_type: region eu-central-1 is not known to offer p6-b200.48xlarge; offered in us-east-1, "
        "us-east-2, us-gov-east-1, us-gov-west-1, us-west-2 (list of 2025-11-30; the cloud may have added "
        "regions or zones since then)",
    )


def test_a_machine_type_without_a_list_price_is_known_in_the_regions_that_offer_it(make_plan: PlanMaker) -> None:
    assert _warnings(make_plan(pool(machine_type="p5e.48xlarge", **block("us-east-2a")), cluster=EKS)) == ()
    (warning,) = _warnings(
        make_plan(pool(machine_type="p5e.48xlarge", **block("us-east-1a")), cluster={**EKS, "region": "us-east-1"})
    )
    assert "offered in ap-southeast-2, ap-southeast-3, eu-north-1, eu-west-2, us-east-2, us-west-2" in warning


def test_ultraservers_are_known_in_one_local_zone() -> None:
    def warned(zone: str) -> tuple[str, ...]:
        cluster = {**CLUSTERS["eks"], "subnets": {zone: "subnet-0a1b2c3d4e5f60718"}}
        pools = [ULTRASERVER | {"capacity": {**ULTRASERVER["capacity"], "zone": zone}}]
        plan = plan_platform(rack("eks") | {"cluster": cluster, "pools": pools}, "test")
        assert isinstance(plan, EnvironmentPlan)
        return _warnings(plan)

    assert warned("us-east-1-dfw-2a") == ()
    (warning,) = warned("us-east-1a")
    assert "in us-east-1 offered in us-east-1-dfw-2a" in warning


def test_letters_of_ec2_zones_differ_by_account_and_are_not_checked(make_plan: PlanMaker) -> None:
    assert _warnings(make_plan(pool(zones=["us-east-2c"]), cluster={**EKS, "region": "us-east-2"})) != ()
    assert _warnings(make_plan(pool(zones=["us-west-2d"]), cluster={**EKS, "region": "us-west-2"})) == ()


def test_a_zone_without_a_machine_type_is_a_warning_on_gke(
    make_plan: PlanMaker,
) -> None:
    l4 = pool(machine_type="g2-standard-4", zones=["us-central1-a", "us-central1-f"], count={"desired": 2})
    assert _warnings(make_plan(l4, cluster=GKE)) == (
        "pools[0].zones: zone us-central1-f is not known to offer g2-standard-4; in us-central1 offered in "
        "us-central1-a, us-central1-b, us-central1-c (list of 2026-11-23; the cloud may have added regions or "
        "zones since then)",
    )


def test_without_a_zone_or_cloud_there_is_no_warning(make_plan: PlanMaker) -> None:
    g4 = pool(machine_type="g4-standard-48", zones=["us-south1-c"])
    assert _warnings(make_plan(g4, cluster={**GKE, "location": "us-south1"})) == ()
    assert _warnings(make_plan(pool(machine_type="p6-b200.48xlarge"))) == ()
