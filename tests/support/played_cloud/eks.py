"""EKS in the simulated account: clusters are sandboxes, and instances of node groups are their simulated nodes.

Rules and order of steps: EKS user guide, "Update a managed node group", "Understand each phase of node updates",
"Customize managed nodes with launch templates"; EKS API reference; read 2026-11-23.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

from tests.support.played_cloud import nodes, sandboxes
from tests.support.played_cloud.account import Account, Refused
from tests.support.played_cloud.ec2 import template_data
from tests.support.played_cloud.values import UNKNOWN

Properties = Mapping[str, Any]
CLUSTER: Final = "aws:eks/cluster:Cluster"
NODE_GROUP: Final = "aws:eks/nodeGroup:NodeGroup"
SCHEDULE: Final = "aws:autoscaling/schedule:Schedule"
_GROUP: Final = "aws:ec2/securityGroup:SecurityGroup"
_SUBNET: Final = "aws:ec2/subnet:Subnet"
_ROLE: Final = "aws:iam/role:Role"
_EFFECTS: Final = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}
_MAX_SKEW: Final = 3  # Kubernetes version skew policy for kubelet and API server


class Clusters:
    """Simulated EKS clusters. Each cluster is a sandbox with the same name."""

    def unknown(self, inputs: Properties) -> dict[str, Any]:
        computed = {"clusterSecurityGroupId": UNKNOWN, "vpcId": UNKNOWN}
        return {
            "endpoint": UNKNOWN,
            "certificateAuthority": UNKNOWN,
            "kubernetesNetworkConfig": UNKNOWN,
            "vpcConfig": {**inputs["vpcConfig"], **computed},
        }

    def create(self, account: Account, own_id: str, inputs: Properties, outputs: dict[str, Any]) -> None:
        _refuse_missing_role(account, inputs["roleArn"])
        subnets = [account.get(_SUBNET, one) or {} for one in inputs["vpcConfig"]["subnetIds"]]
        if len({one["inputs"]["availabilityZone"] for one in subnets}) < 2:
            raise Refused("InvalidParameterException: Subnets specified must be in at least two different AZs")
        vpc = subnets[0]["inputs"]["vpcId"]
        group = f"sg-{secrets.token_hex(9)[:17]}"
        account.put(_GROUP, group, {"name": f"eks-cluster-sg-{own_id}", "vpcId": "created by EKS"}, {})
        access = sandboxes.start(account, own_id, inputs["version"])
        outputs["endpoint"] = access.server
        outputs["certificateAuthority"] = {"data": access.authority}
        outputs["kubernetesNetworkConfig"] = {"ipFamily": "ipv4", "serviceIpv4Cidr": "172.20.0.0/16"}
        outputs["vpcConfig"] = {**inputs["vpcConfig"], "clusterSecurityGroupId": group, "vpcId": vpc}

    def update(
        self, account: Account, own_id: str, old: Properties, new: Properties, outputs: dict[str, Any]
    ) -> None:
        known = account.get(CLUSTER, own_id) or {}
        for name in ("endpoint", "certificateAuthority", "kubernetesNetworkConfig"):
            outputs[name] = known["outputs"][name]
        outputs["vpcConfig"] = {**known["outputs"]["vpcConfig"], **new["vpcConfig"]}
        if old["version"] == new["version"]:
            return
        if _minor(new["version"]) != _minor(old["version"]) + 1:
            raise Refused(
                f"InvalidParameterException: Unsupported Kubernetes minor version update from {old['version']} to "
                f"{new['version']}"
            )
        for _, group in account.of(NODE_GROUP):
            version = group["outputs"]["version"]
            if group["inputs"]["clusterName"] == own_id and _minor(new["version"]) - _minor(version) > _MAX_SKEW:
                raise Refused(
                    f"InvalidRequestException: the cluster has nodes of version {version}, which are too old"
                )
        sandboxes.upgrade(account, own_id, new["version"])

    def delete(self, account: Account, own_id: str, resource: Properties) -> None:
        if resource["inputs"].get("deletionProtection"):
            raise Refused(
                f"InvalidRequestException: Cannot delete cluster {own_id} because deletion protection is enabled"
            )
        sandboxes.delete(account, own_id)
        account.remove(_GROUP, resource["outputs"]["vpcConfig"]["clusterSecurityGroupId"])


class NodeGroups:
    """Simulated managed node groups, whose nodes are created, scaled, replaced and deleted."""

    def unknown(self, inputs: Properties) -> dict[str, Any]:
        # node_group.go computes each of these properties if the program omits it, so its value is unknown.
        computed = ("amiType", "capacityType", "diskSize", "instanceTypes", "releaseVersion", "version")
        return {name: UNKNOWN for name in computed if name not in inputs}

    def create(self, account: Account, own_id: str, inputs: Properties, outputs: dict[str, Any]) -> None:
        cluster = account.get(CLUSTER, inputs["clusterName"])
        if cluster is None:
            raise Refused(f"ResourceNotFoundException: No cluster found for name: {inputs['clusterName']}")
        _refuse_missing_role(account, inputs["nodeRoleArn"])
        _refuse_wrong_scaling(inputs["scalingConfig"])
        template = _template(account, inputs)
        outputs["version"] = inputs.get("version", cluster["inputs"]["version"])
        _refuse_newer(outputs["version"], cluster["inputs"]["version"])
        outputs["releaseVersion"] = inputs.get("releaseVersion", f"{outputs['version']}.0-played")
        outputs["instanceTypes"] = inputs.get("instanceTypes", [])
        nodes.scale(account, _group(own_id, inputs, outputs, template))

    def update(
        self, account: Account, own_id: str, old: Properties, new: Properties, outputs: dict[str, Any]
    ) -> None:
        cluster = account.get(CLUSTER, new["clusterName"]) or {}
        _refuse_wrong_scaling(new["scalingConfig"])
        template = _template(account, new)
        for name in ("version", "releaseVersion"):
            outputs[name] = new.get(name, (account.get(NODE_GROUP, own_id) or {})["outputs"][name])
        _refuse_newer(outputs["version"], cluster["inputs"]["version"])
        # resourceNodeGroupUpdate of terraform-provider-aws updates the version first, then the configuration.
        if any(old.get(name) != new.get(name) for name in ("version", "releaseVersion", "launchTemplate")):
            if old.get("version") != new.get("version") and "releaseVersion" not in new:
                outputs["releaseVersion"] = f"{outputs['version']}.0-played"
            before = {**new, **{name: old[name] for name in ("labels", "taints") if name in old}}
            minimal = new.get("updateConfig", {}).get("updateStrategy") == "MINIMAL"
            _roll(account, _group(own_id, before, outputs, template), new_first=not minimal)
        group = _group(own_id, new, outputs, template)
        if any(old.get(name) != new.get(name) for name in ("labels", "taints")):
            nodes.relabel(account, group, _group(own_id, old, outputs, template))
        # node_group.go sends the sizes only if they differ, so sizes set by an Auto Scaling action stay.
        if old["scalingConfig"] != new["scalingConfig"]:
            nodes.scale(account, group)

    def delete(self, account: Account, own_id: str, resource: Properties) -> None:
        nodes.remove_all(account, own_id, resource["inputs"]["clusterName"])


def run_scheduled(account: Account, action: str) -> None:
    """Run a scheduled action now. EC2 Auto Scaling then sets the size of the node group's Auto Scaling group."""
    sizes = (account.get(SCHEDULE, action) or {})["inputs"]
    for own_id, known in list(
        account.of(NODE_GROUP)
    ):  # a copy, because the loop adds and removes nodes of the account
        (group,) = known["outputs"]["resources"][0]["autoscalingGroups"]
        if group["name"] == sizes["autoscalingGroupName"]:
            scaling = {**known["inputs"]["scalingConfig"], "desiredSize": sizes["desiredCapacity"]}
            inputs = {**known["inputs"], "scalingConfig": scaling}
            nodes.scale(account, _group(own_id, inputs, known["outputs"], _template(account, inputs)))


class Addons:
    """Simulated add-ons, which are recorded in the account but not installed in the sandbox."""

    def unknown(self, inputs: Properties) -> dict[str, Any]:
        return {}

    def create(self, account: Account, own_id: str, inputs: Properties, outputs: dict[str, Any]) -> None:
        if account.get(CLUSTER, inputs["clusterName"]) is None:
            raise Refused(f"ResourceNotFoundException: No cluster found for name: {inputs['clusterName']}")
        # EKS waits for the pods of these add-ons. Without nodes, the creation of the add-ons fails.
        if inputs["addonName"] in {"coredns", "aws-ebs-csi-driver"} and not nodes.schedulable(
            account, inputs["clusterName"]
        ):
            raise Refused(
                f"InsufficientNumberOfReplicas: {own_id}: the cluster has no nodes for the add-on's pods"
            )

    def update(
        self, account: Account, own_id: str, old: Properties, new: Properties, outputs: dict[str, Any]
    ) -> None:
        return

    def delete(self, account: Account, own_id: str, resource: Properties) -> None:
        return


def _group(own_id: str, inputs: Properties, outputs: Properties, template: Properties) -> nodes.NodeGroup:
    return nodes.NodeGroup(
        id=own_id,
        cluster=inputs["clusterName"],
        machine_type=template.get("instanceType") or inputs["instanceTypes"][0],
        size=inputs["scalingConfig"]["desiredSize"],
        labels=inputs.get("labels", {}),
        added_labels={
            "eks.amazonaws.com/nodegroup": inputs["nodeGroupName"],
            "eks.amazonaws.com/capacityType": inputs.get("capacityType", "ON_DEMAND"),
        },
        taints=[{**one, "effect": _EFFECTS[one["effect"]]} for one in inputs.get("taints", ())],
        names=f"ip-10-0-{secrets.randbelow(256)}-{{}}.us-east-2.compute.internal",
        source={"template": inputs["launchTemplate"], "version": outputs["version"]},
    )


def _roll(account: Account, group: nodes.NodeGroup, *, new_first: bool) -> None:
    """Replace every node with a node of the new version. The strategy DEFAULT creates the new node first."""
    for name in nodes.names_of(account, group.id):
        if new_first:
            nodes.add(account, group)
        nodes.remove(account, group.cluster, name, why="rolled")
        if not new_first:
            nodes.add(account, group)
    account.record("rolled", group=group.id)


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def _refuse_newer(version: str, cluster: str) -> None:
    if _minor(version) > _minor(cluster):
        raise Refused(
            f"InvalidParameterException: Nodegroup version {version} is newer than the cluster's {cluster}"
        )
    if _minor(cluster) - _minor(version) > _MAX_SKEW:
        raise Refused(f"InvalidParameterException: Nodegroup version {version} is too old for {cluster}")


def _refuse_wrong_scaling(scaling: Properties) -> None:
    smallest, desired, largest = (scaling[name] for name in ("minSize", "desiredSize", "maxSize"))
    if not smallest <= desired <= largest or largest < 1:
        raise Refused(
            f"InvalidParameterException: desired size {desired} must be between minimum {smallest} and maximum "
            f"{largest}, and the maximum at least 1"
        )


def _refuse_missing_role(account: Account, arn: str) -> None:
    if arn not in {role["outputs"]["arn"] for _, role in account.of(_ROLE)}:
        raise Refused(f"InvalidParameterException: roleArn, {arn}, does not exist")


def _template(account: Account, inputs: Properties) -> dict[str, Any]:
    """Return the data of a node group's launch template. Raises Refused if EKS does not accept the template."""
    template = template_data(account, inputs["launchTemplate"])
    if bool(template.get("instanceType")) == bool(inputs.get("instanceTypes")):
        raise Refused(
            "InvalidParameterException: Set instance types either in the launch template or in the request"
        )
    if "diskSize" in inputs:
        raise Refused("InvalidParameterException: Disk size must be specified within the launch template")
    if template.get("imageId") and (inputs.get("version") or inputs.get("releaseVersion")):
        raise Refused("InvalidParameterException: version and release version cannot be set with a custom image")
    if template.get("iamInstanceProfile"):
        raise Refused("InvalidParameterException: Launch template must not have an instance profile")
    if any("subnetId" in one for one in template.get("networkInterfaces", ())):
        raise Refused("InvalidParameterException: Launch template must not have a subnet")
    if at_market(template) == "spot":
        raise Refused("InvalidParameterException: Launch template must not request spot; use the capacity type")
    return template


def at_market(template: Properties) -> str | None:
    """Return the market type of a launch template."""
    return (template.get("instanceMarketOptions") or {}).get("marketType")
