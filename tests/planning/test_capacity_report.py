"""Textbook cases of the capacity report, the pods that represent quotas, and the causes of wasted capacity."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.capacity_document import capacity_document
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.capacity import report_capacity
from gpu_platform.planning.capacity.nodes import groups_of, node_capacities
from gpu_platform.planning.capacity.waste import CAUSES, GEOMETRY, IDLE, STRANDED, UNALLOCATED
from gpu_platform.stack.loaded import plan_platform
from tests.planning.capacity_cases import assert_placed_within
from tests.planning.conftest import PlanMaker, environment, pool, team
from tests.support.size import size

ONE_A100 = "a2-ultragpu-1g"


def _report(plan: EnvironmentPlan, **measured: float) -> dict[str, Any]:
    catalog = load_catalog()
    return capacity_document(plan, report_capacity(plan, catalog, measured=measured))


def _causes(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {cause["cause"]: cause for cause in document["waste"]["causes"]}


def test_ten_a100s_whole_cut_and_time_sliced_give_4_and_21_and_30_logical_gpus(make_plan: PlanMaker) -> None:
    plan = make_plan(
        pool("whole", ONE_A100, count={"desired": 4}),
        pool("cut", ONE_A100, count={"desired": 3}, sharing={"mode": "mig", "layout": {"1g.10gb": 7}}),
        pool("shared", ONE_A100, count={"desired": 3}, sharing={"mode": "time-slicing", "replicas": 10}),
    )
    assert _report(plan)["modes"] == [
        {"mode": "none", "physical_gpus": 4, "logical_gpus": 4},
        {"mode": "mig", "physical_gpus": 3, "logical_gpus": 21},
        {"mode": "time-slicing", "physical_gpus": 3, "logical_gpus": 30},
    ]


def _thirty_two(make_plan: PlanMaker, **rest: Any) -> EnvironmentPlan:
    gpus = pool("gpus", ONE_A100, count={"desired": 32}, usd_per_hour=3.06, **rest)
    return make_plan(gpus, teams=[team(quota={"gpus": 32})])


def test_thirty_two_gpus_at_48_percent_waste_37170_usd_a_month(
    make_plan: PlanMaker,
) -> None:
    document = _report(_thirty_two(make_plan, utilisation=0.48))
    assert document["cost"]["usd_per_month"] == 71_481.60
    assert document["effective"]["usd_per_month"] == pytest.approx(71_481.60 * 0.48, abs=0.01)
    assert document["effective"]["share"] == 0.48
    assert document["waste"]["usd_per_month"] == pytest.approx(71_481.60 * 0.52, abs=0.01)
    assert not document["waste"]["at_least"]
    assert _causes(document)[IDLE]["usd_per_month"] == document["waste"]["usd_per_month"]


def test_a_measured_utilisation_goes_before_the_declared_one_and_says_so(make_plan: PlanMaker) -> None:
    document = _report(_thirty_two(make_plan, utilisation=0.48), gpus=0.75)
    assert document["pools"][0]["utilisation"] == 0.75
    assert document["pools"][0]["utilisation_how"] == "measured"
    assert document["effective"]["share"] == 0.75


def test_without_utilisation_the_effective_part_is_unknown_not_zero(
    make_plan: PlanMaker,
) -> None:
    document = _report(_thirty_two(make_plan))
    assert document["effective"]["usd_per_hour"] is None
    assert document["effective"]["unknown"] == ["gpus"]
    assert _causes(document)[IDLE]["gpus"] is None
    assert document["waste"]["at_least"]


def test_a_price_that_is_unknown_is_never_zero(make_plan: PlanMaker) -> None:
    document = _report(make_plan(pool(machine_type="dgx-a100-640gb", utilisation=0.5), teams=[team()]))
    assert document["cost"]["usd_per_hour"] is None
    assert document["cost"]["usd_per_month"] is None
    assert document["cost"]["unknown_price"] == ["train"]
    assert document["waste"]["usd_per_hour"] is None
    assert "write pools[0].usd_per_hour" in document["pools"][0]["price_how"]


def test_a_pool_price_has_precedence_and_each_price_has_a_source(
    make_plan: PlanMaker,
) -> None:
    listed = _report(make_plan(pool()))["pools"][0]
    own = _report(make_plan(pool(usd_per_hour=20)))["pools"][0]
    assert listed["usd_per_hour"] == 27.44705
    assert "Karpenter" in listed["price_how"]
    assert own["usd_per_hour"] == 20
    assert own["price_how"] == "1 node x 20.0 USD/h of pools[0].usd_per_hour"


def test_a_pod_that_takes_the_cpu_of_a_node_strands_its_other_gpus(make_plan: PlanMaker) -> None:
    hungry = {"name": "hungry", "pool": "train", "gpus": 1, "cpu": 95}
    wanting = {"name": "wanting", "pool": "train", "gpus": 1, "cpu": 11}
    plan = make_plan(
        pool(count={"desired": 2}), teams=[team(quota={"gpus": 2, "cpu": 106}, workloads=[hungry, wanting])]
    )
    document = _report(plan)
    assert document["quotas"]["verdict"] == "placed"
    assert _causes(document)[STRANDED]["gpus"] == 7
    assert _causes(document)[UNALLOCATED]["gpus"] == 7


def test_instances_of_all_kinds_share_the_nodes_memory(make_plan: PlanMaker) -> None:
    # A pod with 60Gi leaves about 100Gi, enough for the large instance or one more such pod, but not for both.
    cut = pool("cut", ONE_A100, sharing={"mode": "mig", "layout": {"3g.40gb": 1, "1g.10gb": 4}})
    hungry = {"name": "hungry", "pool": "cut", "profile": "1g.10gb", "memory": "60Gi"}
    quota = {"mig": {"1g.10gb": 1}, "memory": "60Gi"}
    causes = _causes(_report(make_plan(cut, teams=[team(quota=quota, workloads=[hungry])])))
    assert causes[STRANDED]["gpus"] == pytest.approx(3 / 8)
    assert causes[UNALLOCATED]["gpus"] == pytest.approx(4 / 8)


@pytest.mark.parametrize(
    ("layout", "gpus"),
    [({"3g.40gb": 2}, 8 / 7), ({"1g.10gb": 7}, 0), ({"4g.40gb": 1, "3g.40gb": 1}, 0), ({"1g.20gb": 4}, 24 / 7)],
)
def test_compute_slices_that_no_instance_has_are_the_geometry_remainder(
    make_plan: PlanMaker, layout: dict[str, int], gpus: float
) -> None:
    document = _report(make_plan(pool("cut", sharing={"mode": "mig", "layout": layout})))
    causes = _causes(document)
    assert causes[GEOMETRY]["gpus"] == pytest.approx(gpus, abs=1e-3)
    assert causes[UNALLOCATED]["gpus"] == pytest.approx(8 - gpus, abs=1e-3)


def test_gpus_promised_above_capacity_are_not_waste(
    make_plan: PlanMaker,
) -> None:
    plan = make_plan(
        pool(utilisation=1), teams=[team("a", quota={"gpus": 8}), team("b", quota={"gpus": 4})], overcommit=1.5
    )
    document = _report(plan)
    over = document["oversubscription"]["resources"]
    assert [(one["asked"], one["offered"], one["gpus"]) for one in over] == [(12, 8, 4)]
    assert over[0]["usd_per_hour"] == pytest.approx(27.44705 / 2, abs=1e-4)
    assert document["waste"]["usd_per_hour"] == 0
    assert document["quotas"]["verdict"] == "impossible"
    assert document["quotas"]["desired"]["conflict"]["teams"] == ["a", "b"]


def test_quotas_that_need_autoscaling_are_placed_at_the_maximum() -> None:
    cluster = {"provider": "existing", "kubernetes": "1.34"}
    train = pool(count={"desired": 1, "max": 2}, nodes={"selector": {"group": "gpu"}})
    plan = plan_platform(environment(train, cluster=cluster, teams=[team(quota={"gpus": 12})]), "test")
    assert plan.kind == "environment"
    quotas = _report(plan)["quotas"]
    assert (quotas["desired"]["verdict"], quotas["most"]["verdict"]) == ("impossible", "placed")
    assert (quotas["verdict"], quotas["at"]) == ("placed", "most nodes")


def test_quotas_fit_an_autoscaled_pool_of_the_sandbox_at_its_most_nodes(make_plan: PlanMaker) -> None:
    plan = make_plan(pool(count={"desired": 1, "max": 2}), teams=[team(quota={"gpus": 12})])
    quotas = _report(plan)["quotas"]
    assert (quotas["verdict"], quotas["at"]) == ("placed", "most nodes")


def test_existing_nodes_given_by_name_stay_as_many_as_they_are() -> None:
    cluster = {"provider": "existing", "kubernetes": "1.34"}
    train = pool(count={"desired": 1, "max": 2}, nodes={"names": ["gpu-0"]})
    plan = plan_platform(environment(train, cluster=cluster, teams=[team(quota={"gpus": 12})]), "test")
    assert plan.kind == "environment"
    quotas = _report(plan)["quotas"]
    assert quotas["most"] is None
    assert quotas["verdict"] == "impossible"


def test_a_quota_counts_as_its_workloads_and_single_gpu_pods(
    make_plan: PlanMaker,
) -> None:
    big = {"name": "big", "pool": "train", "gpus": 4, "cpu": 20, "memory": "100Gi"}
    plan = make_plan(pool(), teams=[team(quota={"gpus": 8, "cpu": 40, "memory": "500Gi"}, workloads=[big])])
    declared, open_ones = groups_of(plan, load_catalog())
    assert (declared.name, declared.units, declared.count) == ("big", 4, 1)
    assert (open_ones.name, open_ones.units, open_ones.count) == ("quota", 1, 4)
    assert open_ones.needs["train"] == (5000, 100 * 1024)


def test_gpus_for_training_are_not_those_of_nodes_for_inference(make_plan: PlanMaker) -> None:
    small = pool("serve", "g4dn.xlarge", workload="inference", count={"desired": 8})
    plan = make_plan(pool(), small, teams=[team(quota={"gpus": 16})])
    document = _report(plan)
    assert document["quotas"]["verdict"] == "impossible"
    assert document["quotas"]["desired"]["conflict"]["teams"] == ["vision"]


@pytest.mark.parametrize(
    ("pools", "priority"),
    [
        ([pool("serve", workload="inference")], "training"),
        ([pool("lab", workload="development")], "training"),
        ([pool("train"), pool("serve", "g4dn.xlarge", workload="inference")], "inference"),
    ],
    ids=["no-pool-for-its-work", "nodes-for-anything", "a-class-that-may-use-both"],
)
def test_a_quota_is_used_on_nodes_that_its_team_may_use(
    make_plan: PlanMaker, pools: list[dict[str, Any]], priority: str
) -> None:
    gpus = 8 + (len(pools) - 1)
    plan = make_plan(*pools, teams=[team(quota={"gpus": gpus}, priority=priority)])
    assert _report(plan)["quotas"]["verdict"] == "placed"


def test_cpu_quota_beyond_the_nodes_requests_the_gpus_share_of_the_node(make_plan: PlanMaker) -> None:
    plan = make_plan(pool(), teams=[team(quota={"gpus": 8, "cpu": 5000})])
    (group,) = groups_of(plan, load_catalog())
    assert group.needs["train"].cpu_millicores == (plan.pools[0].cpu_millicores - 50) // 8, (
        "the node agent requests 50m"
    )
    assert group.needs["train"].memory_mib == 1024, (
        "the default request applies because the quota does not limit memory"
    )


def test_pods_of_exactly_the_allocatable_cpu_leave_no_room_for_the_node_agent(make_plan: PlanMaker) -> None:
    (whole,) = make_plan(pool()).pools
    full = {"name": "full", "pool": "train", "gpus": 1, "cpu": f"{whole.cpu_millicores}m", "memory": "1Gi"}
    with pytest.raises(BadInput, match=r"because DaemonSets leave no more \w+ on one p4de\.24xlarge"):
        make_plan(pool(), teams=[team(workloads=[full])])


def test_quotas_of_cpu_that_no_node_can_give_are_named_with_their_teams(make_plan: PlanMaker) -> None:
    small, large = team(quota={"gpus": 1, "cpu": 10}), team("search", quota={"gpus": 1, "cpu": 100_000})
    plan = make_plan(pool(), teams=[small, large])
    document = capacity_document(plan, report_capacity(plan, load_catalog()))
    cpu = document["compute"][0]
    assert cpu["allocated"] > cpu["offered_most"]
    assert cpu["unreachable"] == [plan.teams[1].namespace]


def test_more_shares_than_the_kubelet_runs_pods_do_not_fit_one_node(make_plan: PlanMaker) -> None:
    shared = pool(workload="development", sharing={"mode": "time-slicing", "replicas": 20})
    small = {"name": "small", "pool": "train", "replicas": 109, "gpus": 1, "cpu": "10m", "memory": "8Mi"}
    quota = {"gpus": 0, "shared": 110}
    for replicas, verdict in ((109, "placed"), (110, "impossible")):
        workloads = [{**small, "replicas": replicas}]
        exact = {**quota, "shared": replicas}
        plan = make_plan(shared, teams=[team(quota=exact, workloads=workloads)])
        fit = report_capacity(plan, load_catalog()).desired
        assert fit.proof.verdict == verdict
        lacking = fit.conflict.lacking if fit.conflict is not None else ()
        assert lacking == (
            () if verdict == "placed" else ("pods per node: the kubelet's limit minus the DaemonSet pods",)
        )


@settings(max_examples=size(25, 600))
@given(
    gpus=st.integers(0, 16),
    shares=st.integers(0, 16),
    instances=st.integers(0, 14),
    cpu=st.integers(1, 400),
    utilisation=st.floats(0, 1),
)
def test_every_split_adds_up_to_the_gpus_that_are_paid_for_and_no_node_is_overfilled(
    gpus: int, shares: int, instances: int, cpu: int, utilisation: float
) -> None:
    quota = {"gpus": gpus, "shared": shares, "mig": {"2g.20gb": instances}, "cpu": cpu}
    pools = [
        pool(count={"desired": 2}, utilisation=utilisation),
        pool(
            "serve", "g4dn.xlarge", count={"desired": 4}, sharing={"mode": "mps", "replicas": 4}, utilisation=0.3
        ),
        pool("cut", sharing={"mode": "mig", "layout": {"2g.20gb": 3}}, utilisation=1),
    ]
    plan = plan_platform(environment(*pools, teams=[team(quota=quota)], overcommit=2), "test")
    assert plan.kind == "environment"
    report = report_capacity(plan, load_catalog())
    for use in report.uses:
        wasted = [use.wasted[cause] for cause in CAUSES]
        assert all(one is not None and one >= -1e-9 for one in wasted)
        assert sum(one or 0 for one in wasted) + (use.effective or 0) == pytest.approx(use.gpus)
    if report.desired.proof.verdict == "placed":
        assert_placed_within(
            node_capacities(plan.pools, load_catalog()), groups_of(plan, load_catalog()), report.desired.proof.pods
        )


def test_every_figure_says_how_it_was_computed(make_plan: PlanMaker) -> None:
    document = _report(make_plan(pool(), teams=[team()]))
    for part in ("quotas", "cost", "effective", "waste", "oversubscription"):
        assert document[part]["how"]
    assert all(cause["how"] for cause in document["waste"]["causes"])
    assert all(one["logical_how"] and one["price_how"] and one["utilisation_how"] for one in document["pools"])


def test_time_sliced_instances_are_placed_and_counted_as_parts_of_their_gpu(make_plan: PlanMaker) -> None:
    cut = pool("cut", ONE_A100, sharing={"mode": "mig", "layout": {"3g.40gb": 2}, "replicas": 2}, utilisation=0.5)
    plan = make_plan(cut)
    document = _report(plan)
    assert document["pools"][0]["logical_gpus"] == {"nvidia.com/mig-3g.40gb.shared": 4}
    causes = _causes(document)
    assert causes[GEOMETRY]["gpus"] == pytest.approx(1 / 7, abs=1e-3)
    assert causes[UNALLOCATED]["gpus"] == pytest.approx(0.5 - 1 / 7, abs=1e-3)


def test_a_quota_by_pool_is_placed_on_the_declared_pool(make_plan: PlanMaker) -> None:
    pools = (pool(count={"desired": 2}), pool("serve", count={"desired": 2}, workload="inference"))
    service = {"name": "chat", "pool": "serve", "gpus": 4, "replicas": 2}
    teams = [team(quota={"gpus": {"train": 16, "serve": 16}}, workloads=[service])]
    plan = make_plan(*pools, queueing={}, teams=teams)
    placed = {(one.name, tuple(one.needs)): one.count * one.units for one in groups_of(plan, load_catalog())}
    assert placed == {("chat", ("serve",)): 8, ("quota", ("train",)): 16, ("quota", ("serve",)): 8}
    assert report_capacity(plan, load_catalog()).desired.proof.verdict == "placed"


def test_a_queue_quota_on_one_pool_uses_no_free_nodes_of_another(
    make_plan: PlanMaker,
) -> None:
    pools = (pool(count={"desired": 1}), pool("more", count={"desired": 0, "max": 2}))
    plan = make_plan(*pools, queueing={}, teams=[team(quota={"gpus": {"more": 8}})])
    report = report_capacity(plan, load_catalog())
    assert report.desired.proof.verdict == "impossible"
    assert report.most is not None
    assert report.most.proof.verdict == "placed"
