"""Plan the charts and the IAM policies of Karpenter's controller.

Sources: Karpenter 1.14 docs, reference "CloudFormation" (controller policies, interruption queue), "Settings",
"Troubleshooting" (the controller's role needs the key of volumes) and upgrade guide (CRDs); read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.eks.cluster_plan import KarpenterControllerPlan
from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.resource_names import queue_name
from gpu_platform.planning.clouds.eks.vpc import plan_iam
from gpu_platform.stack.cluster import EksCluster

CHART = "karpenter"
CRD_CHART = "karpenter-crd"
SERVICE_ACCOUNT = "karpenter"
_EVENTS: Mapping[str, tuple[str, str]] = {
    "health": ("aws.health", "AWS Health Event"),
    "spot-interruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "state-change": ("aws.ec2", "EC2 Instance State-change Notification"),
    "reservation-interruption": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}


def karpenter_controller(
    cluster: EksCluster, pools: Sequence[KarpenterPoolPlan], catalog: Catalog
) -> KarpenterControllerPlan:
    """Return the plan of Karpenter's controller for a cluster that has Karpenter pools."""
    chart, crds = catalog.charts[CHART], catalog.charts[CRD_CHART]
    queue = queue_name(cluster.name)
    return KarpenterControllerPlan(
        cluster=cluster.name,
        region=cluster.region,
        iam=plan_iam(cluster),
        chart=chart.name,
        crd_chart=crds.name,
        repository=chart.repository,
        version=chart.version,
        namespace=chart.namespace,
        service_account=SERVICE_ACCOUNT,
        values=_values(cluster, queue),
        queue=queue,
        disk_keys=disk_keys(pools),
        events={name: {"source": [source], "detail-type": [kind]} for name, (source, kind) in _EVENTS.items()},
    )


def disk_keys(pools: Sequence[KarpenterPoolPlan]) -> tuple[str, ...]:
    """Return the sorted customer-managed keys that encrypt the disks of nodes."""
    devices = [device for pool in pools for device in pool.node_class["blockDeviceMappings"]]
    return tuple(sorted({device["ebs"]["kmsKeyID"] for device in devices if "kmsKeyID" in device["ebs"]}))


def _values(cluster: EksCluster, queue: str) -> Mapping[str, Any]:
    own = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    not_on_gpu_nodes = [
        {"key": label, "operator": "DoesNotExist"} for label in ("karpenter.sh/nodepool", names.POOL_LABEL)
    ]
    return {
        "replicas": 2 if cluster.production else 1,
        "serviceAccount": {"name": SERVICE_ACCOUNT},
        "settings": {
            "clusterName": cluster.name,
            "interruptionQueue": queue,
            "eksControlPlane": True,
            "featureGates": {"reservedCapacity": True},
        },
        "controller": {"resources": own},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": not_on_gpu_nodes}]
                }
            }
        },
    }


def queue_policy(queue_arn: str, rule_arns: list[str]) -> dict[str, Any]:
    """Return the policy of the interruption queue. Only these EventBridge rules may send messages to it, and only
    over TLS.
    """
    return _document(
        _allow(
            "sqs:SendMessage",
            on=queue_arn,
            who={"Principal": {"Service": "events.amazonaws.com"}},
            when={"ArnEquals": {"aws:SourceArn": sorted(rule_arns)}},
        ),
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:*",
            "Resource": queue_arn,
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
    )


def controller_policy(
    region: str, cluster: str, node_role_arn: str, queue_arn: str, disk_keys: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the IAM policy of the controller.

    It allows creating, tagging and deleting EC2 instances of this cluster, and reading prices. `disk_keys` are
    ARNs of the keys that encrypt volumes, or of aliases of these keys.
    """
    partition, account = node_role_arn.split(":")[1], node_role_arn.split(":")[4]
    ours = f"kubernetes.io/cluster/{cluster}"
    node_pool, node_class = "karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass"
    made_here = _tagged("aws:ResourceTag", {ours: "owned"}, node_pool)
    made_now = _tagged("aws:RequestTag", {ours: "owned", "eks:eks-cluster-name": cluster}, node_pool)
    profile_here = _tagged("aws:ResourceTag", {ours: "owned", "topology.kubernetes.io/region": region}, node_class)
    profile_now = _tagged(
        "aws:RequestTag",
        {ours: "owned", "eks:eks-cluster-name": cluster, "topology.kubernetes.io/region": region},
        node_class,
    )
    profiles = f"arn:{partition}:iam::{account}:instance-profile/*"

    def ec2(*kinds: str, owner: str = "*") -> list[str]:
        return [f"arn:{partition}:ec2:{region}:{owner}:{kind}/*" for kind in kinds]

    made = ec2("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
    return _document(
        # New instances use these images, snapshots, networks, reservations and placement groups.
        _allow(
            "ec2:RunInstances",
            "ec2:CreateFleet",
            on=ec2("image", "snapshot", owner="")
            + ec2("security-group", "subnet", "capacity-reservation", "placement-group"),
        ),
        _allow("ec2:RunInstances", "ec2:CreateFleet", on=ec2("launch-template"), when=made_here),
        _allow("ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate", on=made, when=made_now),
        _allow(
            "ec2:CreateTags",
            on=made,
            when=_both(
                made_now,
                {"StringEquals": {"ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]}},
            ),
        ),
        _allow(
            "ec2:CreateTags",
            on=ec2("instance"),
            when=_both(
                made_here,
                {
                    "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": cluster},
                    "ForAllValues:StringEquals": {
                        "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
                    },
                },
            ),
        ),
        _allow(
            "ec2:TerminateInstances",
            "ec2:DeleteLaunchTemplate",
            on=ec2("instance", "launch-template"),
            when=made_here,
        ),
        # Karpenter puts the nodes' role into the instance profiles that it creates.
        _allow(
            "iam:PassRole",
            on=node_role_arn,
            when={"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        _allow("iam:CreateInstanceProfile", on=profiles, when=profile_now),
        _allow("iam:TagInstanceProfile", on=profiles, when=_both(profile_here, profile_now)),
        _allow(
            "iam:AddRoleToInstanceProfile",
            "iam:RemoveRoleFromInstanceProfile",
            "iam:DeleteInstanceProfile",
            on=profiles,
            when=profile_here,
        ),
        _allow("iam:GetInstanceProfile", on=profiles),
        _allow("iam:ListInstanceProfiles", on="*"),
        # Karpenter reads the availability and prices of machine types.
        _allow(
            *(f"ec2:Describe{kind}" for kind in _DESCRIBED),
            on="*",
            when={"StringEquals": {"aws:RequestedRegion": region}},
        ),
        _allow("ssm:GetParameter", on=f"arn:{partition}:ssm:{region}::parameter/aws/service/*"),
        _allow("pricing:GetProducts", on="*"),
        _allow("eks:DescribeCluster", on=f"arn:{partition}:eks:{region}:{account}:cluster/{cluster}"),
        _allow("sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage", on=queue_arn),
        *_use_of_keys([key for key in disk_keys if ":alias/" not in key], region),
        *_use_of_aliases([key for key in disk_keys if ":alias/" in key], region),
    )


def _use_of_keys(
    keys: Sequence[str], region: str, when: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], ...]:
    """Return statements that let EC2 encrypt volumes with keys. All keys share the statements, to keep the policy
    short.
    """
    if not keys:
        return ()
    on = keys[0] if len(keys) == 1 else list(keys)
    by_ec2 = {"StringEquals": {"kms:ViaService": f"ec2.{region}.amazonaws.com"}}
    uses = ("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncrypt*")
    return (
        _allow(*uses, on=on, when=_both(by_ec2, when or {})),
        _allow(
            "kms:CreateGrant",
            on=on,
            when=_both({**by_ec2, "Bool": {"kms:GrantIsForAWSResource": "true"}}, when or {}),
        ),
    )


def _use_of_aliases(keys: Sequence[str], region: str) -> tuple[dict[str, Any], ...]:
    """Return statements that let EC2 encrypt volumes with keys that are named by alias.

    IAM does not accept an alias as a resource.
    """
    owners = sorted({f"{key.partition(':alias/')[0]}:key/*" for key in keys})
    named = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": [key.rpartition(":")[2] for key in keys]}}
    return _use_of_keys(owners, region, named)


_DESCRIBED = (
    "CapacityReservations",
    "Images",
    "InstanceStatus",
    "InstanceTypeOfferings",
    "InstanceTypes",
    "Instances",
    "LaunchTemplates",
    "PlacementGroups",
    "SecurityGroups",
    "SpotPriceHistory",
    "Subnets",
)


def _document(*statements: Mapping[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _allow(
    *actions: str,
    on: str | list[str] | None = None,
    who: Mapping[str, Any] | None = None,
    when: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    statement: dict[str, Any] = {"Effect": "Allow", "Action": list(actions), **(who or {})}
    if on is not None:
        statement["Resource"] = on
    if when is not None:
        statement["Condition"] = dict(when)
    return statement


def _tagged(key: str, exactly: Mapping[str, str], present: str) -> dict[str, Any]:
    """Return a condition that requires these tags on a resource or a request, and the tag `present` with any
    value.
    """
    return {
        "StringEquals": {f"{key}/{tag}": value for tag, value in exactly.items()},
        "StringLike": {f"{key}/{present}": "*"},
    }


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return one condition that requires both conditions."""
    return {operator: {**one.get(operator, {}), **other.get(operator, {})} for operator in sorted({*one, *other})}
