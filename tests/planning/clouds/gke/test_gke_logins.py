"""Which team members can log in to a GKE cluster, and which roles are granted or missing for their login."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.gke.existing_cluster import missing_logins
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack import CONFIG_KEY
from gpu_platform.stack.loaded import plan_platform
from tests.planning.clouds.gke.test_cluster import cluster, found, on
from tests.planning.conftest import environment, team

GROUPS = "gke-security-groups@example.com"
VISION = "group:vision@example.com"


def platform(*members: str, **where: Any) -> dict[str, Any]:
    where = where or {"create": {"authenticator_groups": GROUPS}}
    return environment(on("g2-standard-48"), cluster=cluster(**where), teams=[team(members=list(members))])


def planned(*members: str, **where: Any) -> EnvironmentPlan:
    plan = plan_platform(platform(*members, **where), "test")
    assert isinstance(plan, EnvironmentPlan)
    return plan


def cloud(*members: str, **where: Any) -> GkeClusterPlan:
    made = planned(*members, **where).cluster.cloud
    assert isinstance(made, GkeClusterPlan)
    return made


@pytest.mark.parametrize("member", ["group:vision", "user:ada", "group:vision@example"])
def test_a_member_that_is_not_a_google_identity_is_refused(member: str) -> None:
    with pytest.raises(BadInput) as caught:
        planned(VISION, member)
    (problem,) = caught.value.problems
    assert problem.path == "teams[0].members[1]"
    assert "the e-mail address of" in problem.allowed
    assert problem.fix.startswith(f"write '{member}@'")


def test_an_unknown_member_is_named_beside_mistakes_of_pools() -> None:
    wrong = platform("group:vision")
    wrong["pools"][0]["zones"] = ["us-east1-b"]
    with pytest.raises(BadInput) as caught:
        plan_platform(wrong, "test")
    assert {problem.path for problem in caught.value.problems} == {"pools[0].zones[0]", "teams[0].members[0]"}


@pytest.mark.parametrize(
    ("member", "granted"),
    [
        (VISION, VISION),
        ("user:ada@example.com", "user:ada@example.com"),
        (
            "user:ci@my-project.iam.gserviceaccount.com",
            "serviceAccount:ci@my-project.iam.gserviceaccount.com",
        ),
        (
            "group:principalSet://iam.googleapis.com/locations/global/workforcePools/acme/group/vision",
            "principalSet://iam.googleapis.com/locations/global/workforcePools/acme/group/vision",
        ),
        ("user:112233445566778899001", None),
        ("serviceaccount:ci/runner", None),
    ],
)
def test_members_known_to_iam_get_the_login_role_of_a_new_cluster(member: str, granted: str | None) -> None:
    assert cloud(member).logins == (() if granted is None else (granted,))


def test_a_member_of_several_teams_gets_the_role_once() -> None:
    both = platform(VISION)
    both["teams"].append(team("audio", members=[VISION]))
    made = plan_platform(both, "test").cluster.cloud
    assert isinstance(made, GkeClusterPlan)
    assert made.logins == (VISION,)


def test_groups_on_a_new_cluster_without_a_security_group_are_warned_of() -> None:
    warned = [each for each in planned(VISION, create={}).decisions if each.what == "warning: logins"]
    assert [each.subject for each in warned] == ["team vision"]
    assert "vision@example.com cannot log in" in warned[0].chosen
    assert "cluster.create.authenticator_groups" in warned[0].why
    assert not [each for each in planned(VISION).decisions if each.what.startswith("warning")]
    assert not [each for each in planned("user:a@b.com", create={}).decisions if each.what.startswith("warning")]


def test_a_security_group_of_another_name_is_refused() -> None:
    with pytest.raises(BadInput) as caught:
        planned(VISION, create={"authenticator_groups": "all@example.com"})
    assert [problem.path for problem in caught.value.problems] == ["cluster.create.authenticator_groups"]


def test_an_existing_clusters_owner_is_told_the_login_role() -> None:
    plan = planned(VISION, kubernetes="1.35")
    assert isinstance(plan.cluster.cloud, GkeClusterPlan)
    assert plan.cluster.cloud.logins == ()
    (note,) = [each for each in plan.decisions if each.what == "logins"]
    assert note.chosen == f"{VISION} must have roles/container.clusterViewer in project my-project"


def test_with_iam_managed_elsewhere_members_get_no_role_but_a_notice() -> None:
    where = {
        "create": {"authenticator_groups": GROUPS},
        "node_service_account": "n@my-project.iam.gserviceaccount.com",
    }
    plan = planned(VISION, **where)
    assert cloud(VISION, **where).logins == ()
    assert [each.why.partition(";")[0] for each in plan.decisions if each.what == "logins"] == [
        "the program does not change the project's IAM policy"
    ]


def test_an_existing_cluster_without_google_groups_is_a_warning() -> None:
    plan = cloud(VISION, kubernetes="1.35")
    (warning,) = missing_logins(plan, found(security_group=None))
    assert "--security-group=gke-security-groups@" in warning
    assert missing_logins(plan, found(security_group=GROUPS)) == ()
    assert missing_logins(dataclasses.replace(plan, groups=()), found(security_group=None)) == ()


def test_a_team_with_a_stack_of_its_own_is_checked_and_told_the_role(tmp_path: Path) -> None:
    text = yaml.safe_dump({"config": {CONFIG_KEY: platform("user:ops@example.com")}})
    (tmp_path / "Pulumi.here.yaml").write_text(text, "utf-8")
    own = {"kind": "team", "environment": {"stack": "here"}, "team": team("audio", members=[VISION])}
    notes = [
        each.chosen for each in plan_platform(own, "audio", folder=tmp_path).decisions if each.what == "logins"
    ]
    assert notes == [f"{VISION} must have roles/container.clusterViewer in project my-project"]
    own["team"]["members"] = ["group:audio"]
    with pytest.raises(BadInput) as caught:
        plan_platform(own, "audio", folder=tmp_path)
    assert [problem.path for problem in caught.value.problems] == ["team.members[0]"]


OPEN, CLOSED = "203.0.113.0/24", "10.50.0.0/16"
COMMAND = "gcloud container clusters get-credentials ml --location us-central1 --project my-project"


@pytest.mark.parametrize(
    ("create", "commands"),
    [
        ({}, (f"{COMMAND} --dns-endpoint",)),
        ({"api_access": [OPEN, CLOSED]}, (f"{COMMAND} --dns-endpoint",)),
        ({"dns_access": False, "api_access": [OPEN]}, (COMMAND,)),
        ({"dns_access": False, "api_access": [CLOSED]}, (COMMAND,)),
        (
            {"dns_access": False, "api_access": [OPEN, CLOSED]},
            (f"{COMMAND}  # in {OPEN}", f"{COMMAND} --internal-ip  # in {CLOSED}"),
        ),
    ],
    ids=["dns", "dns-and-addresses", "public", "private", "public-and-private"],
)
def test_the_guide_has_a_login_for_each_address_of_the_api_server(
    create: dict[str, Any], commands: tuple[str, ...]
) -> None:
    (guide,) = planned("user:ada@example.com", create=create).guides
    assert guide.login == commands


@pytest.mark.parametrize(("dns", "named"), [(True, True), (False, False)])
def test_logins_pass_the_dns_endpoint_only_where_it_is_open(dns: bool, named: bool) -> None:
    plan = planned("user:ada@example.com", create={"dns_access": dns, "api_access": [OPEN]})
    (said,) = [one.why for one in plan.decisions if one.what == "logins"]
    assert ("DNS endpoint" in said) == named


def test_check_states_where_up_must_run_without_a_dns_endpoint() -> None:
    both = planned("user:ada@example.com", create={"dns_access": False, "api_access": [OPEN, CLOSED]})
    (said,) = [one.why for one in both.decisions if one.what == "API server"]
    assert said.endswith(f"`up` and its kubeconfig use the public address, so `up` must run in {OPEN}")
    alone = planned("user:ada@example.com", create={"dns_access": False, "api_access": [OPEN]})
    (said,) = [one.why for one in alone.decisions if one.what == "API server"]
    assert "kubeconfig" not in said
