"""How each provider grants cloud identities to teams, and which settings are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.existing_cluster import required_addons
from gpu_platform.planning.clouds.eks.identities import EksIdentities, TeamRole
from gpu_platform.planning.clouds.eks.resource_names import role_name
from gpu_platform.planning.clouds.gke.identities import GkeIdentities
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.teams.section import ServiceAccountPlan
from gpu_platform.stack.loaded import plan_platform
from tests.components.gke.gke_recorded import CREATED as GKE_CREATED
from tests.components.gke.gke_recorded import platform_of
from tests.support.eks_stacks import CREATED, EXISTING, eks_environment, plan_eks

KEY = "arn:aws:kms:us-east-2:123456789012:key/11111111-2222-3333-4444-555555555555"
ROLE = "arn:aws:iam::123456789012:role/vision"
ACCOUNT = "vision@my-project.iam.gserviceaccount.com"
READS = {"name": "acme-datasets", "prefix": "imagenet"}
WRITES = {"name": "acme-checkpoints", "access": "write"}


def team(name: str = "vision", **rest: Any) -> dict[str, Any]:
    members = [f"group:{name}@example.com"]
    return {"name": name, "quota": {"gpus": 1}, "priority": "training", "members": members, **rest}


def eks(*teams: dict[str, Any], cluster: dict[str, Any] = CREATED, **rest: Any) -> EnvironmentPlan:
    return plan_eks({"zones": ["us-east-2a"]}, cluster=cluster, teams=list(teams), **rest)


def gke(*teams: dict[str, Any], cluster: dict[str, Any] = GKE_CREATED) -> EnvironmentPlan:
    plan = plan_platform({**platform_of({}, cluster=cluster), "teams": list(teams)}, "test")
    assert plan.kind == "environment"
    return plan


def on(cluster: dict[str, Any], *teams: dict[str, Any]) -> EnvironmentPlan:
    platform = eks_environment({"nodes": {"names": ["a"]}} if cluster["provider"] == "existing" else {})
    plan = plan_platform({**platform, "cluster": cluster, "teams": list(teams)}, "test")
    assert plan.kind == "environment"
    return plan


def with_identity(**identity: Any) -> dict[str, Any]:
    return team(identity=identity)


def role(plan: EnvironmentPlan) -> TeamRole:
    assert isinstance(plan.identities, EksIdentities)
    [found] = plan.identities.roles
    return found


def account(plan: EnvironmentPlan) -> ServiceAccountPlan:
    found = plan.teams[0].service_account
    assert found is not None
    return found


def refused(made: Any, *teams: dict[str, Any], **rest: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        made(*teams, **rest)
    return {problem.path: str(problem) for problem in caught.value.problems}


def chosen(plan: EnvironmentPlan, what: str) -> str:
    [found] = [f"{one.chosen}: {one.why}" for one in plan.decisions if one.what == what]
    return found


def test_what_an_identity_without_egress_does_not_reach_is_named() -> None:
    existing_role = with_identity(role_arn="arn:aws:iam::123456789012:role/vision")
    assert "pods cannot reach the cloud resources of the identity" in chosen(eks(existing_role), "egress")
    assert "pods cannot reach the buckets of the identity" in chosen(eks(with_identity(buckets=[READS])), "egress")


def test_a_role_reads_below_the_prefix_and_writes_only_where_allowed() -> None:
    statements = role(eks(with_identity(buckets=[READS, WRITES]))).statements
    assert [dict(one) for one in statements] == [
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": "arn:aws:s3:::acme-datasets",
            "Condition": {"StringLike": {"s3:prefix": ["imagenet/*"]}},
        },
        {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": "arn:aws:s3:::acme-checkpoints"},
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject"],
            "Resource": ["arn:aws:s3:::acme-datasets/imagenet/*", "arn:aws:s3:::acme-checkpoints/*"],
        },
        {
            "Effect": "Allow",
            "Action": ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"],
            "Resource": ["arn:aws:s3:::acme-checkpoints/*"],
        },
    ]


def test_a_role_may_use_a_key_only_where_one_is_declared_and_by_s3_alone() -> None:
    statements = role(eks(with_identity(buckets=[{**WRITES, "kms_key": KEY}]))).statements
    keys = [one for one in statements if any(action.startswith("kms:") for action in one["Action"])]
    assert [one["Action"] for one in keys] == [["kms:Decrypt"], ["kms:GenerateDataKey"]]
    by_s3 = {"StringEquals": {"kms:ViaService": "s3.us-east-2.amazonaws.com"}}
    assert all((one["Resource"], one["Condition"]) == ([KEY], by_s3) for one in keys)


def test_an_existing_role_is_associated_unchanged() -> None:
    plan = eks(with_identity(role_arn=ROLE))
    assert (role(plan).role_arn, role(plan).statements) == (ROLE, ())
    assert account(plan).annotations == {}
    assert "aws:RequestTag/kubernetes-namespace vision" in chosen(plan, "identity")


def test_teams_named_alike_have_roles_of_their_own_and_no_name_is_too_long() -> None:
    alike = ["recommendation-models-" + end for end in ("eu", "us", "eu-" + "a" * 30, "eu-" + "a" * 31)]
    teams = [team(name, quota={}, identity={"buckets": [READS]}) for name in alike]
    plan = eks(*teams, cluster={**CREATED, "name": "ml-" + "b" * 60})
    cloud = plan.cluster.cloud
    assert isinstance(cloud, EksClusterPlan)
    assert isinstance(plan.identities, EksIdentities)
    names = [cloud.role_name(one.suffix) for one in plan.identities.roles]
    assert len(set(names)) == len(alike)
    # Pulumi appends 8 characters to a role name, and IAM allows 64.
    assert all(len(name) + 8 <= 64 for name in names)
    assert role_name("ml", "team-vision") == "ml-team-vision"


def test_only_identities_need_the_agent_on_an_existing_eks_cluster() -> None:
    cluster = eks(with_identity(buckets=[READS]), cluster=EXISTING).cluster.cloud
    assert isinstance(cluster, EksClusterPlan)
    assert "vision" in required_addons(cluster)["eks-pod-identity-agent"]
    without = eks(team(), cluster=EXISTING).cluster.cloud
    assert isinstance(without, EksClusterPlan)
    assert "eks-pod-identity-agent" not in required_addons(without)
    assert "eks-pod-identity-agent" in chosen(eks(with_identity(buckets=[READS]), cluster=EXISTING), "identity")


def test_a_gke_role_is_limited_to_one_account_and_the_prefix() -> None:
    identities = gke(with_identity(buckets=[READS, WRITES])).identities
    assert isinstance(identities, GkeIdentities)
    reads, writes = identities.buckets
    assert (reads.team, reads.service_account, reads.role) == ("vision", "team", "roles/storage.objectViewer")
    assert reads.condition is not None
    assert 'resource.name.startsWith("projects/_/buckets/acme-datasets/objects/imagenet/")' in reads.condition
    listed = 'api.getAttribute("storage.googleapis.com/objectListPrefix", "").startsWith("imagenet/")'
    assert reads.condition.endswith(listed)
    assert (writes.role, writes.condition) == ("roles/storage.objectUser", None)


def test_an_existing_google_account_is_used_by_one_service_account() -> None:
    plan = gke(with_identity(google_service_account=ACCOUNT))
    assert isinstance(plan.identities, GkeIdentities)
    [grant] = plan.identities.accounts
    assert (grant.team, grant.service_account, grant.role) == ("vision", "team", "roles/iam.workloadIdentityUser")
    assert grant.account == f"projects/my-project/serviceAccounts/{ACCOUNT}"
    assert account(plan).annotations == {"iam.gke.io/gcp-service-account": ACCOUNT}


def test_roles_on_buckets_of_teams_named_alike_have_different_names() -> None:
    alike = [
        team("a", identity={"buckets": [{"name": "b-data"}]}),
        team("a-b", identity={"buckets": [{"name": "data"}]}),
    ]
    identities = gke(*alike).identities
    assert isinstance(identities, GkeIdentities)
    assert len({one.name for one in identities.buckets}) == 2


@pytest.mark.parametrize(
    ("identity", "annotations"),
    [
        ({"role_arn": ROLE}, {"eks.amazonaws.com/role-arn": ROLE}),
        ({"google_service_account": ACCOUNT}, {"iam.gke.io/gcp-service-account": ACCOUNT}),
    ],
)
def test_an_existing_clusters_service_account_names_the_owners_role(
    identity: dict[str, Any], annotations: dict[str, str]
) -> None:
    plan = on({"provider": "existing", "kubernetes": "1.36"}, with_identity(**identity))
    assert plan.identities is None
    assert account(plan).annotations == annotations


def test_an_existing_cluster_has_no_buckets_and_a_sandbox_no_identity() -> None:
    existing = {"provider": "existing", "kubernetes": "1.36"}
    found = refused(lambda *teams: on(existing, *teams), with_identity(buckets=[READS]))
    assert "only on EKS, GKE and AKS" in found["teams[0].identity.buckets"]
    for identity in ({"role_arn": ROLE}, {"buckets": [READS]}):
        sandbox = {"provider": "sandbox"}
        found = refused(lambda *teams: on(sandbox, *teams), with_identity(**identity))  # noqa: B023
        assert "the cluster does not run in a cloud" in found["teams[0].identity"]


def test_a_role_or_account_of_another_cloud_is_refused() -> None:
    assert "AWS role" in refused(gke, with_identity(role_arn=ROLE))["teams[0].identity.role_arn"]
    found = refused(eks, with_identity(google_service_account=ACCOUNT))
    assert "Google Cloud" in found["teams[0].identity.google_service_account"]
    assert (
        "kms_key"
        in refused(gke, with_identity(buckets=[{**READS, "kms_key": KEY}]))["teams[0].identity.buckets[0].kms_key"]
    )


def test_an_identity_is_either_buckets_or_what_exists() -> None:
    assert "nothing" in refused(eks, with_identity())["teams[0].identity"]
    both = refused(eks, with_identity(buckets=[READS], role_arn=ROLE))["teams[0].identity"]
    assert "buckets and role_arn" in both


def test_a_role_that_two_teams_would_share_is_refused() -> None:
    teams = [team(name, identity={"role_arn": ROLE}) for name in ("vision", "speech")]
    assert "which team vision already uses" in refused(eks, *teams)["teams[1].identity.role_arn"]
    of_stack = refused(eks, with_identity(role_arn=ROLE), team_identities={"speech": {"role_arn": ROLE}})
    assert "which team vision already uses" in of_stack["team_identities.speech.role_arn"]


def test_the_roles_of_nodes_and_of_up_and_roles_of_other_accounts_are_refused() -> None:
    nodes = {**CREATED, "iam": {"node_role": ROLE}}
    place = "teams[0].identity.role_arn"
    assert "which nodes or `up` use" in refused(eks, with_identity(role_arn=ROLE), cluster=nodes)[place]
    other = "arn:aws:iam::210987654321:role/vision"
    assert "the cluster's account, 123456789012" in refused(eks, with_identity(role_arn=other))[place]
    deployer = {**GKE_CREATED, "impersonate": ACCOUNT}
    found = refused(gke, with_identity(google_service_account=ACCOUNT), cluster=deployer)
    assert "which nodes or `up` use" in found["teams[0].identity.google_service_account"]


def test_a_policy_that_iam_would_refuse_is_refused_before() -> None:
    buckets = [{"name": "acme-datasets", "access": "write", "prefix": f"{'p' * 400}{i}"} for i in range(10)]
    assert "at most 10,240" in refused(eks, with_identity(buckets=buckets))["teams[0].identity.buckets"]


def test_a_bucket_named_twice_and_a_name_that_s3_lacks_are_refused() -> None:
    found = refused(eks, with_identity(buckets=[READS, {**READS, "prefix": "imagenet/", "access": "write"}]))
    assert "it is already in buckets[0]" in found["teams[0].identity.buckets[1]"]
    assert (
        "without underscores"
        in refused(eks, with_identity(buckets=[{"name": "acme_data"}]))["teams[0].identity.buckets[0].name"]
    )


def test_a_team_without_identity_and_pull_secrets_has_no_service_account() -> None:
    assert eks(team()).teams[0].service_account is None
    assert eks(team()).identities is None


def test_pull_secrets_are_named_and_no_cloud_is_needed_for_them() -> None:
    plan = on({"provider": "sandbox"}, team(image_pull_secrets=["registry", "ngc.example"]))
    assert account(plan) == ServiceAccountPlan(name="team", image_pull_secrets=("registry", "ngc.example"))
    found = refused(lambda *teams: on({"provider": "sandbox"}, *teams), team(image_pull_secrets=["a", "a"]))
    assert "each name once" in found["teams[0].image_pull_secrets[1]"]


def write_environment(folder: Path, environment: dict[str, Any]) -> Path:
    config = {"config": {"gpu-platform:platform": environment}}
    (folder / "Pulumi.prod.yaml").write_text(yaml.safe_dump(config))
    return folder


def own_stack(**rest: Any) -> dict[str, Any]:
    return {"kind": "team", "environment": {"stack": "prod"}, "team": team("speech", **rest)}


def test_the_environment_grants_an_identity_to_a_team_stack(tmp_path: Path) -> None:
    environment = eks_environment({"zones": ["us-east-2a"]}, team_identities={"speech": {"buckets": [READS]}})
    plan = plan_platform(environment, "prod")
    assert plan.kind == "environment"
    assert isinstance(plan.identities, EksIdentities)
    assert [one.team for one in plan.identities.roles] == ["speech"]
    own = plan_platform(own_stack(), "speech", folder=write_environment(tmp_path, environment))
    found = own.teams[0].service_account
    assert found is not None
    assert (found.name, found.rights) == ("team", ("read s3://acme-datasets/imagenet/",))


def test_the_stack_of_a_team_cannot_give_it_an_identity(tmp_path: Path) -> None:
    environment = eks_environment({"zones": ["us-east-2a"]})
    own = own_stack(identity={"buckets": [READS]})
    with pytest.raises(BadInput) as caught:
        plan_platform(own, "speech", folder=write_environment(tmp_path, environment))
    [problem] = caught.value.problems
    assert problem.path == "team.identity"
    assert "team_identities.speech" in problem.fix


def test_a_team_of_the_environment_has_its_identity_in_teams() -> None:
    found = refused(eks, team(), team_identities={"vision": {"buckets": [READS]}})
    assert "in teams, too" in found["team_identities.vision"]


def test_on_an_existing_cluster_only_the_team_stack_names_the_role(
    tmp_path: Path,
) -> None:
    pool = {"nodes": {"names": ["a"]}}
    environment = {**eks_environment(pool), "cluster": {"provider": "existing", "kubernetes": "1.36"}}
    environment["teams"] = [with_identity(role_arn=ROLE)]
    folder = write_environment(tmp_path, environment)
    own = plan_platform(own_stack(identity={"role_arn": f"{ROLE}-speech"}), "speech", folder=folder)
    found = own.teams[0].service_account
    assert found is not None
    assert found.annotations == {"eks.amazonaws.com/role-arn": f"{ROLE}-speech"}
    with pytest.raises(BadInput, match="which team vision already uses"):
        plan_platform(own_stack(identity={"role_arn": ROLE}), "speech", folder=folder)
    with pytest.raises(BadInput, match="team_identities only on EKS, GKE and AKS"):
        plan_platform({**environment, "team_identities": {"speech": {"role_arn": ROLE}}}, "test")


def test_mistakes_of_pools_and_of_identities_are_reported_in_one_run() -> None:
    pool = {"zones": ["us-east-2a"], "machine_type": "p5.48xlargee"}
    with pytest.raises(BadInput) as caught:
        plan_eks(pool, teams=[team(identity={}, image_pull_secrets=["a", "a"])])
    places = {problem.path for problem in caught.value.problems}
    assert places == {"pools[0].machine_type", "teams[0].identity", "teams[0].image_pull_secrets[1]"}
