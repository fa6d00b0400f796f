"""The requests that the AWS provider makes for each kind of resource that the EKS components register."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpu_platform.deploy.recorded.record import ResourceRecord
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
from tests.components.eks.aws_cluster_requests import CLUSTER_MAKERS

Inputs = Mapping[str, Any]


def requests_of(record: ResourceRecord) -> list[Call]:
    """Return the requests that the provider makes to create a resource. Raises NotInTheApi for an unknown kind."""
    maker = _MAKERS.get(record.type)
    if maker is None:
        raise NotInTheApi(f"{record.urn}: no mapping for {record.type}")
    return maker(record.name, record.true_inputs)


def _placement_group(name: str, inputs: Inputs) -> list[Call]:
    named = {"groupName": inputs.get("name", name + SUFFIX), **tags("placement-group", inputs)}
    return [call("ec2", "CreatePlacementGroup", {**named, **without(inputs, "name", "tags")})]


_TEMPLATE: Table = {
    ("LaunchTemplateInstanceNetworkInterfaceSpecificationRequest", "securityGroups"): Spelt("Groups"),
    ("RequestLaunchTemplateData", "vpcSecurityGroupIds"): Spelt("SecurityGroupIds"),
    ("RequestLaunchTemplateData", "updateDefaultVersion"): ProvidersOwn("a later ModifyLaunchTemplate"),
}


def _launch_template(name: str, inputs: Inputs) -> list[Call]:
    parameters = {
        "launchTemplateName": inputs.get("name", name + SUFFIX),
        "launchTemplateData": without(inputs, "name", "tags"),
        **tags("launch-template", inputs),
    }
    return [call("ec2", "CreateLaunchTemplate", parameters, _TEMPLATE)]


_NODE_GROUP: Table = {
    ("CreateNodegroupRequest", "nodeRoleArn"): Spelt("nodeRole"),
    ("CreateNodegroupRequest", "subnetIds"): Spelt("subnets"),
}


def _node_group(name: str, inputs: Inputs) -> list[Call]:
    own = {"nodegroupName": inputs.get("nodeGroupName", name + SUFFIX)}
    return [call("eks", "CreateNodegroup", {**own, **without(inputs, "nodeGroupName")}, _NODE_GROUP)]


def _scheduled_action(_: str, inputs: Inputs) -> list[Call]:
    # The provider omits sizes of -1 (terraform-provider-aws, internal/service/autoscaling/schedule.go).
    sizes = ("minSize", "maxSize", "desiredCapacity")
    sent = {key: value for key, value in inputs.items() if key not in sizes or value != -1}
    return [call("autoscaling", "PutScheduledUpdateGroupAction", sent)]


def _security_group(name: str, inputs: Inputs) -> list[Call]:
    group = {"groupName": inputs.get("name", name + SUFFIX), **tags("security-group", inputs)}
    made = call("ec2", "CreateSecurityGroup", {**group, **without(inputs, "name", "tags")})
    # A new security group allows all egress traffic. The provider removes that rule.
    anywhere = {"ipProtocol": "-1", "ipRanges": [{"cidrIp": "0.0.0.0/0"}]}
    closed = call("ec2", "RevokeSecurityGroupEgress", {"groupId": OWN_ID, "ipPermissions": [anywhere]})
    return [made, closed]


def _rule(operation: str) -> Callable[[str, Inputs], list[Call]]:
    """Return a function that makes the requests for a rule between two security groups."""

    def make(_: str, inputs: Inputs) -> list[Call]:
        permission = {
            "userIdGroupPairs": [{"groupId": inputs["referencedSecurityGroupId"]}],
            **without(inputs, "securityGroupId", "referencedSecurityGroupId", "tags"),
        }
        rule = {"groupId": inputs["securityGroupId"], "ipPermissions": [permission]}
        return [call("ec2", operation, {**rule, **tags("security-group-rule", inputs)})]

    return make


def _group_tag(_: str, inputs: Inputs) -> list[Call]:
    tag = {
        "resourceId": inputs["autoscalingGroupName"],
        "resourceType": "auto-scaling-group",
        **inputs["tag"],
    }
    return [call("autoscaling", "CreateOrUpdateTags", {"tags": [tag]})]


_MAKERS: Mapping[str, Callable[[str, Inputs], list[Call]]] = {
    **CLUSTER_MAKERS,
    "aws:ec2/placementGroup:PlacementGroup": _placement_group,
    "aws:ec2/launchTemplate:LaunchTemplate": _launch_template,
    "aws:ec2/securityGroup:SecurityGroup": _security_group,
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _rule("AuthorizeSecurityGroupIngress"),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": _rule("AuthorizeSecurityGroupEgress"),
    "aws:eks/nodeGroup:NodeGroup": _node_group,
    "aws:autoscaling/tag:Tag": _group_tag,
    "aws:autoscaling/schedule:Schedule": _scheduled_action,
}
