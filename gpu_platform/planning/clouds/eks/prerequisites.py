"""List the permissions, quotas and other prerequisites in AWS that `up` needs for an EKS stack."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from gpu_platform.planning.clouds.eks.arns import key_text
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.examples import api_access_examples
from gpu_platform.planning.clouds.section import CloudCluster, CloudPrerequisites, CloudQuota, Example

# The account ID in the shipped stack files and in AWS's own examples.
_EXAMPLE_ACCOUNT: Final = "123456789012"
# Service Quotas (ec2), L-1216C47A and L-0263D0A3; EC2 user guide, On-Demand Instance quotas; read 2026-11-23.
_STANDARD: Final = "acdhimrtz"
_STANDARD_QUOTA: Final = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
_ADDRESS_QUOTA: Final = "EC2-VPC Elastic IPs"
# EKS user guide, View and manage Amazon EKS service quotas: both defaults are adjustable; read 2026-11-29.
_GROUPS: Final = 30
_NODES: Final = 450
# EC2 instance types guide: large has 2 vCPUs, xlarge has 4, and Nxlarge has N times 4.
_SIZE: Final = re.compile(r"(\d*)xlarge")
# IAM names of services that have a different name in Pulumi.
_SERVICES: Final = {
    "vpc": "ec2",
    "cloudwatch/logGroup": "logs",
    "cloudwatch/eventRule": "events",
    "cloudwatch/eventTarget": "events",
}


def eks_prerequisites(cluster: CloudCluster, resource_types: Iterable[str]) -> CloudPrerequisites:
    """Return the prerequisites in AWS, such as permissions and quotas, that `up` needs.

    `resource_types` are the Pulumi types of the resources that `up` creates.
    """
    assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - the plan is of this cloud
    services = sorted({_service(each) for each in resource_types if each.startswith("aws:")})
    return CloudPrerequisites(
        cloud="AWS",
        command="aws",
        install="install the AWS CLI: https://docs.aws.amazon.com/cli/",
        owner=cluster.account or "the account of the credentials",
        login="run aws configure sso, then aws sso login",
        quota_console="Service Quotas (ec2)",
        all_regions_quota=None,
        permissions=", ".join([*(f"{service}:*" for service in services), *_key_rights(cluster)])
        + " (iam with iam:PassRole)",
        permissions_fix="the user that runs `up` must be in cluster.create.admins, "
        "or have an access entry for the cluster",
        apis=None,
        examples=tuple(_examples(cluster)),
        quotas=(*_quotas(cluster), *group_quotas(cluster)),
    )


def _key_rights(cluster: EksClusterPlan) -> Iterator[str]:
    """Yield the permissions that the policy of each customer-managed key must grant, and the role that needs them.

    A service-linked role starts the nodes of node groups. No IAM policy can grant it permissions. Sources: EC2
    Auto Scaling user guide, Required AWS KMS key policy for use with encrypted volumes; EKS user guide, Encrypt
    Kubernetes secrets with KMS; read 2026-11-28.
    """
    for keys, role in (
        (cluster.group_keys, "role AWSServiceRoleForAutoScaling"),
        (cluster.karpenter_keys, "role of Karpenter's controller"),
    ):
        for key in keys:
            actions = "kms:Decrypt, kms:GenerateDataKeyWithoutPlaintext, kms:ReEncrypt* and kms:CreateGrant"
            yield f"{actions} on {key_text(key)} for the {role}"
    for key in cluster.other_keys:
        yield f"kms:DescribeKey and kms:CreateGrant on {key}"


def _quotas(cluster: EksClusterPlan) -> Iterator[CloudQuota]:
    """Yield the quotas that the system nodes and NAT gateways of a new cluster use."""
    if cluster.create is None:
        return
    system, vpc = cluster.create.system_pool, cluster.create.vpc
    sizes = [vcpus_of(name) for name in system.instance_types]
    known = [vcpus for vcpus in sizes if vcpus is not None]
    if known:
        surge = cluster.system_surge
        standard = all(name[0] in _STANDARD for name in system.instance_types)
        yield CloudQuota(
            name=_STANDARD_QUOTA if standard else None,
            unit="vCPU",
            region=cluster.region,
            amount=(system.max_size + surge) * max(known),
            what=f"the system nodes ({system.max_size}, and {surge} more while EKS rolls them)",
        )
    if vpc.nat_zones:
        yield CloudQuota(
            name=_ADDRESS_QUOTA,
            unit="Elastic IP addresses" if len(vpc.nat_zones) > 1 else "Elastic IP address",
            region=cluster.region,
            amount=len(vpc.nat_zones),
            what="the NAT gateways",
        )


def group_quotas(cluster: EksClusterPlan) -> tuple[CloudQuota, ...]:
    """Return the EKS quotas of managed node groups if the pools need more than an account's default quotas."""
    return tuple(
        CloudQuota(
            name=f"{name} (eks)",
            unit=unit,
            region=cluster.region,
            amount=amount,
            what=f"{what}; an account has {default} unless more were requested",
        )
        for name, unit, amount, default, what in (
            ("Managed node groups per cluster", "groups", len(cluster.group_sizes), _GROUPS, "the pools"),
            ("Nodes per managed node group", "nodes", max(cluster.group_sizes, default=0), _NODES, "a pool"),
        )
        if amount > default
    )


def vcpus_of(instance_type: str) -> int | None:
    """Return the vCPUs of a current-generation instance type by its size, or None for metal and small sizes."""
    size = instance_type.partition(".")[2]
    if size == "large":
        return 2
    times = _SIZE.fullmatch(size)
    return None if times is None else 4 * int(times[1] or 1)


def _examples(cluster: EksClusterPlan) -> Iterator[Example]:
    if cluster.account == _EXAMPLE_ACCOUNT:
        yield Example(field="cluster.account", value=cluster.account, fix="write the id of your AWS account")
    for principal in cluster.create.admins if cluster.create is not None else ():
        if f":{_EXAMPLE_ACCOUNT}:" in principal:
            fix = "write the IAM role or user that runs `up`"
            yield Example(field="cluster.create.admins", value=principal, fix=fix)
    for login in cluster.access.logins:
        if f":{_EXAMPLE_ACCOUNT}:" in login.principal:
            yield Example(
                field="cluster.logins", value=login.principal, fix="write the IAM role of the team, or remove it"
            )
    yield from api_access_examples(cluster)


def _service(type_: str) -> str:
    """Return IAM's name for the service of a resource type such as `aws:ec2/launchTemplate:LaunchTemplate`."""
    path = type_.split(":")[1]
    module = path.partition("/")[0]
    return _SERVICES.get(path, _SERVICES.get(module, module))
