"""The requests that the AWS provider makes of each kind of resource that the EKS components register."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpu_platform.engine.record import ResourceRecord
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

_ALL_TRAFFIC = {"ipProtocol": "-1", "cidrBlocks": ["0.0.0.0/0"]}


def requests_of(record: ResourceRecord) -> list[Call]:
    """Return what the provider asks of AWS to make a resource; raises NotInTheApi for what is not known."""
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
    ("CreateNodegroupRequest", "nodeGroupName"): Spelt("nodegroupName"),
}


def _node_group(name: str, inputs: Inputs) -> list[Call]:
    return [call("eks", "CreateNodegroup", {"nodegroupName": name + SUFFIX, **_named(inputs)}, _NODE_GROUP)]


def _named(inputs: Inputs) -> dict[str, Any]:
    """The node group's own name, where it has one, in the API's case."""
    own = {"nodegroupName": inputs["nodeGroupName"]} if "nodeGroupName" in inputs else {}
    return {**own, **without(inputs, "nodeGroupName")}


def _security_group(name: str, inputs: Inputs) -> list[Call]:
    made = call(
        "ec2",
        "CreateSecurityGroup",
        {
            "groupName": inputs.get("name", name + SUFFIX),
            **tags("security-group", inputs),
            **without(inputs, "name", "tags", "ingress", "egress", "revokeRulesOnDelete"),
        },
    )
    # A new group may send anywhere: the provider takes that away.
    closed = call("ec2", "RevokeSecurityGroupEgress", {"groupId": OWN_ID, **_permissions([_ALL_TRAFFIC])})
    rules = [
        call("ec2", operation, {"groupId": OWN_ID, **_permissions(inputs[key])})
        for key, operation in (
            ("ingress", "AuthorizeSecurityGroupIngress"),
            ("egress", "AuthorizeSecurityGroupEgress"),
        )
        if inputs.get(key)
    ]
    return [made, closed, *rules]


def _permissions(rules: list[Inputs]) -> dict[str, Any]:
    return {"ipPermissions": [_permission(rule) for rule in rules]}


def _permission(rule: Inputs) -> dict[str, Any]:
    """A rule written inside of a security group."""
    ports = {key: rule[key] for key in ("fromPort", "toPort") if key in rule}
    groups = [*rule.get("securityGroups", []), *([OWN_ID] if rule.get("self") else [])]
    known = {"protocol", "ipProtocol", "fromPort", "toPort", "cidrBlocks", "securityGroups", "self", "description"}
    if set(rule) - known:
        raise NotInTheApi(f"a security group's rule has no mapping for {set(rule) - known}")
    description = {"description": rule["description"]} if "description" in rule else {}
    permission = {
        "ipProtocol": rule.get("ipProtocol", rule.get("protocol")),
        **ports,
        "ipRanges": [{"cidrIp": cidr, **description} for cidr in rule.get("cidrBlocks", [])],
        "userIdGroupPairs": [{"groupId": group, **description} for group in groups],
    }
    return {key: value for key, value in permission.items() if value != []}


def _rule(operation: str) -> Callable[[str, Inputs], list[Call]]:
    """A rule that is a resource of its own."""

    def make(_: str, inputs: Inputs) -> list[Call]:
        known = {
            "securityGroupId",
            "referencedSecurityGroupId",
            "cidrIpv4",
            "ipProtocol",
            "fromPort",
            "toPort",
            "description",
            "tags",
        }
        if set(inputs) - known:
            raise NotInTheApi(f"a security group's rule has no mapping for {set(inputs) - known}")
        inner = {key: inputs[key] for key in ("ipProtocol", "fromPort", "toPort", "description") if key in inputs}
        if "referencedSecurityGroupId" in inputs:
            inner["securityGroups"] = [inputs["referencedSecurityGroupId"]]
        if "cidrIpv4" in inputs:
            inner["cidrBlocks"] = [inputs["cidrIpv4"]]
        parameters = {"groupId": inputs["securityGroupId"], **_permissions([inner])}
        return [call("ec2", operation, {**parameters, **tags("security-group-rule", inputs)})]

    return make


_MAKERS: Mapping[str, Callable[[str, Inputs], list[Call]]] = {
    **CLUSTER_MAKERS,
    "aws:ec2/placementGroup:PlacementGroup": _placement_group,
    "aws:ec2/launchTemplate:LaunchTemplate": _launch_template,
    "aws:ec2/securityGroup:SecurityGroup": _security_group,
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _rule("AuthorizeSecurityGroupIngress"),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": _rule("AuthorizeSecurityGroupEgress"),
    "aws:eks/nodeGroup:NodeGroup": _node_group,
}
