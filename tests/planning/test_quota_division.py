"""The division of a team's quota among pools, so that the team's workloads can start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan, TeamStackPlan
from gpu_platform.planning.queues.section import QueuesPlan
from gpu_platform.stack.loaded import load_stack, plan_platform
from tests.planning.conftest import PlanMaker, environment, pool, team
from tests.planning.kueue_quotas import Quotas
from tests.support.size import size

GPU = "nvidia.com/gpu"


def queues_of(plan: EnvironmentPlan) -> QueuesPlan:
    assert plan.queues is not None
    return plan.queues


def quota_by_pool(plan: EnvironmentPlan, name: str, resource: str = GPU) -> Mapping[str, int]:
    """Return the nominal quota of a team in each pool where it has quota."""
    (queue,) = [one for one in queues_of(plan).teams if one.namespace == name]
    return {
        flavor.pool: int(limit.nominal)
        for flavor in queue.flavors
        for limit in flavor.limits
        if flavor.pool is not None and limit.resource == resource and limit.nominal != "0"
    }


def train(name: str = "train", nodes: int = 2, **rest: Any) -> dict[str, Any]:
    return pool(name, count={"desired": nodes}, **rest)


def single(name: str = "develop", most: int = 8, **rest: Any) -> dict[str, Any]:
    return pool(name, "g6.4xlarge", count={"desired": 0, "max": most}, workload="development", **rest)


def training_job(pool_name: str, replicas: int, gpus: int = 8, name: str = "pretrain") -> dict[str, Any]:
    image = "registry.example.com/pretrain:2.1"
    return {
        "name": name, "pool": pool_name, "image": image, "command": ["train"], "replicas": replicas, "gpus": gpus,
    }  # fmt: skip


def test_quota_is_put_on_fixed_nodes_before_autoscaled_nodes() -> None:
    eks = {"provider": "eks", "name": "prod", "region": "us-east-2"}
    ranged = pool("ranged", count={"min": 0, "desired": 2, "max": 2}, zones=["us-east-2a"])
    teams = [team(quota={"gpus": 8})]
    stack = environment(ranged, train("fixed", zones=["us-east-2a"]), cluster=eks, queueing={}, teams=teams)
    plan = plan_platform(stack, "test")
    assert plan.kind == "environment"
    assert quota_by_pool(plan, "vision") == {"fixed": 8}


def test_quotas_of_the_shipped_training_stack_are_whole_nodes_for_the_teams_purpose() -> None:
    plan = load_stack("eks-training").plan
    assert plan.kind == "environment"
    assert quota_by_pool(plan, "vision") == {"train": 32}
    assert quota_by_pool(plan, "assistants") == {"develop": 8}


def test_a_team_gets_pools_for_its_purpose_first(make_plan: PlanMaker) -> None:
    teams = [team("serving", priority="inference", quota={"gpus": 8}), team("vision", quota={"gpus": 16})]
    serve = train("serve", 1, workload="inference")
    for pools in ([train(), serve], [serve, train()]):
        plan = make_plan(*pools, queueing={}, teams=teams)
        assert (quota_by_pool(plan, "serving"), quota_by_pool(plan, "vision")) == ({"serve": 8}, {"train": 16})


def test_existing_nodes_are_given_before_nodes_of_an_autoscaler(make_plan: PlanMaker) -> None:
    grows = pool("burst", count={"desired": 0, "max": 4})
    plan = make_plan(grows, train(), queueing={}, teams=[team(quota={"gpus": 16})])
    assert quota_by_pool(plan, "vision") == {"train": 16}


def test_a_quota_over_two_pools_is_in_whole_nodes(make_plan: PlanMaker) -> None:
    grows = pool("burst", count={"desired": 0, "max": 2})
    teams = [team("vision", quota={"gpus": 20}), team("search", quota={"gpus": 4})]
    plan = make_plan(train(), grows, queueing={}, teams=teams)
    assert quota_by_pool(plan, "vision") == {"train": 16, "burst": 4}
    assert quota_by_pool(plan, "search") == {"burst": 4}


def test_a_large_quota_is_not_cut_by_a_small_one_that_fits_elsewhere(make_plan: PlanMaker) -> None:
    teams = [team("small", quota={"gpus": 16}), team("large", quota={"gpus": 32})]
    plan = make_plan(train(nodes=4), train("other"), queueing={}, teams=teams)
    assert (quota_by_pool(plan, "small"), quota_by_pool(plan, "large")) == ({"other": 16}, {"train": 32})


def test_quotas_that_fit_a_pool_each_are_not_divided(make_plan: PlanMaker) -> None:
    grows = pool("burst", count={"desired": 0, "max": 4})
    teams = [team("vision", quota={"gpus": 32}), team("search", quota={"gpus": 8})]
    plan = make_plan(train(nodes=1), grows, queueing={}, teams=teams)
    assert (quota_by_pool(plan, "vision"), quota_by_pool(plan, "search")) == ({"burst": 32}, {"train": 8})
    three = [team("big", quota={"gpus": 24}), team("mid", quota={"gpus": 16}), team("low", quota={"gpus": 16})]
    plan = make_plan(train(nodes=4), train("other", 3), queueing={}, teams=three)
    assert [quota_by_pool(plan, one["name"]) for one in three] == [{"other": 24}, {"train": 16}, {"train": 16}]


def test_whole_gpus_come_before_instances_of_the_same_resource(make_plan: PlanMaker) -> None:
    single = {"mode": "mig", "strategy": "single", "layout": {"1g.10gb": 7}}
    slices = pool("slices", sharing=single, count={"desired": 1})
    plan = make_plan(slices, train(), queueing={}, teams=[team(quota={"gpus": 16})])
    assert quota_by_pool(plan, "vision") == {"train": 16}


def test_a_team_stack_gets_its_quota_of_a_reserve_on_some_of_the_pools(tmp_path: Path) -> None:
    above = environment(
        train(), train("other"), queueing={"reserve": {"gpus": 4}}, teams=[team(quota={"gpus": 8})]
    )
    (queue,) = team_stack(tmp_path, above, {"gpus": 4}).queues
    assert sum(int(one.nominal) for flavor in queue.flavors for one in flavor.limits if one.resource == GPU) == 4


@pytest.mark.parametrize(
    ("own", "place", "fix"),
    [
        (
            8,
            "team.quota.gpus",
            "write queueing: {reserve: {gpus: 6}} in the environment, and deploy the environment first",
        ),
        (
            12,
            "team.quota.gpus",
            "write queueing: {reserve: {gpus: 6}} in the environment, lower its teams' quotas by 2 in total, and "
            "deploy the environment first",
        ),
    ],
)
def test_a_reserve_that_the_environment_has_no_gpus_for_is_not_advised(
    tmp_path: Path, own: int, place: str, fix: str
) -> None:
    above = environment(train(), queueing={"reserve": {"gpus": 2}}, teams=[team(quota={"gpus": own})])
    with pytest.raises(BadInput) as caught:
        team_stack(tmp_path, above, {"gpus": 6})
    assert [(one.path, one.fix) for one in caught.value.problems] == [(place, fix)]


def test_no_reserve_is_advised_of_instances_that_no_pool_offers(tmp_path: Path) -> None:
    above = environment(train(), queueing={"reserve": {"gpus": 2}}, teams=[team(quota={"gpus": 8})])
    with pytest.raises(BadInput) as caught:
        team_stack(tmp_path, above, {"mig": {"2g.20gb": 1}})
    assert not [one for one in caught.value.problems if "reserve" in one.fix]
    assert len(caught.value.problems) == 1


def test_quota_goes_where_the_declared_work_of_a_team_runs(make_plan: PlanMaker) -> None:
    teams = [
        team("search", quota={"gpus": 16}),
        team("vision", quota={"gpus": 16}, training_jobs=[training_job("train", 2)]),
    ]
    plan = make_plan(train(), train("other"), queueing={}, teams=teams)
    assert (quota_by_pool(plan, "search"), quota_by_pool(plan, "vision")) == ({"other": 16}, {"train": 16})


def test_a_quota_by_pool_is_the_one_of_the_file(make_plan: PlanMaker) -> None:
    quota = {"gpus": {"a100": 8, "train": 8}}
    plan = make_plan(train(), train("a100"), queueing={}, teams=[team(quota=quota)])
    assert quota_by_pool(plan, "vision") == {"train": 8, "a100": 8}
    assert plan.teams[0].quota[f"requests.{GPU}"] == "16"


@pytest.mark.parametrize(
    ("declared", "place", "words"),
    [
        ({"teams": [team(quota={"gpus": {"trian": 8}})]}, "teams[0].quota.gpus.trian", "did you mean 'train'?"),
        ({"teams": [team(quota={"gpus": {"train": 24}})]}, "teams[0].quota.gpus.train", "at most 16"),
        ({"teams": [team(quota={"gpus": {"train": -1}})]}, "teams[0].quota.gpus.train", "0 or more"),
        ({"teams": [team(quota={"gpus": {}})]}, "teams[0].quota.gpus", "units by pool such as gpus: {train: 8}"),
        ({"queueing": {"reserve": 8}}, "queueing.reserve", "for example, write reserve: {gpus: 8}"),
        ({"teams": [team(quota={"gpus": "eight"})]}, "teams[0].quota.gpus", "write a number"),
        (
            {"teams": [team("a", quota={"gpus": {"train": 16}}), team("b", quota={"gpus": {"train": 8}})]},
            "teams[0].quota.gpus.train",
            "24 nvidia.com/gpu on pool train in all quotas",
        ),
        (
            {"queueing": {"reserve": {"gpus": 32}}, "teams": [team()]},
            "queueing.reserve.gpus",
            "vision 1, reserve 32",
        ),
        (
            {"queueing": None, "teams": [team(quota={"gpus": {"train": 8}})]},
            "teams[0].quota.gpus",
            "write 8, or add queueing",
        ),
    ],
)
def test_units_by_pool_that_no_pool_has_are_refused(
    make_plan: PlanMaker, declared: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(BadInput) as refused:
        make_plan(train(), train("other", 1), **{"queueing": {}, **declared})
    assert [problem.path for problem in refused.value.problems] == [place]
    assert words in str(refused.value.problems[0])


def test_what_no_quota_covers_is_lent_by_the_cohort(make_plan: PlanMaker) -> None:
    plan = make_plan(train("h100"), train("a100"), queueing={}, teams=[team(quota={"gpus": 16})])
    (cohort,) = queues_of(plan).cohorts
    (flavor,) = cohort.flavors
    assert (flavor.split("-")[0], cohort.flavors[flavor][GPU]) == ("a100", "16")
    (queue,) = queues_of(plan).teams
    borrowed = {one.pool: limit.borrow for one in queue.flavors for limit in one.limits if limit.resource == GPU}
    assert borrowed == {None: "0", "h100": "0", "a100": "16"}


def test_cpu_and_memory_of_a_pool_are_divided_without_a_rest(make_plan: PlanMaker) -> None:
    teams = [team("a", quota={"gpus": 3}), team("b", quota={"gpus": 5})]
    plan = make_plan(train(), queueing={}, teams=teams)
    whole = make_plan(train(), queueing={}, teams=[team(quota={"gpus": 16})])
    cell = queues_of(plan).teams[0].flavors[1].flavor
    for resource in ("cpu", "memory", GPU):
        assert Quotas(queues_of(plan)).total((cell, resource)) == Quotas(queues_of(whole)).total((cell, resource))


def test_the_same_gpu_is_not_lent_as_two_device_classes(make_plan: PlanMaker) -> None:
    plan = make_plan(
        pool(sharing={"mode": "dra"}),
        queueing={},
        device_classes={"large": {"memory": "40Gi"}},
        teams=[team(quota={"devices": {"large": 3}})],
    )
    (amounts,) = queues_of(plan).cohorts[0].flavors.values()
    assert sum(int(amounts[name]) for name in ("gpu.nvidia.com", "large")) == 5


def test_each_cohort_lends_a_part_of_what_no_quota_covers(make_plan: PlanMaker) -> None:
    teams = [team("a", quota={"gpus": 8}, queue={"cohort": "one"}), team("b", quota={"gpus": 8})]
    plan = make_plan(train(nodes=5), queueing={}, teams=teams)
    lent = {one.name: [int(amounts[GPU]) for amounts in one.flavors.values()] for one in queues_of(plan).cohorts}
    assert lent == {"one": [8], "teams": [16]}


def lent_by_cohort(plan: EnvironmentPlan) -> dict[str, dict[str, int]]:
    """Return the number of GPUs that each cohort lends, by pool."""
    return {
        one.name: {flavor.rpartition("-")[0]: int(amounts[GPU]) for flavor, amounts in one.flavors.items()}
        for one in queues_of(plan).cohorts
    }


THREE = [pool(name, count={"desired": 3}) for name in ("first", "second", "third")]
ON_ALL = {"gpus": {one["name"]: 8 for one in THREE}}


TWO_COHORTS = [team(name, quota=ON_ALL, queue={"cohort": f"of-{name}"}) for name in ("a", "b")]


def test_spare_nodes_of_several_pools_do_not_all_go_to_the_same_cohort(make_plan: PlanMaker) -> None:
    lent = lent_by_cohort(make_plan(*THREE, queueing={}, teams=TWO_COHORTS))
    assert lent == {"of-a": {"first": 8, "second": 8}, "of-b": {"third": 8}}


@pytest.mark.parametrize(
    "others",
    [
        [pool("zero", count={"desired": 1}), *THREE],
        [pool("first", count={"desired": 4}), *THREE[1:]],
        [*reversed(THREE)],
    ],
    ids=["one more pool", "more nodes of another pool", "another order of the pools"],
)
def test_spare_nodes_of_a_pool_do_not_change_hands_by_a_change_of_other_pools(
    make_plan: PlanMaker, others: list[dict[str, Any]]
) -> None:
    before, after = (
        lent_by_cohort(make_plan(*pools, queueing={}, teams=TWO_COHORTS)) for pools in (THREE, others)
    )
    for name, by_pool in before.items():
        for there in ("second", "third"):
            assert after[name].get(there) == by_pool.get(there)


def test_a_cohort_keeps_its_spare_nodes_when_their_pool_grows(make_plan: PlanMaker) -> None:
    before: dict[str, int] = {}
    for nodes in range(2, 8):
        lent = lent_by_cohort(
            make_plan(
                train(nodes=nodes),
                queueing={},
                teams=[team(name, quota={"gpus": 8}, queue={"cohort": f"of-{name}"}) for name in ("a", "b")],
            )
        )
        now = {name: by_pool.get("train", 0) for name, by_pool in lent.items()}
        assert all(now[name] >= units for name, units in before.items())
        before = now


@pytest.mark.parametrize("borrow", [{"gpus": 8}, {"gpus": {"train": 8}}, {"gpus": 4}])
def test_a_cohort_gets_no_more_spare_nodes_than_its_teams_may_borrow(
    make_plan: PlanMaker, borrow: dict[str, Any]
) -> None:
    bound = team("research", quota={"gpus": 8}, queue={"cohort": "research", "borrow": borrow})
    free = team("product", quota={"gpus": 8}, queue={"cohort": "product"})
    lent = lent_by_cohort(make_plan(train(nodes=8), queueing={}, teams=[bound, free]))
    of_research = 4 if borrow == {"gpus": 4} else 8
    assert lent == {"product": {"train": 48 - of_research}, "research": {"train": of_research}}


COHORTS = [("a", "b"), ("b", "a"), ("prod", "research"), ("x", "y"), ("one", "two")]
"""Pairs of cohort names, because the program orders equal cohorts by name."""
ON_TWO = {"gpus": {"first": 8, "second": 8}}


@pytest.mark.parametrize(("free", "bound"), COHORTS)
@pytest.mark.parametrize("borrow", [{"gpus": 8}, {"gpus": {"second": 8}}])
def test_the_cohort_that_may_borrow_least_comes_first(
    make_plan: PlanMaker, free: str, bound: str, borrow: dict[str, Any]
) -> None:
    pools = [pool(name, count={"desired": 2}) for name in ("first", "second")]
    teams = [
        team(free, quota={"gpus": {"first": 8}}, queue={"cohort": free}),
        team(bound, quota={"gpus": {"second": 8}}, queue={"cohort": bound, "borrow": borrow}),
    ]
    lent = lent_by_cohort(make_plan(*pools, queueing={}, teams=teams))
    (where,) = lent[bound]
    assert lent == {bound: {where: 8}, free: {"first" if where == "second" else "second": 8}}


@pytest.mark.parametrize(("one", "other"), COHORTS)
def test_a_limit_that_one_pool_does_not_meet_goes_on_to_the_next(
    make_plan: PlanMaker, one: str, other: str
) -> None:
    teams = [team(name, quota=ON_TWO, queue={"cohort": name, "borrow": {"gpus": 8}}) for name in (one, other)]
    pools = [pool(name, count={"desired": 3}) for name in ("first", "second")]
    lent = lent_by_cohort(make_plan(*pools, queueing={}, teams=teams))
    assert sorted(map(str, lent.values())) == ["{'first': 8}", "{'second': 8}"]


def test_a_cohort_whose_teams_may_not_borrow_from_a_pool_gets_none_of_it(make_plan: PlanMaker) -> None:
    bound = team("a", quota=ON_ALL, queue={"cohort": "of-a", "borrow": {"gpus": {"second": 8}}})
    free = team("b", quota=ON_ALL, queue={"cohort": "of-b"})
    assert lent_by_cohort(make_plan(*THREE, queueing={}, teams=[bound, free])) == {
        "of-a": {"second": 8},
        "of-b": {"first": 8, "third": 8},
    }


def test_capacity_that_no_team_may_borrow_is_kept_for_team_stacks(make_plan: PlanMaker) -> None:
    bound = team("a", quota=ON_ALL, queue={"borrow": {}})
    lent = lent_by_cohort(make_plan(*THREE, queueing={}, teams=[bound]))
    assert lent == {"teams": {"first": 16, "second": 16, "third": 16}}


def test_quota_that_is_kept_for_team_stacks_is_not_lent_by_the_cohort(make_plan: PlanMaker) -> None:
    plan = make_plan(train(), queueing={"reserve": {"gpus": 4}}, teams=[team(quota={"gpus": 8})])
    (amounts,) = queues_of(plan).cohorts[0].flavors.values()
    assert amounts[GPU] == "4"


def beside_a_reserve(make_plan: PlanMaker, queue: dict[str, Any]) -> EnvironmentPlan:
    """Return a plan with two teams that have quota on one pool. Another pool is reserved for team stacks."""
    teams = [team("a", quota={"gpus": {"train": 8}}, queue=queue), team("b", quota={"gpus": {"train": 3}})]
    return make_plan(train("kept", 1), train(), queueing={"reserve": {"gpus": {"kept": 8}}}, teams=teams)


@pytest.mark.parametrize("queue", [{}, {"borrow": {"gpus": 10}}, {"borrow": {"gpus": {"kept": 2, "train": 8}}}])
def test_printed_borrowing_is_what_the_rendered_queues_lend(make_plan: PlanMaker, queue: dict[str, Any]) -> None:
    plan = beside_a_reserve(make_plan, queue)
    (of_b,) = [one for one in queues_of(plan).teams if one.namespace == "b"]
    (cohort,) = queues_of(plan).cohorts
    lent = sum(int(limit.lend) for one in of_b.flavors for limit in one.limits if limit.resource == GPU)
    lent += sum(int(amounts[GPU]) for amounts in cohort.flavors.values())
    (why,) = [one.why for one in plan.decisions if (one.subject, one.what) == ("team a", "queue")]
    assert f"borrows at most {lent} (" in why
    assert f"{8 if not queue else 2} more when teams with their own stack lend them in the cohort" in why


def test_a_limit_of_borrowing_is_put_where_the_cohort_lends_now(make_plan: PlanMaker) -> None:
    plan = beside_a_reserve(make_plan, {"borrow": {"gpus": 8}})
    (queue,) = [one for one in queues_of(plan).teams if one.namespace == "a"]
    borrowed = {one.pool: limit.borrow for one in queue.flavors for limit in one.limits if limit.resource == GPU}
    assert borrowed["train"] == "8"


@pytest.mark.parametrize(
    ("queue", "place", "words"),
    [
        ({"lend": {"gpus": {"train": 9}}}, "lend.gpus.train", "at most 8: the team's quota on this pool"),
        ({"borrow": {"gpus": {"train": 9}}}, "borrow.gpus.train", "at most 8: the units of the pool beyond"),
        ({"borrow": {"gpus": {"train": 99}}}, "borrow.gpus.train", "at most 8: the units of the pool beyond"),
    ],
)
def test_limits_by_pool_are_compared_with_the_quota_there(
    make_plan: PlanMaker, queue: dict[str, Any], place: str, words: str
) -> None:
    teams = [team("a", quota={"gpus": {"train": 8, "other": 4}}, queue=queue)]
    with pytest.raises(BadInput) as refused:
        make_plan(train(), train("other"), queueing={}, teams=teams)
    (problem,) = refused.value.problems
    assert problem.path == f"teams[0].queue.{place}"
    assert words in str(problem)


def plan_of_team(folder: Path, quota: dict[str, Any], queueing: dict[str, Any]) -> TeamStackPlan:
    return team_stack(folder, environment(train(), queueing=queueing, teams=[team(quota={"gpus": 8})]), quota)


def team_stack(folder: Path, above: dict[str, Any], quota: dict[str, Any]) -> TeamStackPlan:
    """Return the plan of a team with its own stack in an environment."""
    above["cluster"]["name"] = "prod"
    file = yaml.safe_dump({"config": {"gpu-platform:platform": above}})
    (folder / "Pulumi.prod.yaml").write_text(file)
    below = {"kind": "team", "environment": {"stack": "prod"}, "team": team("speech", quota=quota)}
    below["team"]["members"] = ["user:a@example.com"]
    plan = plan_platform(below, "speech", folder=folder)
    assert plan.kind == "team"
    return plan


def test_a_team_with_its_own_stack_gets_the_quota_that_is_kept_for_it(tmp_path: Path) -> None:
    (queue,) = plan_of_team(tmp_path, {"gpus": 8}, {"reserve": {"gpus": 8}}).queues
    limits = {one.resource: (one.nominal, one.borrow) for one in queue.flavors[1].limits}
    assert limits[GPU] == ("8", "8")


def test_a_team_stack_beyond_the_reserve_is_told_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"write queueing: {reserve: {gpus: 8}} in the environment"):
        plan_of_team(tmp_path, {"gpus": 8}, {"reserve": {"gpus": 4}})


def queued_gke(queued: bool, **rest: Any) -> dict[str, Any]:
    """Return a GKE environment with a flex-start pool. If `queued` is set, the pool uses queued provisioning."""
    one = pool(machine_type="a3-ultragpu-8g", count={"desired": 0, "max": 4}, zones=["us-central1-b"])
    one["capacity"] = {"type": "flex-start", "queued": queued}
    cluster = {"provider": "gke", "name": "prod", "project": "my-project", "location": "us-central1"}
    return environment(one, cluster=cluster, **rest)


def test_a_team_stack_gets_no_quota_of_queued_capacity_without_queues(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="pool 'train', and teams without queues") as refused:
        team_stack(tmp_path, queued_gke(queued=True), {"gpus": 8})
    (problem,) = refused.value.problems
    assert problem.fix == "write queued: false in the environment, or add `queueing: {}` in the environment"
    assert team_stack(tmp_path, queued_gke(queued=False), {"gpus": 8})
    assert team_stack(tmp_path, queued_gke(queued=True, queueing={"reserve": {"gpus": 8}}), {"gpus": 8})


def test_queued_capacity_without_teams_needs_no_queues() -> None:
    assert plan_platform(queued_gke(queued=True), "test").kind == "environment"


def test_check_says_which_declared_job_starts_while_all_others_are_full(make_plan: PlanMaker) -> None:
    jobs = [training_job("train", 2), training_job("train", 2, 4, name="small")]
    plan = make_plan(train(), queueing={}, teams=[team(quota={"gpus": 12}, training_jobs=jobs)])
    found = {one.what: one.chosen for one in plan.decisions if "training_jobs" in one.what}
    assert found == {
        "warning: training_jobs[0] (pretrain)": "starts only on borrowed quota",
        "training_jobs[1] (small)": "starts on the team's own quota",
    }


def test_check_prints_the_quota_of_each_pool(make_plan: PlanMaker) -> None:
    plan = make_plan(train(), train("other", 1), queueing={}, teams=[team(quota={"gpus": 24})])
    (why,) = [one.why for one in plan.decisions if one.what == "queue"]
    assert why.startswith("24 nvidia.com/gpu (16 on train, 8 on other), borrows at most 0, lends at most 24")


@st.composite
def platforms(draw: st.DrawFn) -> dict[str, Any]:
    """Draw pools of whole GPUs, teams whose quotas fit the pools, and for each team one job within its quota."""
    pools = [
        pool(
            f"p{index}",
            draw(st.sampled_from(["p4de.24xlarge", "g6.4xlarge"])),
            workload=draw(st.sampled_from(["training", "inference"])),
            count={"desired": (least := draw(st.integers(0, 3))), "max": least + draw(st.integers(1, 3))}
            if draw(st.booleans())
            else {"desired": draw(st.integers(1, 4))},
        )
        for index in range(draw(st.integers(1, 3)))
    ]
    sizes = {"p4de.24xlarge": 8, "g6.4xlarge": 1}
    units = {
        one["name"]: sizes[one["machine_type"]] * one["count"].get("max", one["count"]["desired"]) for one in pools
    }
    left, free = sum(units.values()), dict(units)
    teams: list[dict[str, Any]] = []
    for index in range(draw(st.integers(1, 4))):
        quota = draw(st.integers(0, left))
        left -= quota
        one = draw(st.sampled_from(pools))
        gpus = draw(st.integers(1, sizes[one["machine_type"]]))
        on_nodes = units[one["name"]] // sizes[one["machine_type"]] * (sizes[one["machine_type"]] // gpus)
        most = min(quota // gpus, free[one["name"]] // gpus, on_nodes)
        jobs: list[dict[str, Any]] = []
        if most:
            replicas = draw(st.integers(1, most))
            jobs.append(training_job(one["name"], replicas, gpus))
            free[one["name"]] -= replicas * gpus
        priority = draw(st.sampled_from(["training", "inference"]))
        teams.append(team(f"t{index}", quota={"gpus": quota}, priority=priority, training_jobs=jobs))
    return environment(*pools, queueing={}, teams=teams)


@given(platform=platforms())
@settings(max_examples=size(40, 1500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_declared_job_starts_on_its_teams_quota_while_all_others_are_full(platform: dict[str, Any]) -> None:
    plan = queues_of(_plan(platform))
    flavors = {flavor.pool: flavor.name for flavor in plan.flavors}
    for declared in platform["teams"]:
        for job in declared["training_jobs"]:
            quotas, flavor = Quotas(plan), flavors[job["pool"]]
            units = job["replicas"] * job["gpus"]
            wanted = {
                name: Fraction(
                    math.floor(quotas.total((flavor, name)) * scale / quotas.total((flavor, GPU))) * units
                )
                / scale
                for name, scale in ((GPU, 1), ("cpu", 1000), ("memory", Fraction(1, 1024**2)))
            }
            for other in platform["teams"]:
                while other is not declared and quotas.start(other["name"], {GPU: Fraction(1)}):
                    pass
            quotas.reclaim(declared["name"], flavor)
            quotas.flavors[declared["name"]] = [flavor]  # a declared job has a node selector with the same effect
            assert quotas.start(declared["name"], wanted) == flavor


@given(platform=platforms())
@settings(max_examples=size(40, 1500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_queues_and_cohort_together_have_exactly_what_each_pool_may_have(platform: dict[str, Any]) -> None:
    plan = _plan(platform)
    quotas, flavors = Quotas(queues_of(plan)), {one.pool: one.name for one in queues_of(plan).flavors}
    for one in plan.pools:
        assert quotas.total((flavors[one.name], GPU)) == one.nodes.max * one.gpus_per_node


def _plan(platform: dict[str, Any]) -> EnvironmentPlan:
    plan = plan_platform(platform, "any")
    assert plan.kind == "environment"
    return plan


def test_a_job_beyond_the_quota_and_all_that_is_lent_is_refused(make_plan: PlanMaker) -> None:
    teams = [
        team("vision", quota={"gpus": 8}, training_jobs=[training_job("train", 2)]),
        team("search", quota={"gpus": 8}, queue={"lend": {}}),
    ]
    with pytest.raises(BadInput) as refused:
        make_plan(train(), queueing={}, teams=teams)
    (problem,) = refused.value.problems
    assert problem.path == "teams[0].training_jobs[0]"
    assert "16 nvidia.com/gpu on pool train; allowed: at most 8" in str(problem)


def test_the_advice_for_a_job_keeps_the_quota_of_the_other_pools(make_plan: PlanMaker) -> None:
    jobs = [training_job("train", 2), training_job("other", 2, name="fine")]
    declared = {"queueing": {}, "teams": [team(quota={"gpus": 16}, training_jobs=jobs)]}
    plan = make_plan(train(), train("other"), **declared)
    (warning,) = [one.why for one in plan.decisions if one.what.startswith("warning: training_jobs")]
    assert "write quota.gpus: {other: 16, train: 16}" in warning
    declared["teams"][0]["quota"] = {"gpus": {"other": 16, "train": 16}}
    again = make_plan(train(), train("other"), **declared)
    assert not [one for one in again.decisions if one.what.startswith("warning: training_jobs")]


def test_one_gpu_is_not_granted_whole_and_in_parts(make_plan: PlanMaker) -> None:
    sharing = {"mode": "dra", "partitions": True}
    teams = [
        team("vision", quota={"devices": {"gpu.nvidia.com": 8}}),
        team("search", quota={"devices": {"mig.nvidia.com": 20}}),
    ]
    with pytest.raises(BadInput, match=r"take 10\.9 GPUs of pool train; allowed: at most 8"):
        make_plan(pool(machine_type="p5.48xlarge", sharing=sharing), queueing={}, teams=teams)
    teams[0]["quota"] = {"devices": {"gpu.nvidia.com": 5}}
    assert (
        make_plan(pool(machine_type="p5.48xlarge", sharing=sharing), queueing={}, teams=teams).queues is not None
    )
