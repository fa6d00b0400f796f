"""The resources rendered for team identities on EKS: roles, policies, associations and service accounts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_platform.deploy.recorded.properties import UNKNOWN
from tests.components.eks.aws_model import problems
from tests.components.eks.aws_requests import requests_of
from tests.components.eks.deploy import deploy
from tests.components.eks.moto_cloud import moto_cloud
from tests.support.eks_stacks import CLUSTER_ARN, CREATED, EXISTING, load_eks, record_eks
from tests.support.recorded import Recorded

ROLE = "arn:aws:iam::123456789012:role/vision"
BUCKETS = [
    {"name": "acme-datasets"},
    {"name": "acme-checkpoints", "access": "write", "prefix": "vision"},
]
COMPANY = {
    **CREATED,
    "iam": {"path": "/gpu/", "permissions_boundary": "arn:aws:iam::123456789012:policy/boundary"},
    "tags": {"cost-center": "42"},
}


def team(name: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "quota": {"gpus": 1}, "priority": "training", "members": [f"group:{name}"], **rest}


def made(*teams: dict[str, Any], cluster: dict[str, Any] = CREATED) -> Recorded:
    return record_eks({"zones": ["us-east-2a"]}, cluster=cluster, teams=list(teams))


def vision(**rest: Any) -> dict[str, Any]:
    return team("vision", identity={"buckets": BUCKETS}, **rest)


def test_every_request_for_an_identity_passes_the_models_of_the_aws_api() -> None:
    long = team("v" * 63, identity={"buckets": BUCKETS})
    recorded = made(vision(), long, team("speech", identity={"role_arn": ROLE}))
    records = [r for r in recorded.resources if "EksTeamIdentities" in r.parent and r.type.startswith("aws:")]
    assert len(records) == 7
    for record in records:
        for request in requests_of(record):
            found = [one for one in problems(request) if "'unknown' does not match" not in one]
            assert found == [], record.urn


def test_only_the_teams_service_account_on_this_cluster_can_assume_its_role() -> None:
    recorded = made(vision(), team("speech", identity={"buckets": BUCKETS}))
    for name in ("vision", "speech"):
        role = recorded.one("Role", f"ml-team-{name}")
        [statement] = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
        assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
        assert statement["Condition"]["StringEquals"] == {
            "aws:RequestTag/kubernetes-namespace": name,
            "aws:RequestTag/kubernetes-service-account": "team",
        }
        assert statement["Condition"]["StringLike"] == {"aws:RequestTag/eks-cluster-arn": CLUSTER_ARN}
        association = recorded.one("PodIdentityAssociation", f"ml-team-{name}")
        assert (association.inputs["namespace"], association.inputs["serviceAccount"]) == (name, "team")
        assert set(association.property_dependencies["roleArn"]) == {role.urn}


def test_the_role_of_a_team_has_the_path_boundary_and_tags_of_all_roles() -> None:
    recorded = made(vision(), cluster=COMPANY)
    role = recorded.one("Role", "ml-team-vision")
    assert role.inputs["path"] == "/gpu/"
    assert role.inputs["permissionsBoundary"] == "arn:aws:iam::123456789012:policy/boundary"
    [nodes] = [one for one in recorded.of("Role") if one.name == "ml-nodes"]
    assert nodes.provider == role.provider  # the provider's default tags are the company's tags


def test_no_statement_of_a_team_has_a_wildcard_as_resource_or_action() -> None:
    policy = json.loads(made(vision()).one("RolePolicy", "ml-team-vision").inputs["policy"])
    assert policy["Version"] == "2012-10-17"
    for statement in policy["Statement"]:
        assert all("*" not in action for action in statement["Action"])
        resources = statement["Resource"]
        for one in [resources] if isinstance(resources, str) else resources:
            assert one.startswith("arn:aws:s3:::acme-")


def test_an_existing_role_is_associated_and_none_is_created() -> None:
    recorded = made(team("vision", identity={"role_arn": ROLE}), cluster=EXISTING)
    association = recorded.one("PodIdentityAssociation", "ml-team-vision")
    assert association.inputs["roleArn"] == ROLE
    assert not [one for one in recorded.of("Role") if "team" in one.name]


def test_team_pods_wait_only_for_their_own_teams_association() -> None:
    workload = {"name": "train", "pool": "train", "gpus": 1, "image": "registry.example.com/train:1"}
    recorded = made(vision(workloads=[workload]), team("speech"))
    association = recorded.one("PodIdentityAssociation", "ml-team-vision").urn
    policy = recorded.one("RolePolicy", "ml-team-vision").urn
    waits = recorded.one("Namespace", "vision").dependencies
    assert {association, policy} <= set(waits)
    assert association not in recorded.one("Namespace", "speech").dependencies
    account = recorded.one("ServiceAccount", "vision/team")
    deployment = recorded.one("Deployment", "vision/train")
    assert account.urn in deployment.dependencies
    assert deployment.inputs["spec"]["template"]["spec"]["serviceAccountName"] == "team"


def test_the_service_account_mounts_no_token_and_names_pull_secrets() -> None:
    recorded = made(vision(image_pull_secrets=["registry"]))
    account = recorded.one("ServiceAccount", "vision/team").inputs
    assert account["metadata"] == {"name": "team", "namespace": "vision"}
    assert account["automountServiceAccountToken"] is False
    assert account["imagePullSecrets"] == [{"name": "registry"}]
    assert not recorded.has("Secret")


def test_a_preview_with_every_output_unknown_has_all_of_an_identity() -> None:
    recorded = made(vision())
    association = recorded.one("PodIdentityAssociation", "ml-team-vision")
    assert association.inputs["roleArn"] == UNKNOWN
    assert recorded.one("ServiceAccount", "vision/team").inputs["metadata"]["name"] == "team"


def test_a_team_without_identity_has_neither_role_nor_service_account() -> None:
    recorded = made(team("vision"))
    assert not [one for one in recorded.resources if "EksTeamIdentities" in one.type]
    assert not [one for one in recorded.of("ServiceAccount") if "TeamNamespace" in one.parent]


@pytest.mark.xdist_group("moto")
def test_iam_accepts_and_stores_a_teams_role_and_policy() -> None:
    key = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    buckets = [{**one, "kms_key": key} for one in BUCKETS]
    teams = [team("v" * 63, identity={"buckets": buckets}), team("speech", identity={"buckets": buckets})]
    with moto_cloud() as cloud:
        deploy(load_eks({"zones": ["us-east-2a"]}, cluster=COMPANY, teams=teams), cloud)
        iam = cloud.client("iam")
        roles = [role for role in iam.list_roles()["Roles"] if role["RoleName"].startswith("ml-team-")]
        assert len(roles) == 2
        for role in roles:
            assert role["Path"] == "/gpu/"
            [name] = iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]
            document = iam.get_role_policy(RoleName=role["RoleName"], PolicyName=name)["PolicyDocument"]
            actions = {action for one in document["Statement"] for action in one["Action"]}
            assert {
                "s3:ListBucket",
                "s3:GetObject",
                "s3:PutObject",
                "kms:Decrypt",
                "kms:GenerateDataKey",
            } < actions
