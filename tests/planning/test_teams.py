from __future__ import annotations

import pytest

from gpu_platform.base.errors import BadInput
from tests.planning.conftest import PlanMaker, pool, team

SHARED = pool("serve", "g4dn.xlarge", workload="inference", sharing={"mode": "time-slicing", "replicas": 4})
CUT = pool("lab", workload="development", sharing={"mode": "mig", "layout": {"1g.10gb": 7}})


def test_a_quota_has_every_gpu_resource_and_zero_if_not_granted(
    make_plan: PlanMaker,
) -> None:
    plan = make_plan(pool(), SHARED, CUT, teams=[team(quota={"gpus": 2, "cpu": 10, "memory": "1Ti"})])
    assert dict(plan.teams[0].quota) == {
        "requests.nvidia.com/gpu": "2",
        "requests.nvidia.com/gpu.shared": "0",
        "requests.nvidia.com/mig-1g.10gb": "0",
        "requests.cpu": "10",
        "requests.memory": "1Ti",
    }


def test_a_team_may_not_use_priority_classes_above_its_own(make_plan: PlanMaker) -> None:
    plan = make_plan(
        pool(), priorities={"urgent": 5000}, teams=[team("a"), team("b", priority="inference", quota={"gpus": 1})]
    )
    allowed = {team_plan.namespace: team_plan.priorities for team_plan in plan.teams}
    assert allowed == {"a": ("training",), "b": ("inference", "training")}


def test_the_default_priority_classes_are_training_100_and_inference_1000(make_plan: PlanMaker) -> None:
    plan = make_plan(pool(), priorities={"urgent": 5000})
    assert [(p.name, p.value) for p in plan.priority_classes] == [
        ("training", 100),
        ("inference", 1000),
        ("urgent", 5000),
    ]


def test_a_workload_is_placed_on_its_pool_with_the_pools_resource_and_tolerations(make_plan: PlanMaker) -> None:
    workload = {"name": "ranker", "pool": "serve", "replicas": 2}
    plan = make_plan(SHARED, teams=[team(quota={"shared": 2}, workloads=[workload])])
    placed = plan.teams[0].workloads[0]
    assert (placed.resource, placed.units) == ("nvidia.com/gpu.shared", 1)
    assert placed.node_selector == {"gpu-platform.dev/pool": "serve"}
    assert [taint.key for taint in placed.tolerations] == ["nvidia.com/gpu"]
    assert placed.priority_class == "training"


@pytest.mark.parametrize(
    ("strategy", "profile", "resource"),
    [
        ("single", None, "nvidia.com/gpu"),
        ("single", "1g.10gb", "nvidia.com/gpu"),
        ("mixed", None, "nvidia.com/mig-1g.10gb"),
        ("mixed", "1g.10gb", "nvidia.com/mig-1g.10gb"),
    ],
)
def test_a_workload_on_instances_requests_the_resource_of_their_strategy(
    make_plan: PlanMaker, strategy: str, profile: str | None, resource: str
) -> None:
    cut = pool("cut", sharing={"mode": "mig", "strategy": strategy, "layout": {"1g.10gb": 7}})
    work = {"name": "work", "pool": "cut", **({"profile": profile} if profile else {})}
    quota = {"gpus": 1} if strategy == "single" else {"mig": {"1g.10gb": 1}}
    plan = make_plan(cut, teams=[team(quota=quota, workloads=[work])])
    assert plan.teams[0].workloads[0].resource == resource
    assert [offer.name for offer in plan.pools[0].resources] == [resource]


def test_whole_node_workloads_request_no_efa_outside_eks(make_plan: PlanMaker) -> None:
    work = {"name": "pretrain", "pool": "train", "gpus": 8}
    plan = make_plan(pool(), teams=[team(quota={"gpus": 8}, workloads=[work])])
    assert plan.teams[0].workloads[0].network == {}


def test_quotas_may_sum_to_the_capacity_times_the_overcommit_and_no_more(make_plan: PlanMaker) -> None:
    teams = [team("a", quota={"gpus": 8}), team("b", quota={"gpus": 4})]
    assert make_plan(pool(), teams=teams, overcommit=1.5).teams
    with pytest.raises(BadInput) as error:
        make_plan(pool(), teams=teams, overcommit=1.4)
    assert [problem.path for problem in error.value.problems] == ["teams[0].quota.gpus"]
    assert "a 8, b 4" in str(error.value)


def test_quotas_count_against_the_maximum_of_an_autoscaled_pool(make_plan: PlanMaker) -> None:
    scaled = pool(count={"desired": 1, "max": 3})
    assert make_plan(scaled, teams=[team(quota={"gpus": 24})]).teams
    with pytest.raises(BadInput):
        make_plan(scaled, teams=[team(quota={"gpus": 25})])


@pytest.mark.parametrize(
    ("member", "kind"),
    [("user:ada", "User"), ("group:vision", "Group"), ("serviceaccount:ci/runner", "ServiceAccount")],
)
def test_members_become_rbac_subjects(make_plan: PlanMaker, member: str, kind: str) -> None:
    subject = make_plan(pool(), teams=[team(members=[member])]).teams[0].members[0]
    assert subject.kind == kind
    assert (subject.namespace == "ci") == (kind == "ServiceAccount")


@pytest.mark.parametrize(
    "member",
    [
        "group:system:masters",
        "group:system:authenticated",
        "group:system:unauthenticated",
        "group:system:serviceaccounts",
        "group:system:serviceaccounts:ci",
        "group:system:nodes",
        "group:allAuthenticatedUsers",
        "group:*",
        "user:*",
        "user:system:admin",
        "user:system:anonymous",
        "serviceaccount:kube-system/default",
        "serviceaccount:gpu-operator/gpu-operator",
    ],
)
@pytest.mark.parametrize("role", ["admins", "members", "viewers"])
def test_members_that_stand_for_everybody_or_for_the_system_are_refused(
    make_plan: PlanMaker, member: str, role: str
) -> None:
    with pytest.raises(BadInput, match="but no group of all users and no system account") as error:
        make_plan(pool(), teams=[team() | {role: [member]}])
    assert [problem.path for problem in error.value.problems] == [f"teams[0].{role}[0]"]


def test_a_service_account_written_as_a_user_is_refused_with_the_right_kind(make_plan: PlanMaker) -> None:
    with pytest.raises(BadInput, match="write 'serviceaccount:ci/runner'"):
        make_plan(pool(), teams=[team(members=["user:system:serviceaccount:ci:runner"])])


def test_a_member_with_two_roles_is_refused_where_the_weaker_one_is(make_plan: PlanMaker) -> None:
    with pytest.raises(BadInput, match="admins includes the rights of viewers") as error:
        make_plan(pool(), teams=[team(admins=["user:ada"], viewers=["user:bob", "user:ada"])])
    assert [problem.path for problem in error.value.problems] == ["teams[0].viewers[1]"]


def test_load_balancers_and_node_ports_require_a_quota(make_plan: PlanMaker) -> None:
    opened = team("b", quota={"gpus": 1, "objects": {"load_balancers": 1, "node_ports": 2, "storage": "5Ti"}})
    closed, allowed = (
        dict(team_plan.object_quota) for team_plan in make_plan(pool(), teams=[team(), opened]).teams
    )
    assert (closed["services.loadbalancers"], closed["services.nodeports"]) == ("0", "0")
    assert (allowed["services.loadbalancers"], allowed["services.nodeports"]) == ("1", "2")
    assert (closed["requests.storage"], allowed["requests.storage"]) == ("100Ti", "5Ti")


def test_workloads_with_more_replicas_than_pods_in_the_quota_are_refused(make_plan: PlanMaker) -> None:
    work = {"name": "work", "pool": "train", "replicas": 2}
    with pytest.raises(BadInput, match=r"raise quota\.objects\.pods"):
        make_plan(pool(), teams=[team(quota={"gpus": 2, "objects": {"pods": 1}}, workloads=[work])])
