"""The shipped EKS stack, created completely on moto's server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_platform.stack.loaded import load_stack
from tests.components.eks.deploy import deploy
from tests.components.eks.moto_cloud import MotoCloud, moto_cloud

pytestmark = pytest.mark.xdist_group("moto")  # the stack is created once and shared by these tests


@pytest.fixture(scope="module")
def cloud() -> Iterator[MotoCloud]:
    with moto_cloud() as account:
        deploy(load_stack("eks-training"), account)
        yield account


def test_the_shipped_stack_has_its_cluster_with_system_nodes_and_managed_pools(cloud: MotoCloud) -> None:
    eks = cloud.client("eks")
    assert eks.list_clusters()["clusters"] == ["ml-prod"]
    groups = eks.list_nodegroups(clusterName="ml-prod")["nodegroups"]
    assert sorted(groups) == ["serve-1a2b3c4", "system-1a2b3c4", "train"]


def test_every_rule_sends_interruptions_to_the_queue_of_karpenter(cloud: MotoCloud) -> None:
    events = cloud.client("events")
    (queue,) = cloud.client("sqs").list_queues()["QueueUrls"]
    rules = [rule["Name"] for rule in events.list_rules()["Rules"]]
    assert rules
    for rule in rules:
        (target,) = events.list_targets_by_rule(Rule=rule)["Targets"]
        assert target["Arn"].rpartition(":")[2] == queue.rpartition("/")[2]


def test_every_role_trusts_only_a_service_and_has_existing_policies(cloud: MotoCloud) -> None:
    iam = cloud.client("iam")
    roles = iam.list_roles()["Roles"]
    assert roles
    for role in roles:
        for statement in role["AssumeRolePolicyDocument"]["Statement"]:
            assert set(statement["Principal"]) == {"Service"}, role["RoleName"]
        attached = iam.list_attached_role_policies(RoleName=role["RoleName"])["AttachedPolicies"]
        written = iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]
        assert attached or written, f"{role['RoleName']} may do nothing"


def test_private_subnets_have_nat_and_public_ones_an_internet_gateway(cloud: MotoCloud) -> None:
    ec2 = cloud.client("ec2")
    cluster = cloud.client("eks").describe_cluster(name="ml-prod")["cluster"]
    private = set(cluster["resourcesVpcConfig"]["subnetIds"])
    vpc_id = ec2.describe_subnets(SubnetIds=sorted(private))["Subnets"][0]["VpcId"]
    tables = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])["RouteTables"]
    ways_out: dict[str, list[str]] = {}  # for each subnet, the kinds of gateways in its default routes
    for table in tables:
        out = [route for route in table["Routes"] if route.get("DestinationCidrBlock") == "0.0.0.0/0"]
        ways = ["NatGatewayId" if "NatGatewayId" in route else "GatewayId" for route in out]
        ways_out |= {one["SubnetId"]: ways for one in table["Associations"] if "SubnetId" in one}
    public = ways_out.keys() - private
    assert len(public) == len(private) > 0
    assert [ways_out[subnet] for subnet in private] == [["NatGatewayId"]] * len(private)
    assert [ways_out[subnet] for subnet in public] == [["GatewayId"]] * len(public)


def test_the_autoscaler_discovers_the_group_of_the_pool_with_a_range_and_no_other(cloud: MotoCloud) -> None:
    found = cloud.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    assert len(found) == 3, "the groups of serve, train and the system nodes"
    by_tag = {
        "k8s.io/cluster-autoscaler/ml-prod": "owned",
        "gpu-platform.dev/cluster-autoscaler": "ml-prod",
    }
    discovered = [
        group for group in found if by_tag.items() <= {one["Key"]: one["Value"] for one in group["Tags"]}.items()
    ]
    (scaled,) = discovered
    nodes = cloud.client("eks").describe_nodegroup(clusterName="ml-prod", nodegroupName="serve-1a2b3c4")
    assert nodes["nodegroup"]["resources"]["autoScalingGroups"] == [{"name": scaled["AutoScalingGroupName"]}]
