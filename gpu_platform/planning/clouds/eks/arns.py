"""Check ARNs in the stack file against the partition, region and account of the cluster."""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster

_IDENTITY_CENTER_NAMES: Final = "AWSReservedSSO_"
_IDENTITY_CENTER_PATH: Final = "/aws-reserved/sso.amazonaws.com/"
"""Path prefix of the roles that IAM Identity Center creates. The name of its home region follows, unless that
region is us-east-1.
"""
_COMMERCIAL: Final = "aws"
_GOVCLOUD: Final = "aws-us-gov"
# AWS partitions by the prefix of a region's name. All other regions are in the commercial partition.
# Source: botocore 1.44.5, partitions.json; read 2026-11-28.
_PARTITIONS: Final = {
    "us-gov-": _GOVCLOUD,
    "cn-": "aws-cn",
    "eusc-": "aws-eusc",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
}


def partition_of(region: str) -> str:
    """Return the AWS partition of a region, such as `aws-cn`. It is the second part of every ARN in the region."""
    return next((name for start, name in _PARTITIONS.items() if region.startswith(start)), _COMMERCIAL)


def cluster_arn(cluster: EksCluster) -> str:
    """Return the ARN of a cluster. If the stack file names no account, `*` stands for the account."""
    partition, account = partition_of(cluster.region), cluster.account or "*"
    return f"arn:{partition}:eks:{cluster.region}:{account}:cluster/{cluster.name}"


def check_region_supported(region: str, problems: Problems) -> None:
    """Record a problem if the program does not support a region's partition. `problems` points at the region."""
    if (partition := partition_of(region)) not in (_COMMERCIAL, _GOVCLOUD):
        problems.add(
            f"{region!r}, in the partition {partition}",
            f"a region of {_COMMERCIAL} or {_GOVCLOUD}: service principals, policies and images differ in other "
            "partitions",
            "use another region",
        )


def key_text(key: str) -> str:
    """Return the text for a KMS key in messages about IAM policies. For an alias, the text states the condition
    that a policy needs.

    IAM does not accept the alias of a key as the resource of a statement.

    Source: KMS developer guide, "Specifying KMS keys in IAM policy statements"; read 2026-11-29.
    """
    owner, alias, name = key.partition(":alias/")
    if not alias:
        return key
    return f"the key of {key} (in IAM policies {owner}:key/* with the condition kms:ResourceAliases alias/{name})"


def check_key(key: str | None, cluster: EksCluster, problems: Problems, *, alias: bool = False) -> None:
    """Record a problem for a KMS key that the cluster cannot use.

    `problems` points at the key's field. If `alias` is true, the field accepts aliases of keys. The key may belong
    to another account if its key policy allows the cluster's account to use it. The drivers' IAM policies must
    name the key itself, whereas launch templates accept aliases (EC2 API, LaunchTemplateEbsBlockDeviceRequest,
    KmsKeyId, 2026-11-29). Sources: EKS, EBS, EFS and FSx user guides, encryption; read 2026-11-28.
    """
    if key is None:
        return
    if ":alias/" in key and not alias:
        problems.add(
            f"{key!r}, an alias",
            "the ARN of the key itself, arn:...:key/ID, because IAM policies name it; only disks of nodes accept "
            "aliases",
            f"write the output of: aws kms describe-key --region {cluster.region} --key-id {key} --query "
            "KeyMetadata.Arn",
        )
        return
    if not key.startswith("arn:"):
        partition = partition_of(cluster.region)
        fix = f"write arn:{partition}:kms:{cluster.region}:ACCOUNT:key/ID"
        problems.add(f"{key!r}", "the ARN of an AWS KMS key", fix)
        return
    region = key.split(":")[3]
    if check_partition(key, cluster, problems) and region != cluster.region:
        problems.add(
            f"a key in {region}",
            f"a key in {cluster.region}, the region of the resources that it encrypts",
            f"use a key in {cluster.region}, or a replica of this key there",
        )


def check_partition(arn: str | None, cluster: EksCluster, problems: Problems) -> bool:
    """Return whether an ARN belongs to the cluster's partition, and record a problem if not.

    `problems` points at the ARN's field.
    """
    partition = partition_of(cluster.region)
    if arn is None or arn.split(":")[1] == partition:
        return True
    problems.add(
        f"{arn!r} with a cluster in {cluster.region}",
        f"an ARN that begins with arn:{partition}: for the partition of {cluster.region}",
        f"write arn:{partition}:{arn.split(':', 2)[2]}",
    )
    return False


def is_reserved_role(arn: str) -> bool:
    """Return whether AWS manages a role. AWS manages the roles of IAM Identity Center (permission sets) and
    service-linked roles.

    Only AWS changes the trust policy of such a role, so no command, node or pod can assume it. People receive a
    role of IAM Identity Center when they log in. Sources: IAM Identity Center user guide, "Referencing permission
    sets in resource policies, Amazon EKS, and AWS KMS"; AWSSSOServiceRolePolicy; IAM user guide, "Update a role
    trust policy"; read 2026-11-29.
    """
    return ":role/aws-reserved/" in arn or ":role/aws-service-role/" in arn or _is_of_identity_center(arn)


def _is_of_identity_center(arn: str) -> bool:
    """Return whether IAM Identity Center created a role, judging by the role's name. People often copy the name
    without its path, because the ConfigMap aws-auth and the ARN of a session contain no path.
    """
    return ":role/" in arn and arn.rpartition("/")[2].startswith(_IDENTITY_CENTER_NAMES)


def check_principal(arn: str, problems: Problems) -> None:
    """Record a problem for the ARN of an IAM Identity Center role if the ARN lacks the role's path. EKS creates no
    access entry for such an ARN.

    `problems` points at the ARN's field. Source: EKS API, CreateAccessEntry: "The specified principalArn is
    invalid: invalid principal" (terraform-aws-modules/terraform-aws-eks#2969); IAM Identity Center user guide,
    "Referencing permission sets in resource policies, Amazon EKS, and AWS KMS"; read 2026-11-30.
    """
    if _is_of_identity_center(arn) and f":role{_IDENTITY_CENTER_PATH}" not in arn:
        name = arn.rpartition("/")[2]
        problems.add(
            f"{arn!r}",
            f"an ARN with {_IDENTITY_CENTER_PATH}, the path of roles of IAM Identity Center: EKS refuses the role "
            "without it",
            f"write the output of: aws iam get-role --role-name {name} --query Role.Arn --output text",
        )


_OWN_ROLE: Final = "create a role with the required permissions and trust policy, and write its ARN"


def check_assumable(arn: str | None, problems: Problems, fix: str = _OWN_ROLE) -> None:
    """Record a problem for a role that AWS manages, because no command, node or pod can assume it.

    `problems` points at the ARN's field.
    """
    if arn is not None and is_reserved_role(arn):
        problems.add(
            f"{arn!r}, which AWS manages",
            "your own role: only AWS decides who can assume a role of IAM Identity Center or a service-linked "
            "role",
            fix,
        )


def check_account(arn: str | None, cluster: EksCluster, problems: Problems) -> None:
    """Record a problem for an ARN whose partition or account differs from the cluster's.

    `problems` points at the ARN's field.
    """
    account = arn.split(":")[4] if arn is not None else None
    elsewhere = cluster.account is not None and account not in (None, "aws", cluster.account)
    if check_partition(arn, cluster, problems) and elsewhere:
        problems.add(
            f"{arn!r} in account {account}",
            f"an ARN in the cluster's account, {cluster.account}",
            "correct the ARN, or the cluster's account",
        )
