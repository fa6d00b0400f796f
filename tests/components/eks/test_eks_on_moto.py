"""EKS pools of every form, created with boto3 on moto's server in the program's order, and read back."""

from __future__ import annotations

import base64
import email
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from typing import Any, cast

import pytest
import yaml

from tests.components.eks.deploy import deploy
from tests.components.eks.moto_cloud import MotoCloud, moto_cloud
from tests.components.eks.moto_lookups import make_cluster
from tests.components.eks.pool_forms import FORMS
from tests.support.eks_stacks import CREATED, EXISTING, load_eks, record_eks
from tests.support.recorded import Recorded

pytestmark = pytest.mark.xdist_group("moto")  # the stack is created once and shared by these tests
WITH_EFA = [name for name in FORMS if name.startswith("p")]


@dataclass(frozen=True)
class Deployed:
    """A stack that is deployed in a moto account."""

    recorded: Recorded
    cloud: MotoCloud

    def id_of(self, kind: str, name: str) -> str:
        return self.cloud.ids[self.recorded.one(kind, name).urn]

    def parameters(self, operation: str, name: str) -> dict[str, Any]:
        """Return the parameters of the request for the pool `name`."""
        (found,) = [
            call.parameters
            for call in self.cloud.sent
            if call.operation == operation and self._belongs(call.parameters, name)
        ]
        return found

    def _belongs(self, parameters: dict[str, Any], name: str) -> bool:
        own = parameters.get("LaunchTemplateName") or parameters.get("nodegroupName") or ""
        return own in (name, f"{name}-1a2b3c4")

    def launch_template(self, pool: str) -> dict[str, Any]:
        """Return the data of the launch template as EC2 describes it."""
        versions = self.cloud.client("ec2").describe_launch_template_versions(
            LaunchTemplateId=self.id_of("LaunchTemplate", pool)
        )["LaunchTemplateVersions"]
        assert len(versions) == 1
        return versions[0]["LaunchTemplateData"]

    def node_group(self, pool: str) -> dict[str, Any]:
        """Return the node group as EKS describes it."""
        cluster, _, name = self.id_of("NodeGroup", pool).partition(":")
        return self.cloud.client("eks").describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]

    def cluster(self) -> dict[str, Any]:
        return self.cloud.client("eks").describe_cluster(name="ml")["cluster"]

    def efa_group(self) -> dict[str, Any]:
        (record,) = [r for r in self.recorded.of("SecurityGroup") if "efa" in r.name]
        groups = self.cloud.client("ec2").describe_security_groups(GroupIds=[self.cloud.ids[record.urn]])
        return groups["SecurityGroups"][0]


POOLS = [{**form, "name": name} for name, form in FORMS.items()]
LOOKED_UP = {key: value for key, value in EXISTING.items() if key != "subnets"}


@pytest.fixture(scope="module", params=["made", "found"])
def up(request: pytest.FixtureRequest) -> Iterator[Deployed]:
    """Deploy a stack with a pool of every form, on a new cluster or on an existing cluster."""
    with moto_cloud() as cloud:
        if request.param == "found":
            make_cluster(cloud, "ml", ("us-east-2a", "us-east-2b"))
        stack = load_eks(*POOLS, cluster=CREATED if request.param == "made" else LOOKED_UP)
        yield Deployed(deploy(stack, cloud), cloud)


@pytest.mark.parametrize("pool", FORMS)
def test_the_launch_template_that_exists_is_the_one_that_was_requested(up: Deployed, pool: str) -> None:
    asked = up.parameters("CreateLaunchTemplate", pool)
    there = up.launch_template(pool)
    # moto returns the template's own tags in addition to the tags of its instances.
    there["TagSpecifications"] = [
        one for one in there["TagSpecifications"] if one["ResourceType"] != "launch-template"
    ]
    assert there == asked["LaunchTemplateData"]


@pytest.mark.parametrize("pool", FORMS)
def test_the_node_group_that_exists_is_the_one_that_was_requested(up: Deployed, pool: str) -> None:
    asked = up.parameters("CreateNodegroup", pool)
    there = up.node_group(pool)
    not_kept_by_moto = {"updateConfig", "nodeRepairConfig"}
    template = asked["launchTemplate"]
    assert there["launchTemplate"].items() >= template.items()
    for key in set(asked) - not_kept_by_moto - {"launchTemplate"}:
        assert there[key] == asked[key], key


@pytest.mark.parametrize("pool", FORMS)
def test_a_node_group_has_the_newest_version_of_its_own_template(up: Deployed, pool: str) -> None:
    assert up.node_group(pool)["launchTemplate"]["id"] == up.id_of("LaunchTemplate", pool)
    assert up.node_group(pool)["launchTemplate"]["version"] == "1"


@pytest.mark.parametrize("pool", WITH_EFA)
def test_eks_2_every_interface_has_the_cluster_and_efa_security_groups(up: Deployed, pool: str) -> None:
    groups = [up.cloud.cluster_security_group_id, up.efa_group()["GroupId"]]
    assert [one["Groups"] for one in up.launch_template(pool)["NetworkInterfaces"]] == [groups] * len(
        up.launch_template(pool)["NetworkInterfaces"]
    )


def test_eks_3_the_efa_security_group_allows_all_protocols_within_itself(up: Deployed) -> None:
    group = up.efa_group()
    for permissions in (group["IpPermissions"], group["IpPermissionsEgress"]):
        assert [one["IpProtocol"] for one in permissions] == ["-1"]
        assert [pair["GroupId"] for pair in permissions[0]["UserIdGroupPairs"]] == [group["GroupId"]]
        assert permissions[0]["IpRanges"] == []


@pytest.mark.parametrize("pool", WITH_EFA)
def test_eks_4_one_zone_only_that_of_the_offering(up: Deployed, pool: str) -> None:
    subnets = up.cloud.client("ec2").describe_subnets(SubnetIds=up.node_group(pool)["subnets"])["Subnets"]
    assert [one["AvailabilityZone"] for one in subnets] == ["us-east-2a"]


def test_user_data_of_an_own_image_names_the_cluster_that_exists(up: Deployed) -> None:
    message = email.message_from_bytes(base64.b64decode(up.launch_template("own-image")["UserData"]))
    (part,) = cast("list[Message]", message.get_payload())
    cluster = up.cluster()
    assert yaml.safe_load(cast("str", part.get_payload()))["spec"]["cluster"] == {
        "name": cluster["name"],
        "apiServerEndpoint": cluster["endpoint"],
        "certificateAuthority": cluster["certificateAuthority"]["data"],
        "cidr": "172.20.0.0/16",
    }


@pytest.mark.parametrize("pool", FORMS)
def test_nodes_come_up_in_private_subnets_of_the_cluster(up: Deployed, pool: str) -> None:
    private = set(up.cluster()["resourcesVpcConfig"]["subnetIds"])
    used = set(up.node_group(pool)["subnets"])
    assert used <= private
    if pool not in WITH_EFA:
        assert used == private, "a pool that names no zone may use all zones"


def test_a_deploy_makes_what_the_preview_said(up: Deployed) -> None:
    created = up.recorded.has("Vpc")
    preview = record_eks(*POOLS, cluster=CREATED if created else LOOKED_UP)
    assert [r.urn for r in preview.resources if r.custom]
    assert {r.urn for r in up.recorded.resources} == {r.urn for r in preview.resources}


def test_operations_missing_in_moto_are_checked_against_the_models(up: Deployed) -> None:
    assert {call.operation for call in up.cloud.not_in_moto} <= {
        "CreatePlacementGroup",
        "CreateAddon",
        "CreateAccessEntry",
        "AssociateAccessPolicy",
        "CreatePodIdentityAssociation",
    }
