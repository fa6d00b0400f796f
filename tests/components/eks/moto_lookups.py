"""An existing cluster in a moto account, and the results of the AWS provider's functions for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_platform.planning.clouds.eks.existing_cluster import SUBNET_TAG
from tests.components.eks.moto_cloud import REGION, MotoCloud

_SERVICE_CIDR = "172.20.0.0/16"


def make_cluster(cloud: MotoCloud, name: str, zones: tuple[str, ...]) -> None:
    """Create a cluster outside the program, with a private subnet in each zone."""
    ec2 = cloud.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = []
    for index, zone in enumerate(zones):
        made = ec2.create_subnet(
            VpcId=vpc_id,
            AvailabilityZone=zone,
            CidrBlock=f"10.0.{index}.0/24",
            TagSpecifications=[{"ResourceType": "subnet", "Tags": [{"Key": SUBNET_TAG, "Value": "1"}]}],
        )
        subnets.append(made["Subnet"]["SubnetId"])
    cloud.client("eks").create_cluster(
        name=name,
        version="1.34",
        roleArn="arn:aws:iam::123456789012:role/cluster",
        resourcesVpcConfig={"subnetIds": subnets},
    )
    cloud.make_cluster_security_group(subnets)


def answer(cloud: MotoCloud, function: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a provider function. Raises KeyError for an unknown function."""
    return _FUNCTIONS[function](cloud, arguments)


def _get_cluster(cloud: MotoCloud, arguments: Mapping[str, Any]) -> dict[str, Any]:
    cluster = cloud.client("eks").describe_cluster(name=arguments["name"])["cluster"]
    subnets = cluster["resourcesVpcConfig"]["subnetIds"]
    vpc_id = cloud.client("ec2").describe_subnets(SubnetIds=subnets)["Subnets"][0]["VpcId"]
    return {
        "name": cluster["name"],
        "version": cluster["version"],
        "endpoint": cluster["endpoint"],
        "certificateAuthorities": [{"data": cluster["certificateAuthority"]["data"]}],
        "accessConfigs": [{"authenticationMode": "API"}],
        "kubernetesNetworkConfigs": [{"serviceIpv4Cidr": _SERVICE_CIDR}],
        "vpcConfig": {
            "vpcId": vpc_id,
            "subnetIds": subnets,
            "clusterSecurityGroupId": cloud.cluster_security_group_id,
        },
    }


def _get_subnets(cloud: MotoCloud, arguments: Mapping[str, Any]) -> dict[str, Any]:
    filters = [{"Name": one["name"], "Values": one["values"]} for one in arguments["filters"]]
    filters += [{"Name": f"tag:{key}", "Values": [value]} for key, value in arguments["tags"].items()]
    found = cloud.client("ec2").describe_subnets(Filters=filters)["Subnets"]
    return {"ids": [subnet["SubnetId"] for subnet in found], "region": REGION}


def _get_addon(_: MotoCloud, __: Mapping[str, Any]) -> dict[str, Any]:
    return {"addonVersion": "v1.20.4-eksbuild.2"}  # moto has no add-ons


_FUNCTIONS = {
    "aws:eks/getCluster:getCluster": _get_cluster,
    "aws:ec2/getSubnets:getSubnets": _get_subnets,
    "aws:eks/getAddon:getAddon": _get_addon,
}
