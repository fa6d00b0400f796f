"""Check ARNs of the stack file against the cluster: partition, region and account."""

from __future__ import annotations

from gpu_platform.planning.problems import Problems
from gpu_platform.spec.cluster import EksCluster


def partition_of(region: str) -> str:
    """Return the AWS partition of a region, the second part of its ARNs."""
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def check_key(key: str | None, cluster: EksCluster, problems: Problems, *, alias: bool = False) -> None:
    """Record a KMS key that the cluster cannot use; `problems` is at its field, `alias`: aliases are keys there.

    It may be of another account, whose key policy then admits this one. IAM policies of drivers name the key
    itself. Sources: EKS, EBS, EFS and FSx user guides, encryption; read 2026-11-28.
    """
    if key is None:
        return
    if not key.startswith("arn:") or (":alias/" in key and not alias):
        problems.add(f"{key!r}", "the ARN of an AWS KMS key", "write arn:aws:kms:REGION:ACCOUNT:key/ID")
        return
    region = key.split(":")[3]
    if check_partition(key, cluster, problems) and region != cluster.region:
        problems.add(
            f"a key in {region}",
            f"a key in {cluster.region}: what it encrypts needs a key of its region",
            f"take a key of {cluster.region}, or a replica of it there",
        )


def check_partition(arn: str | None, cluster: EksCluster, problems: Problems) -> bool:
    """Return whether an ARN is of the cluster's partition, and record it otherwise; `problems` is at its field."""
    partition = partition_of(cluster.region)
    if arn is None or arn.split(":")[1] == partition:
        return True
    problems.add(
        f"{arn!r} with a cluster in {cluster.region}",
        f"an ARN that begins with arn:{partition}: the partition of {cluster.region}",
        f"write arn:{partition}:{arn.split(':', 2)[2]}",
    )
    return False


def check_account(arn: str | None, cluster: EksCluster, problems: Problems) -> None:
    """Record an ARN of another partition, or of another account than the cluster's; `problems` is at its field."""
    account = arn.split(":")[4] if arn is not None else None
    elsewhere = cluster.account is not None and account not in (None, "aws", cluster.account)
    if check_partition(arn, cluster, problems) and elsewhere:
        problems.add(
            f"{arn!r} of account {account}",
            f"one of the cluster's account, {cluster.account}",
            "correct the ARN, or the cluster's account",
        )
