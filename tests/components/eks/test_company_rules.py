"""An EKS cluster with a company's VPC, IAM boundary, tags and customer-managed key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.eks.prerequisites import eks_prerequisites
from tests.components.eks.aws_model import problems
from tests.components.eks.aws_requests import requests_of
from tests.support.eks_stacks import CREATED, EXISTING, plan_eks, record_eks
from tests.support.recorded import Recorded

SUBNETS = {"us-east-2a": "subnet-0a1b2c3d4e5f60718", "us-east-2b": "subnet-1a1b2c3d4e5f60718"}
NETWORK = {"vpc": "vpc-0a1b2c3d4e5f60718", "subnets": SUBNETS}
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"
KEY = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
ROLE = "arn:aws:iam::123456789012:role/shared/gpu-nodes"
TRAIN = {"zones": ["us-east-2a"]}
DEVELOP = {
    "name": "develop",
    "machine_type": "g6.4xlarge",
    "workload": "development",
    "provisioner": "karpenter",
    "count": {"desired": 0, "max": 2},
    "zones": ["us-east-2b"],
}


def cluster(create: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    return {**CREATED, "create": {**CREATED["create"], **(create or {})}, **rest}


def made(create: dict[str, Any] | None = None, **rest: Any) -> Recorded:
    return record_eks(TRAIN, DEVELOP, cluster=cluster(create, **rest))


def refused(create: dict[str, Any] | None = None, *pools: dict[str, Any], **rest: Any) -> set[str]:
    with pytest.raises(BadInput) as caught:
        plan_eks(*(pools or (TRAIN,)), cluster=cluster(create, **rest))
    return {problem.path for problem in caught.value.problems}


def test_a_new_cluster_in_an_existing_vpc_creates_no_network_and_uses_its_subnets() -> None:
    recorded = made({"network": NETWORK})
    for kind in ("Vpc", "Subnet", "NatGateway", "RouteTable", "InternetGateway"):
        assert not [one for one in recorded.resources if one.type.endswith(f":{kind}")], kind
    [eks] = recorded.of("Cluster")
    assert set(eks.inputs["vpcConfig"]["subnetIds"]) == set(SUBNETS.values())
    assert recorded.one("NodeGroup", "train").inputs["subnetIds"] == [SUBNETS["us-east-2a"]]
    assert set(recorded.one("NodeGroup", "system").inputs["subnetIds"]) == set(SUBNETS.values())


def test_the_control_plane_can_have_separate_subnets() -> None:
    own = ["subnet-2a1b2c3d4e5f60718", "subnet-3a1b2c3d4e5f60718"]
    only = {"us-east-2a": SUBNETS["us-east-2a"]}
    recorded = record_eks(
        TRAIN, cluster=cluster({"network": {**NETWORK, "subnets": only, "control_plane_subnets": own}})
    )
    [eks] = recorded.of("Cluster")
    assert eks.inputs["vpcConfig"]["subnetIds"] == own
    assert recorded.one("NodeGroup", "train").inputs["subnetIds"] == [SUBNETS["us-east-2a"]]


LOCAL = "us-east-2-dfw-2a"
CONTROL_PLANE = ["subnet-3a1b2c3d4e5f60718", "subnet-4a1b2c3d4e5f60718"]


def test_only_pools_that_name_a_local_zone_are_in_it() -> None:
    local = "subnet-2a1b2c3d4e5f60718"
    network = {**NETWORK, "subnets": {LOCAL: local, **SUBNETS}, "control_plane_subnets": CONTROL_PLANE}
    recorded = record_eks(
        {"zones": [LOCAL], "machine_type": "g4dn.12xlarge", "workload": "inference"},
        {"name": "anywhere", "machine_type": "g6.12xlarge", "workload": "inference"},
        {key: value for key, value in DEVELOP.items() if key != "zones"},
        cluster=cluster({"network": network}),
        storage={"shared": {"type": "nfs"}},
    )
    assert recorded.one("NodeGroup", "train").inputs["subnetIds"] == [local]
    for name in ("system", "anywhere"):
        assert recorded.one("NodeGroup", name).inputs["subnetIds"] == list(SUBNETS.values())
    terms = recorded.one("EC2NodeClass", "develop").inputs["spec"]["subnetSelectorTerms"]
    assert terms == [{"id": subnet} for subnet in SUBNETS.values()]
    assert [one.inputs["subnetId"] for one in recorded.of("MountTarget")] == list(SUBNETS.values())


def test_a_mount_target_is_deleted_before_its_successor_since_a_zone_has_one() -> None:
    recorded = record_eks({}, cluster=cluster({"network": NETWORK}), storage={"shared": {"type": "nfs"}})
    assert [one.delete_before_replace for one in recorded.of("MountTarget")] == [True, True]


def test_a_vpc_with_subnets_in_local_zones_only_is_refused() -> None:
    network = {"vpc": NETWORK["vpc"], "subnets": {LOCAL: SUBNETS["us-east-2a"]}}
    local = {"zones": [LOCAL], "machine_type": "g4dn.12xlarge", "workload": "inference"}
    found = refused({"network": {**network, "control_plane_subnets": CONTROL_PLANE}}, local)
    assert found == {"cluster.create.network.subnets"}


def test_mistakes_about_an_existing_vpc_are_found_together() -> None:
    one_zone = {"vpc": NETWORK["vpc"], "subnets": {"us-east-2b": SUBNETS["us-east-2b"]}}
    assert refused({"network": one_zone, "cidr": "10.8.0.0/16", "nat": "one"}) == {
        "cluster.create.cidr",
        "cluster.create.nat",
        "cluster.create.network.subnets",
    }


def test_a_first_up_in_an_existing_vpc_needs_no_public_access() -> None:
    plan = plan_eks(TRAIN, cluster=cluster({"network": NETWORK, "api_access": ["10.0.0.0/16"]}))
    assert plan.cluster.cloud is not None
    assert plan.cluster.cloud.first_up_problem is None
    new = plan_eks(TRAIN, cluster=cluster())
    assert new.cluster.cloud is not None
    assert new.cluster.cloud.first_up_problem is not None


def test_an_existing_vpc_needs_no_reachability_warning_and_no_address_quota() -> None:
    plan = plan_eks(TRAIN, cluster=cluster({"network": NETWORK, "api_access": ["10.0.0.0/16"]}))
    [api] = [one for one in plan.decisions if one.what.endswith("API server")]
    assert (api.what, "`up` is refused" in api.why) == ("API server", False)
    assert plan.cluster.cloud is not None
    quotas = eks_prerequisites(plan.cluster.cloud, ["aws:eks/cluster:Cluster"]).quotas
    assert [one.name for one in quotas if one.name and "Elastic" in one.name] == []


def test_every_role_has_the_path_and_the_boundary_of_the_company() -> None:
    recorded = made(iam={"path": "/gpu/", "permissions_boundary": BOUNDARY})
    roles = recorded.of("Role")
    assert len([one for one in roles if one.type.startswith("aws:iam")]) >= 5
    for role in (one for one in roles if one.type.startswith("aws:iam")):
        assert (role.inputs["path"], role.inputs["permissionsBoundary"]) == ("/gpu/", BOUNDARY), role.name


@pytest.mark.parametrize("where", [CREATED, EXISTING])
def test_an_existing_role_of_the_nodes_is_used_and_none_is_created_for_node_groups(where: dict[str, Any]) -> None:
    recorded = record_eks(TRAIN, cluster={**where, "iam": {"node_role": ROLE}})
    assert recorded.one("NodeGroup", "train").inputs["nodeRoleArn"] == ROLE
    assert not [one for one in recorded.of("Role") if one.name == "ml-nodes"]


def test_company_tags_are_on_everything_that_aws_creates() -> None:
    recorded = made(tags={"cost-center": "ml-4711"})
    [provider] = [one for one in recorded.resources if one.type == "pulumi:providers:aws"]
    default = provider.inputs["defaultTags"]
    tags = (json.loads(default) if isinstance(default, str) else default)["tags"]
    assert tags["cost-center"] == "ml-4711"
    for template in recorded.of("LaunchTemplate"):
        for one in template.inputs["tagSpecifications"]:
            assert one["tags"]["cost-center"] == "ml-4711", template.name
    assert recorded.one("EC2NodeClass", "develop").inputs["spec"]["tags"]["cost-center"] == "ml-4711"
    [cni] = [one for one in recorded.of("Addon") if one.inputs["addonName"] == "vpc-cni"]
    environment = json.loads(cni.inputs["configurationValues"])["env"]
    assert json.loads(environment["ADDITIONAL_ENI_TAGS"]) == {"cost-center": "ml-4711"}
    assert refused(tags={"aws:owner": "me"}) == {"cluster.tags.aws:owner"}


def test_up_and_the_kubeconfig_assume_the_declared_role() -> None:
    role = "arn:aws:iam::123456789012:role/deployer"
    recorded = made({"admins": [role]}, assume_role=role)
    [provider] = [one for one in recorded.resources if one.type == "pulumi:providers:aws"]
    assert role in json.dumps(provider.inputs["assumeRoles"])


def test_an_existing_key_encrypts_the_secrets_and_none_is_created() -> None:
    recorded = made({"kms_key": KEY})
    assert not [one for one in recorded.resources if one.type == "aws:kms/key:Key"]
    [eks] = recorded.of("Cluster")
    assert eks.inputs["encryptionConfig"]["provider"]["keyArn"] == KEY
    policy = json.loads(recorded.one("RolePolicy", "ml-cluster-secrets").inputs["policy"])
    assert policy["Statement"][0]["Resource"] == KEY


def test_every_request_of_such_a_cluster_passes_the_models_of_the_aws_api() -> None:
    recorded = made(
        {"network": NETWORK, "kms_key": KEY},
        iam={"path": "/gpu/", "permissions_boundary": BOUNDARY},
        tags={"cost-center": "ml"},
    )
    for record in (one for one in recorded.resources if one.type.startswith("aws:") and not one.external):
        for request in requests_of(record):
            found = [one for one in problems(request) if "'unknown' does not match" not in one]
            assert found == [], record.urn
