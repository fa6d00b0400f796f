"""The resources rendered for team identities on GKE: grants of roles on buckets and on service accounts."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pytest
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs, Mocks

from components.gke.identities import GkeTeamIdentities, GkeTeamIdentitiesArgs
from components.gke.outputs import GkeOutputs
from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.planning.clouds.gke.identities import GkeIdentities
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.stack.loaded import plan_platform
from tests.components.gke.gke_recorded import CREATED, EXISTING, platform_of
from tests.components.known_cloud import deploy_on
from tests.support.recorded import Recorded, record_platform

ACCOUNT = "vision@my-project.iam.gserviceaccount.com"
BUCKETS = [
    {"name": "acme-datasets", "prefix": "imagenet"},
    {"name": "acme-checkpoints", "access": "write"},
]


def team(name: str, **identity: Any) -> dict[str, Any]:
    members = [f"group:{name}@example.com"]
    return {
        "name": name,
        "quota": {"gpus": 1},
        "priority": "training",
        "members": members,
        "identity": identity,
        "workloads": [{"name": "train", "pool": "train", "gpus": 1, "image": "registry.example.com/train:1"}],
    }


def made(*teams: dict[str, Any], cluster: dict[str, Any] = CREATED) -> Recorded:
    platform = json.loads(json.dumps({**platform_of({}, cluster=cluster), "teams": list(teams)}))
    return record_platform(platform)


@pytest.mark.parametrize("cluster", [CREATED, EXISTING])
def test_roles_on_buckets_are_of_the_teams_service_account_below_the_prefix(cluster: dict[str, Any]) -> None:
    recorded = made(team("vision", buckets=BUCKETS), cluster=cluster)
    members = {one.inputs["bucket"]: one.inputs for one in recorded.of("BucketIAMMember")}
    assert members["acme-datasets"]["role"] == "roles/storage.objectViewer"
    assert "objects/imagenet/" in members["acme-datasets"]["condition"]["expression"]
    assert members["acme-checkpoints"]["role"] == "roles/storage.objectUser"
    assert "condition" not in members["acme-checkpoints"]
    assert {one["member"] for one in members.values()} == {UNKNOWN}  # the project number is not known yet


def test_only_the_teams_service_account_may_use_an_existing_account() -> None:
    recorded = made(team("vision", google_service_account=ACCOUNT))
    [grant] = [one for one in recorded.of("IAMMember") if one.type.startswith("gcp:serviceaccount")]
    assert grant.inputs["role"] == "roles/iam.workloadIdentityUser"
    assert grant.inputs["serviceAccountId"] == f"projects/my-project/serviceAccounts/{ACCOUNT}"
    account = recorded.one("ServiceAccount", "vision/team").inputs
    assert account["metadata"]["annotations"] == {"iam.gke.io/gcp-service-account": ACCOUNT}
    assert not recorded.has("BucketIAMMember")


def test_roles_are_granted_after_the_identity_pool_and_before_team_pods() -> None:
    recorded = made(team("vision", buckets=BUCKETS))
    grants = {one.urn for one in recorded.of("BucketIAMMember")}
    assert grants <= set(recorded.one("Namespace", "vision").dependencies)
    [cluster] = [one.urn for one in recorded.of("Cluster") if one.type.startswith("gcp:container")]
    assert all(cluster in one.dependencies for one in recorded.of("BucketIAMMember"))
    pod = recorded.one("Deployment", "vision/train").inputs["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "team"


def test_two_teams_have_separate_members_on_a_shared_bucket() -> None:
    recorded = made(team("vision", buckets=BUCKETS), team("speech", buckets=BUCKETS))
    names = [one.name for one in recorded.of("BucketIAMMember")]
    assert len(names) == len(set(names)) == 4
    assert {name.partition("/")[0] for name in names} == {"vision", "speech"}


def test_every_argument_of_a_member_is_one_of_the_providers() -> None:
    recorded = made(team("vision", buckets=BUCKETS), team("speech", google_service_account=ACCOUNT))
    kinds = {"BucketIAMMember": gcp.storage.BucketIAMMemberArgs, "IAMMember": gcp.serviceaccount.IAMMemberArgs}
    checked = 0
    for record in recorded.resources:
        if "GkeTeamIdentities" not in record.parent or not record.type.startswith("gcp:"):
            continue
        known = {_camel(name) for name in kinds[record.type.rsplit(":", 1)[-1]].__init__.__annotations__}
        assert set(record.inputs) <= known
        checked += 1
    assert checked == 3


class ProjectWithNumber(Mocks):
    """A fake Google Cloud with a known project number. `members` maps buckets and service accounts to the member
    of their IAM grant.
    """

    def __init__(self) -> None:
        self.members: dict[str, str] = {}

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        for key in ("bucket", "serviceAccountId"):
            if key in args.inputs:
                self.members[args.inputs[key]] = args.inputs["member"]
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: MockCallArgs) -> Any:
        assert args.token == "gcp:organizations/getProject:getProject"
        return {**args.args, "number": "123456789"}


def test_a_member_is_a_service_account_in_the_projects_identity_pool() -> None:
    teams = [team("vision", buckets=BUCKETS[:1]), team("speech", google_service_account=ACCOUNT)]
    plan = plan_platform({**platform_of({}), "teams": teams}, "test")
    assert plan.kind == "environment"
    identities, cloud = plan.identities, plan.cluster.cloud
    assert isinstance(identities, GkeIdentities)
    assert isinstance(cloud, GkeClusterPlan)

    def program() -> str:
        outputs = GkeOutputs(
            cluster=pulumi.Output.from_input("ml"),
            network=pulumi.Output.from_input("ml"),
            node_service_account=pulumi.Output.from_input("nodes@example.com"),
            gpu_networks=(),
            provider=gcp.Provider("google"),
        )
        GkeTeamIdentities("ids", GkeTeamIdentitiesArgs(identities=identities, plan=cloud, cluster=outputs))
        return "done"

    google = ProjectWithNumber()
    deploy_on(google, program)
    pool = f"projects/123456789/locations/global/workloadIdentityPools/{cloud.project}.svc.id.goog"
    assert google.members == {
        "acme-datasets": f"principal://iam.googleapis.com/{pool}/subject/ns/vision/sa/team",
        f"projects/my-project/serviceAccounts/{ACCOUNT}": (
            f"principal://iam.googleapis.com/{pool}/subject/ns/speech/sa/team"
        ),
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
