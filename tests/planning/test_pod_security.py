"""The Pod Security level of a team's namespace, and the users that its workloads run as."""

from __future__ import annotations

import pytest

from gpu_platform.base.errors import BadInput
from tests.planning.conftest import PlanMaker, pool, team

LEVEL = "pod-security.kubernetes.io/"


def test_a_namespace_enforces_restricted_unless_its_team_says_otherwise(make_plan: PlanMaker) -> None:
    plan = make_plan(pool(), teams=[team("a"), team("b", quota={"gpus": 1}, pod_security="baseline")])
    enforced = {team_plan.namespace: team_plan.labels[f"{LEVEL}enforce"] for team_plan in plan.teams}
    assert enforced == {"a": "restricted", "b": "baseline"}


@pytest.mark.parametrize("level", ["restricted", "baseline"])
def test_members_are_warned_of_what_restricted_refuses_at_any_level(make_plan: PlanMaker, level: str) -> None:
    labels = make_plan(pool(), teams=[team(pod_security=level)]).teams[0].labels
    assert (labels[f"{LEVEL}warn"], labels[f"{LEVEL}audit"]) == ("restricted", "restricted")


def test_a_team_below_the_default_is_a_decision_and_one_with_it_is_none(make_plan: PlanMaker) -> None:
    decisions = make_plan(
        pool(), teams=[team("a"), team("b", quota={"gpus": 1}, pod_security="baseline")]
    ).decisions
    found = [(one.subject, one.chosen) for one in decisions if one.what == "Pod Security"]
    assert found == [("team b", "baseline")]


def test_the_level_privileged_is_refused(make_plan: PlanMaker) -> None:
    with pytest.raises(BadInput, match=r"teams\[0\]\.pod_security.*privileged.*restricted"):
        make_plan(pool(), teams=[team(pod_security="privileged")])


def test_a_workload_cannot_run_as_root(make_plan: PlanMaker) -> None:
    work = {"name": "pretrain", "pool": "train", "run_as_user": 0}
    with pytest.raises(BadInput, match="run_as_user"):
        make_plan(pool(), teams=[team(workloads=[work])])


def test_a_workload_runs_as_the_user_of_the_stack_file(make_plan: PlanMaker) -> None:
    works = [{"name": "one", "pool": "train", "run_as_user": 1000}, {"name": "two", "pool": "train"}]
    plan = make_plan(pool(), teams=[team(quota={"gpus": 2}, workloads=works)])
    assert [work.run_as_user for work in plan.teams[0].workloads] == [1000, None]
