"""Which login entries of an EKS cluster are refused, and which members have no login."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.eks.arns import check_key
from gpu_platform.planning.clouds.eks.logins import login_notes
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from tests.planning.clouds.eks.test_cluster import ADMIN, SERVE, created, eks, plan, problems

ROLE = "arn:aws:iam::123456789012:role/teams/vision"
OIDC = {"issuer": "https://login.example.com", "client_id": "kubernetes"}


def login(principal: str = ROLE, **rest: Any) -> dict[str, Any]:
    return {"principal": principal, "groups": ["vision"], **rest}


def warned(members: list[str], cluster: dict[str, Any]) -> list[str]:
    """Return the members for whom a warning of the plan says that no user can log in as them."""
    team = {"name": "vision", "quota": {"gpus": 1}, "priority": "training", "members": members}
    found = [one for one in plan(cluster, teams=[team]).decisions if one.what == "warning: members"]
    assert all(one.subject == "team vision" for one in found)
    return [name for one in found for name in one.chosen.removeprefix("no user can log in as ").split(", ")]


def test_a_team_whose_members_cannot_log_in_gets_a_warning() -> None:
    team = {"name": "vision", "quota": {"gpus": 1}, "priority": "training", "members": ["group:vision"]}
    (found,) = [one for one in plan(created(), teams=[team]).decisions if one.what == "warning: members"]
    assert (found.subject, found.chosen) == ("team vision", "no user can log in as group:vision")
    assert "logins: [{principal: arn:aws:iam::ACCOUNT:role/ROLE, groups: [vision]}]" in found.why


def test_arns_that_a_fix_writes_are_of_the_partition_of_the_region() -> None:
    gov = EksCluster.model_validate(
        {
            "provider": "eks",
            "name": "ml",
            "region": "us-gov-west-1",
            "create": {"admins": ["arn:aws-us-gov:iam::123456789012:role/admin"]},
        },
        strict=False,
    )
    (note,) = login_notes(gov, "vision", ["group:vision"])
    assert "principal: arn:aws-us-gov:iam::ACCOUNT:role/ROLE" in note.why
    here = Problems("key")
    check_key("alias/volumes", gov, here)
    assert here.found[0].fix == "write arn:aws-us-gov:kms:us-gov-west-1:ACCOUNT:key/ID"


def test_groups_of_logins_are_reachable_and_service_accounts_always() -> None:
    members = ["group:vision", "group:speech", "serviceaccount:ci/deployer"]
    assert warned(members, created(logins=[login()])) == ["group:speech"]


@pytest.mark.parametrize(
    ("user", "entry"),
    [
        ("ada", login(username="ada")),
        ("vision:ada", login(username="vision:{{SessionName}}")),
        ("arn:aws:sts::123456789012:assumed-role/vision/ada", login()),
        ("arn:aws:iam::123456789012:user/ada", login("arn:aws:iam::123456789012:user/ada")),
    ],
)
def test_a_user_is_reachable_by_the_name_that_eks_gives_the_principal(user: str, entry: dict[str, Any]) -> None:
    assert warned([f"user:{user}", "user:eve"], created(logins=[entry])) == ["user:eve"]


@pytest.mark.parametrize(
    ("oidc", "unreachable"),
    [
        ({"groups_claim": "groups"}, []),
        ({"groups_claim": "groups", "groups_prefix": "oidc:"}, ["group:vision"]),
        ({}, ["group:vision", "group:oidc:speech"]),
    ],
)
def test_an_oidc_provider_may_bring_any_user_and_any_group_with_its_prefix(
    oidc: dict[str, Any], unreachable: list[str]
) -> None:
    members = ["user:ada", "group:vision", "group:oidc:speech"]
    assert warned(members, created(oidc={**OIDC, **oidc})) == unreachable


def test_an_existing_cluster_may_have_its_owners_access_entries() -> None:
    assert warned(["group:vision", "user:ada"], eks()) == []


def test_a_principal_has_one_access_entry() -> None:
    found = problems(created(logins=[login(), login(ADMIN), login()]), SERVE)
    assert list(found) == ["cluster.logins[1].principal", "cluster.logins[2].principal"]
    assert "and in create.admins" in found["cluster.logins[1].principal"]
    assert "and in logins[0]" in found["cluster.logins[2].principal"]


def test_equally_named_principals_of_two_accounts_are_refused() -> None:
    other = ROLE.replace("123456789012", "210987654321")
    found = problems(created(logins=[login(), login(other)]), SERVE)
    assert list(found) == ["cluster.logins[1].principal"]
    assert f"{ROLE!r} in logins[0]" in found["cluster.logins[1].principal"]


def test_a_login_of_another_account_than_the_clusters_is_refused() -> None:
    found = problems(created(logins=[login()], account="210987654321"), SERVE)
    assert "an ARN in the cluster's account, 210987654321" in found["cluster.logins[0].principal"]
    assert "in account 123456789012" in found["cluster.logins[0].principal"]
    assert plan(created(logins=[login()], account="123456789012"), SERVE)


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        (login(groups=["system:masters"]), "groups[0]"),
        (login(username="system:admin"), "username"),
        (login(username="iam:ada"), "username"),
        (login("arn:aws:iam::123456789012:role/*"), "principal"),
        (login("arn:aws:iam::123456789012:root"), "principal"),
        (login("arn:aws:sts::123456789012:assumed-role/vision/ada"), "principal"),
    ],
)
def test_what_eks_refuses_in_an_access_entry_is_refused(entry: dict[str, Any], place: str) -> None:
    assert list(problems(created(logins=[entry]), SERVE)) == [f"cluster.logins[0].{place}"]


@pytest.mark.parametrize(
    ("oidc", "place"),
    [
        ({**OIDC, "groups_prefix": "system:"}, "groups_prefix"),
        ({**OIDC, "username_prefix": "x-system:"}, "username_prefix"),
        ({**OIDC, "issuer": "http://login.example.com"}, "issuer"),
    ],
)
def test_what_eks_refuses_of_an_oidc_provider_is_refused(oidc: dict[str, Any], place: str) -> None:
    assert list(problems(created(oidc=oidc), SERVE)) == [f"cluster.oidc.{place}"]


SSO = "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/us-east-2/AWSReservedSSO_ml_0123456789abcdef"


def test_a_role_of_identity_center_is_a_login_and_an_admin() -> None:
    assert warned(["group:vision"], created(logins=[login(SSO)])) == []
    assert plan(created({"admins": [SSO]})).cluster.name == "ml"


SSO_NAME = "AWSReservedSSO_ml_0123456789abcdef"
SSO_WITHOUT_PATH = f"arn:aws:iam::123456789012:role/{SSO_NAME}"


@pytest.mark.parametrize(
    ("place", "cluster"),
    [
        ("cluster.create.admins[0]", created({"admins": [SSO_WITHOUT_PATH]})),
        ("cluster.logins[0].principal", created(logins=[login(SSO_WITHOUT_PATH)])),
        ("cluster.logins[0].principal", eks(logins=[login(SSO_WITHOUT_PATH)])),
    ],
)
def test_a_role_of_identity_center_without_its_path_is_refused(place: str, cluster: dict[str, Any]) -> None:
    found = problems(cluster, SERVE)
    assert list(found) == [place]
    assert "an ARN with /aws-reserved/sso.amazonaws.com/" in found[place]
    assert f"aws iam get-role --role-name {SSO_NAME} --query Role.Arn" in found[place]


def test_a_role_of_identity_center_in_us_east_1_has_no_region_in_its_path() -> None:
    role = f"arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/{SSO_NAME}"
    assert plan(created({"admins": [role]})).cluster.name == "ml"


@pytest.mark.parametrize("role", [SSO, SSO_WITHOUT_PATH])
def test_no_node_assumes_a_role_of_identity_center(role: str) -> None:
    assert "your own role" in problems(created(iam={"node_role": role}))["cluster.iam.node_role"]


@pytest.mark.parametrize(
    ("field", "cluster"),
    [
        ("cluster.assume_role", created({"admins": [SSO]}, assume_role=SSO)),
        ("cluster.iam.node_role", created(iam={"node_role": SSO})),
    ],
)
def test_a_role_that_aws_manages_is_refused_where_it_would_be_assumed(field: str, cluster: dict[str, Any]) -> None:
    found = problems(cluster)
    assert list(found) == [field]
    assert "your own role" in found[field]


def test_the_fix_of_a_role_of_identity_center_to_assume_works() -> None:
    assert (
        "Fix: remove assume_role" in problems(created({"admins": [SSO]}, assume_role=SSO))["cluster.assume_role"]
    )
    assert plan(created({"admins": [SSO]})).cluster.name == "ml"


def test_a_role_that_aws_manages_is_no_identity_of_a_team() -> None:
    team = {"name": "vision", "quota": {"gpus": 1}, "priority": "training", "members": ["group:vision"]}
    with pytest.raises(BadInput, match=r"teams\[0\]\.identity\.role_arn: found .*, which AWS manages"):
        plan(created(logins=[login()]), teams=[team | {"identity": {"role_arn": SSO}}])
