"""The requests that the AWS provider makes for a cluster's resources: VPC, roles, the cluster and add-ons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.components.eks.aws_api import (
    OWN_ID,
    SUFFIX,
    Call,
    NotInTheApi,
    ProvidersOwn,
    Spelt,
    Table,
    call,
    tags,
    without,
)

Inputs = Mapping[str, Any]
Maker = Callable[[str, Inputs], list[Call]]

_TABLE: Table = {
    # inputs that the provider names differently
    ("CreateClusterRequest", "vpcConfig"): Spelt("resourcesVpcConfig"),
    ("CreateClusterRequest", "encryptionConfig"): Spelt("encryptionConfig", lambda one: [one]),
    ("CreateClusterRequest", "enabledClusterLogTypes"): Spelt(
        "logging", lambda types: {"clusterLogging": [{"types": types, "enabled": True}]}
    ),
    ("CreateAddonRequest", "resolveConflictsOnCreate"): Spelt("resolveConflicts"),
    ("CreateRoleRequest", "assumeRolePolicy"): Spelt("AssumeRolePolicyDocument"),
    ("AttachRolePolicyRequest", "role"): Spelt("RoleName"),
    ("PutRolePolicyRequest", "role"): Spelt("RoleName"),
    ("PutRolePolicyRequest", "policy"): Spelt("PolicyDocument"),
    # inputs that only a later request sends
    ("CreateAddonRequest", "resolveConflictsOnUpdate"): ProvidersOwn("of UpdateAddon"),
    ("CreateKeyRequest", "deletionWindowInDays"): ProvidersOwn("of ScheduleKeyDeletion"),
}


def _eks(operation: str) -> Maker:
    return lambda _, inputs: [call("eks", operation, inputs, _TABLE)]


def _cluster(name: str, inputs: Inputs) -> list[Call]:
    return [call("eks", "CreateCluster", {"name": name + SUFFIX, **inputs}, _TABLE)]


def _ec2(operation: str, kind: str) -> Maker:
    return lambda _, inputs: [
        call("ec2", operation, {**without(inputs, "tags"), **tags(kind, inputs)}, _TABLE),
    ]


def _attributes(operation: str, own: str, inputs: Inputs, *keys: str) -> list[Call]:
    """Return one request for each attribute. EC2 changes only one attribute per request, after it has created the
    resource.
    """
    return [call("ec2", operation, {own: OWN_ID, key: {"value": inputs[key]}}) for key in keys if key in inputs]


def _vpc(_: str, inputs: Inputs) -> list[Call]:
    later = ("enableDnsSupport", "enableDnsHostnames")
    made = call("ec2", "CreateVpc", {**without(inputs, "tags", *later), **tags("vpc", inputs)})
    return [made, *_attributes("ModifyVpcAttribute", "vpcId", inputs, *later)]


def _subnet(_: str, inputs: Inputs) -> list[Call]:
    later = ("mapPublicIpOnLaunch",)
    made = call("ec2", "CreateSubnet", {**without(inputs, "tags", *later), **tags("subnet", inputs)})
    return [made, *_attributes("ModifySubnetAttribute", "subnetId", inputs, *later)]


def _internet_gateway(_: str, inputs: Inputs) -> list[Call]:
    made = call(
        "ec2", "CreateInternetGateway", {**without(inputs, "tags", "vpcId"), **tags("internet-gateway", inputs)}
    )
    attached = {"internetGatewayId": OWN_ID, "vpcId": inputs["vpcId"]}
    return [made, call("ec2", "AttachInternetGateway", attached)]


def _route_table(_: str, inputs: Inputs) -> list[Call]:
    made = call("ec2", "CreateRouteTable", {**without(inputs, "tags", "routes"), **tags("route-table", inputs)})
    routes = [
        {"routeTableId": OWN_ID, "destinationCidrBlock": route["cidrBlock"], **without(route, "cidrBlock")}
        for route in inputs["routes"]
    ]
    return [made, *(call("ec2", "CreateRoute", route) for route in routes)]


def _default_security_group(_: str, inputs: Inputs) -> list[Call]:
    """Return the request that looks up the default security group. The provider does not create this group, but
    revokes its rules.
    """
    if set(inputs) - {"vpcId", "ingress", "egress", "tags"} or inputs["ingress"] or inputs["egress"]:
        raise NotInTheApi(f"no mapping for these inputs of a default security group: {inputs}")
    filters = [{"name": "vpc-id", "values": [inputs["vpcId"]]}, {"name": "group-name", "values": ["default"]}]
    return [call("ec2", "DescribeSecurityGroups", {"filters": filters})]


def _key(_: str, inputs: Inputs) -> list[Call]:
    made = call("kms", "CreateKey", without(inputs, "enableKeyRotation"), _TABLE)
    rotated = [call("kms", "EnableKeyRotation", {"keyId": OWN_ID})] if inputs.get("enableKeyRotation") else []
    return [made, *rotated]


def _role(name: str, inputs: Inputs) -> list[Call]:
    role = {"roleName": inputs.get("name", name + SUFFIX)}
    return [call("iam", "CreateRole", {**role, **without(inputs, "name")}, _TABLE)]


def _role_policy(name: str, inputs: Inputs) -> list[Call]:
    policy = {"policyName": inputs.get("name", name + SUFFIX)}
    return [call("iam", "PutRolePolicy", {**policy, **without(inputs, "name")}, _TABLE)]


def _log_group(name: str, inputs: Inputs) -> list[Call]:
    group = inputs.get("name", name + SUFFIX)
    made = call("logs", "CreateLogGroup", {"logGroupName": group, **without(inputs, "name", "retentionInDays")})
    if "retentionInDays" not in inputs:
        return [made]
    kept = {"logGroupName": group, "retentionInDays": inputs["retentionInDays"]}
    return [made, call("logs", "PutRetentionPolicy", kept)]


_QUEUE_ATTRIBUTES = {
    "messageRetentionSeconds": "MessageRetentionPeriod",
    "sqsManagedSseEnabled": "SqsManagedSseEnabled",
}


def _queue(name: str, inputs: Inputs) -> list[Call]:
    attributes = {api: str(inputs[key]).lower() for key, api in _QUEUE_ATTRIBUTES.items() if key in inputs}
    queue = {"queueName": inputs.get("name", name + SUFFIX), "attributes": attributes}
    return [call("sqs", "CreateQueue", {**queue, **without(inputs, "name", *_QUEUE_ATTRIBUTES)})]


def _queue_policy(_: str, inputs: Inputs) -> list[Call]:
    attributes = {"attributes": {"Policy": inputs["policy"]}}
    return [call("sqs", "SetQueueAttributes", {**attributes, **without(inputs, "policy")})]


def _event_rule(name: str, inputs: Inputs) -> list[Call]:
    return [call("events", "PutRule", {"name": name + SUFFIX, **inputs})]


def _event_target(_: str, inputs: Inputs) -> list[Call]:
    target = {**without(inputs, "rule", "targetId"), "id": inputs["targetId"]}
    return [call("events", "PutTargets", {"rule": inputs["rule"], "targets": [target]})]


def _file_system(name: str, inputs: Inputs) -> list[Call]:
    token = {"creationToken": inputs.get("creationToken", name + SUFFIX)}
    return [call("efs", "CreateFileSystem", {**token, **without(inputs, "creationToken")})]


CLUSTER_MAKERS: Mapping[str, Maker] = {
    "aws:efs/fileSystem:FileSystem": _file_system,
    "aws:efs/mountTarget:MountTarget": lambda _, inputs: [call("efs", "CreateMountTarget", inputs)],
    "aws:ec2/vpc:Vpc": _vpc,
    "aws:ec2/vpcIpv4CidrBlockAssociation:VpcIpv4CidrBlockAssociation": lambda _, inputs: [
        call("ec2", "AssociateVpcCidrBlock", inputs)
    ],
    "aws:ec2/subnet:Subnet": _subnet,
    "aws:ec2/internetGateway:InternetGateway": _internet_gateway,
    "aws:ec2/eip:Eip": _ec2("AllocateAddress", "elastic-ip"),
    "aws:ec2/natGateway:NatGateway": _ec2("CreateNatGateway", "natgateway"),
    "aws:ec2/routeTable:RouteTable": _route_table,
    "aws:ec2/routeTableAssociation:RouteTableAssociation": lambda _, inputs: [
        call("ec2", "AssociateRouteTable", inputs)
    ],
    "aws:ec2/vpcEndpoint:VpcEndpoint": _ec2("CreateVpcEndpoint", "vpc-endpoint"),
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": _default_security_group,
    "aws:kms/key:Key": _key,
    "aws:cloudwatch/logGroup:LogGroup": _log_group,
    "aws:sqs/queue:Queue": _queue,
    "aws:sqs/queuePolicy:QueuePolicy": _queue_policy,
    "aws:cloudwatch/eventRule:EventRule": _event_rule,
    "aws:cloudwatch/eventTarget:EventTarget": _event_target,
    "aws:iam/role:Role": _role,
    "aws:iam/rolePolicy:RolePolicy": _role_policy,
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": lambda _, inputs: [
        call("iam", "AttachRolePolicy", inputs, _TABLE)
    ],
    "aws:eks/cluster:Cluster": _cluster,
    "aws:eks/addon:Addon": _eks("CreateAddon"),
    "aws:eks/accessEntry:AccessEntry": _eks("CreateAccessEntry"),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": _eks("AssociateAccessPolicy"),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": _eks("CreatePodIdentityAssociation"),
}
