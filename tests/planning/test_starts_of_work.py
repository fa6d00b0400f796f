"""Whether declared work can start on the team's own quota, or on quota that other teams can really lend."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan, TeamStackPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import PlanMaker, environment, pool, team
from tests.planning.kueue_quotas import Quotas
from tests.support.size import size

EXISTING = {"provider": "existing", "kubernetes": "1.36"}
NODES = {"selector": {"gpu": "train"}}
IMAGE = "registry.example.com/app:1.0"


def two_nodes(name: str = "train") -> dict[str, Any]:
    return pool(name, count={"desired": 2})


def job(replicas: int, gpus: int = 8, pool: str = "train", **rest: Any) -> dict[str, Any]:
    return {**service(replicas, gpus, pool), "name": "job", "command": ["train"], **rest}


def service(replicas: int, gpus: int = 8, pool: str = "train", **rest: Any) -> dict[str, Any]:
    return {"name": "web", "pool": pool, "image": IMAGE, "replicas": replicas, "gpus": gpus, **rest}


def outcome(plan: EnvironmentPlan) -> dict[str, tuple[str, str]]:
    """Return whether the team's quota can start each declared workload, and why.

    A key consists of the team and the place of the workload in the stack file.
    """
    return {
        f"{one.subject} {match[1]}": (one.chosen, one.why)
        for one in plan.decisions
        if (match := re.search(r"(\w+\[\d\])", one.what))
    }


def refused(make_plan: PlanMaker, *pools: dict[str, Any], **rest: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        make_plan(*pools, queueing=rest.pop("queueing", {}), **rest)
    return {one.path: f"{one.found}; {one.allowed}; {one.fix}" for one in caught.value.problems}


def test_a_job_whose_cpu_no_quota_has_is_refused(make_plan: PlanMaker) -> None:
    large = job(1, 1, cpu="60", memory="8Gi")
    teams = [
        team("lab", quota={"gpus": {"train": 1}}, queue={"borrow": {}}, training_jobs=[large]),
        team("web", quota={"gpus": {"train": 15}}),
    ]
    (found,) = refused(make_plan, two_nodes(), teams=teams).items()
    assert found[0] == "teams[0].training_jobs[0]"
    assert re.match(r"60 cpu on pool train; at most 11\.\d+ cpu", found[1])


def test_a_service_beyond_the_quota_of_its_pool_is_refused(make_plan: PlanMaker) -> None:
    quota = {"gpus": {"train": 4, "other": 8}}
    teams = [team("web", quota=quota, queue={"borrow": {}}, inference_services=[service(2, 4)])]
    found = refused(make_plan, two_nodes(), two_nodes("other"), teams=teams)
    assert list(found) == ["teams[0].inference_services[0]"]
    assert "write quota.gpus: {other: 8, train: 8}" in found["teams[0].inference_services[0]"]


def test_what_always_runs_is_refused_once_for_its_pool(make_plan: PlanMaker) -> None:
    entries: dict[str, Any] = {
        "inference_services": [service(1, 4), service(1, 4, name="api")],
        "batch_jobs": [{**job(1, 1), "name": "sweep"}],
    }
    quota = {"gpus": {"train": 4, "other": 8}}
    teams = [team("web", quota=quota, queue={"borrow": {}}, **entries)]
    found = refused(make_plan, two_nodes(), two_nodes("other"), teams=teams)
    assert list(found) == ["teams[0].inference_services[0]"]


def test_quota_on_which_a_lender_always_runs_is_not_borrowed(make_plan: PlanMaker) -> None:
    borrower = team("lab", quota={"gpus": 8}, training_jobs=[job(2)])
    lender = team("web", quota={"gpus": 8}, inference_services=[service(1)])
    found = refused(make_plan, two_nodes(), teams=[borrower, lender])
    assert "16 nvidia.com/gpu on pool train; at most 8 nvidia.com/gpu" in found["teams[0].training_jobs[0]"]
    assert "lower" not in found["teams[0].training_jobs[0]"]  # team web uses all of its quota itself
    ended = make_plan(two_nodes(), queueing={}, teams=[borrower, {**lender, "inference_services": []}])
    assert outcome(ended)["team lab training_jobs[0]"][0] == "starts only on borrowed quota"


def test_a_lender_keeps_the_least_replicas_of_its_autoscaler(make_plan: PlanMaker) -> None:
    scaled = service(
        1, 1, autoscaling={"max_replicas": 8, "query": "up", "threshold": 1, "server": "http://p:9090"}
    )
    lender = team("web", quota={"gpus": 8}, inference_services=[scaled])
    rest: dict[str, Any] = {"queueing": {}, "addons": {"keda": "install"}, "cluster": EXISTING}
    teams = [team("lab", quota={"gpus": 8}, training_jobs=[job(3, 4)]), lender]
    found = outcome(make_plan({**two_nodes(), "nodes": NODES}, teams=teams, **rest))
    assert found["team lab training_jobs[0]"][0] == "starts only on borrowed quota"
    lab = team("lab", quota={"gpus": 8}, training_jobs=[job(2)])
    assert (
        "at most 15 nvidia.com/gpu"
        in refused(make_plan, {**two_nodes(), "nodes": NODES}, teams=[lab, lender], **rest)[
            "teams[0].training_jobs[0]"
        ]
    )


def test_a_job_that_needs_the_reserve_waits_for_team_stacks(make_plan: PlanMaker) -> None:
    teams = [team("lab", quota={"gpus": 4}, training_jobs=[job(2)])]
    plan = make_plan(two_nodes(), queueing={"reserve": {"gpus": 8}}, teams=teams)
    chosen, why = outcome(plan)["team lab training_jobs[0]"]
    assert chosen == "starts only when teams with their own stack lend quota in the cohort"
    assert "raise the team's quota on pool train by 12 and lower queueing.reserve by 8" in why


@pytest.mark.parametrize(
    ("quota", "entry"),
    [
        ({"gpus": {"other": 8, "train": 8}}, job(2)),
        ({"gpus": 8}, job(1, 1, cpu="60", memory="8Gi")),
        ({"gpus": {"other": 2, "train": 2}}, job(1, 1, cpu="30", memory="600Gi")),
    ],
)
def test_a_printed_quota_is_accepted_and_starts_the_job(
    make_plan: PlanMaker, quota: dict[str, Any], entry: dict[str, Any]
) -> None:
    one = team("lab", quota=quota, queue={"borrow": {"gpus": 0}}, training_jobs=[entry])
    other = team("web", quota={"gpus": {"other": 8}}, inference_services=[service(1, pool="other")])
    pools = [two_nodes(), two_nodes("other")]
    (text,) = refused(make_plan, *pools, teams=[one, other]).values()
    (written,) = re.findall(r"write quota\.gpus: (\{.*?\})", text)
    one["quota"] = {"gpus": yaml.safe_load(written)}
    found = outcome(make_plan(*pools, queueing={}, teams=[one, other]))
    assert found["team lab training_jobs[0]"][0] == "starts on the team's own quota"


def test_advice_names_the_quota_that_can_go_down(make_plan: PlanMaker) -> None:
    teams = [team("lab", quota={"gpus": 8}, training_jobs=[job(2)]), team("web", quota={"gpus": 8})]
    chosen, why = outcome(make_plan(two_nodes(), queueing={}, teams=teams))["team lab training_jobs[0]"]
    assert chosen == "starts only on borrowed quota"
    assert "raise the team's quota on pool train by 8 and lower the quota of web by 8" in why
    teams[0]["quota"], teams[1]["quota"] = {"gpus": 16}, {"gpus": 0}
    assert outcome(make_plan(two_nodes(), queueing={}, teams=teams))["team lab training_jobs[0]"][0].endswith(
        "own quota"
    )


def test_an_entry_is_compared_with_the_quota_on_its_pool(make_plan: PlanMaker) -> None:
    quota = {"gpus": {"train": 8, "other": 16}}
    teams = [team("web", quota=quota, queue={"borrow": {}}, inference_services=[service(2, 4)])]
    plan = make_plan(two_nodes(), two_nodes("other"), queueing={}, teams=teams)
    (why,) = [
        one.why for one in plan.decisions if one.subject == "inference service web/web" and one.what == "queue"
    ]
    assert "8 nvidia.com/gpu of the 8 that the team's quota allows on train" in why


def test_the_guide_names_the_pools_that_the_queue_of_a_team_serves(make_plan: PlanMaker) -> None:
    web = team("web", quota={"gpus": {"train": 8}}, queue={"borrow": {}})
    lab = team("lab", quota={"gpus": 8}, queue={"borrow": {"gpus": {"other": 8}}})
    plan = make_plan(two_nodes(), two_nodes("other"), queueing={}, teams=[web, lab])
    assert [[pool.name for pool in guide.pools] for guide in plan.guides] == [["train"], ["train", "other"]]


SMALL = {"cpu": "100m", "memory": "256Mi"}
GPU = "nvidia.com/gpu"


@st.composite
def teams_on_one_pool(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a platform with 16 GPUs and three teams. Each team has a service within its quota. The first team also
    has a job. Some quota is reserved.
    """
    left, teams = 16, list[dict[str, Any]]()
    for name in ("a", "b", "c"):
        quota = draw(st.integers(0, left))
        left -= quota
        limits: dict[str, Any] = {}
        if draw(st.booleans()):
            limits["lend"] = {"gpus": draw(st.integers(0, quota))}
        if draw(st.booleans()):
            limits["borrow"] = {"gpus": draw(st.integers(0, 16 - quota))}
        pods = draw(st.integers(0, quota))
        services = [service(pods, 1, **SMALL)] if pods else []
        teams.append(team(name, quota={"gpus": {"train": quota}}, queue=limits, inference_services=services))
    reserve = draw(st.integers(0, left))
    teams[0]["training_jobs"] = [job(draw(st.integers(1, 16)), 1, **SMALL)]
    return environment(two_nodes(), queueing={"reserve": {"gpus": {"train": reserve}}}, teams=teams)


@given(stack=teams_on_one_pool())
@settings(max_examples=size(60, 2000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_job_starts_exactly_when_kueue_would_start_it(stack: dict[str, Any]) -> None:
    """Refused jobs never start. A job that is planned to start on borrowed quota starts if other teams lend all
    their quota.
    """
    (declared,) = stack["teams"][0]["training_jobs"]
    try:
        verdict = outcome(_plan(stack))["team a training_jobs[0]"][0]
    except BadInput as error:
        verdict = f"refused: {error}"
    plan = _plan({**stack, "teams": [{**stack["teams"][0], "training_jobs": []}, *stack["teams"][1:]]})
    assert plan.queues is not None
    quotas, (flavor,) = Quotas(plan.queues), [one.name for one in plan.queues.flavors if one.pool]
    for one in stack["teams"]:
        running = sum(each["replicas"] for each in one["inference_services"])
        quotas.usage[one["name"]][flavor, GPU] = Fraction(running)
    quotas.flavors["a"] = [flavor]
    can_start = quotas.start("a", {GPU: Fraction(declared["replicas"])}) is not None
    reserved = "their own stack lend" in verdict
    assert can_start == ("refused" not in verdict and not reserved)


def _plan(stack: dict[str, Any]) -> EnvironmentPlan:
    plan = plan_platform(stack, "any")
    assert isinstance(plan, EnvironmentPlan)
    return plan


def of_own_stack(
    folder: Path, reserve: int, quota: int, timeout: str = "2h", web: int = 4, always: int = 0, **entries: Any
) -> TeamStackPlan:
    """Return the plan of a team with its own stack, in an environment of 16 GPUs with another team.

    `web` is the other team's quota, and `always` is the part of this quota that a service always uses.
    """
    queueing = {"reserve": {"gpus": {"train": reserve}}, "pods_ready_timeout": timeout}
    served = [service(1, always)] if always else []
    above = environment(
        two_nodes(), queueing=queueing, teams=[team("web", quota={"gpus": web}, inference_services=served)]
    )
    above["cluster"]["name"] = "prod"
    (folder / "Pulumi.prod.yaml").write_text(yaml.safe_dump({"config": {"gpu-platform:platform": above}}))
    own = team("lab", quota={"gpus": {"train": quota}}, queue={"borrow": {}}, **entries)
    plan = plan_platform({"kind": "team", "environment": {"stack": "prod"}, "team": own}, "lab", folder=folder)
    assert isinstance(plan, TeamStackPlan)
    return plan


def test_a_team_stack_is_told_what_its_environment_must_change(tmp_path: Path) -> None:
    jobs = {"training_jobs": [job(1)]}
    with pytest.raises(
        BadInput, match=r"raise queueing\.reserve in the environment by 2 .* quota by 4"
    ) as refused:
        of_own_stack(tmp_path, 6, 4, **jobs)
    assert [one.path for one in refused.value.problems] == ["team.training_jobs[0]"]
    (found,) = [one for one in of_own_stack(tmp_path, 8, 8, **jobs).decisions if "training_jobs" in one.what]
    assert found.chosen == "starts on the team's own quota"
    slow = {"inference_services": [service(1, 4, startup="20m")]}
    with pytest.raises(BadInput, match=r"write queueing\.pods_ready_timeout: 30m in the environment"):
        of_own_stack(tmp_path, 6, 4, "15m", **slow)


def test_a_reserve_is_not_raised_beyond_the_pool_without_quotas_that_go_down(tmp_path: Path) -> None:
    jobs = {"training_jobs": [job(1)]}
    with pytest.raises(BadInput) as refused:
        of_own_stack(tmp_path, 6, 4, web=10, **jobs)
    assert refused.value.problems[0].fix == (
        "reduce the workload's request, or raise queueing.reserve in the environment by 2, "
        "lower the quota of web by 2 and raise the team's quota by 4, all on pool train"
    )
    (found,) = [
        one for one in of_own_stack(tmp_path, 8, 8, web=8, **jobs).decisions if "training_jobs" in one.what
    ]
    assert found.chosen == "starts on the team's own quota"


def test_a_reserve_that_no_pool_can_hold_needs_more_nodes(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        of_own_stack(tmp_path, 4, 4, web=12, always=6, training_jobs=[job(2)])
    assert refused.value.problems[0].fix.startswith(
        "reduce the workload's request, or raise the count of the pool, "
        "queueing.reserve in the environment and the team's quota"
    )


def test_a_reserve_that_the_environments_quotas_leave_no_room_for_lowers_them(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        of_own_stack(tmp_path, 4, 8, web=12)
    (fix,) = [one.fix for one in refused.value.problems if one.path == "team.quota.gpus"]
    assert fix == (
        "write queueing: {reserve: {gpus: 8}} in the environment, lower its teams' quotas by 4 in total, "
        "and deploy the environment first"
    )
    assert of_own_stack(tmp_path, 8, 8, web=8)
