"""Check and plan S3 buckets as team volumes, using version 2 of the Mountpoint for Amazon S3 CSI driver.

The driver reads and writes with its own identity, so pods of teams never have S3 credentials. A team can access a
bucket only through a PersistentVolume that is bound to the team's claim, and teams cannot create
PersistentVolumes. The driver's processes run in a separate namespace, so the teams' network policies need not
allow traffic to S3.

Sources: awslabs/mountpoint-s3-csi-driver v2.7, docs/CONFIGURATION.md and docs/CACHING.md; EKS user guide,
Mountpoint for Amazon S3 add-on; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpu_platform.catalog.iam_policies import iam_statements
from gpu_platform.planning.clouds.eks.arns import check_key
from gpu_platform.planning.clouds.identities import Bucket
from gpu_platform.planning.clouds.storage import VolumePlan
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.storage import BucketStorage

DRIVER: Final = "s3.csi.aws.com"
ADDON: Final = "aws-mountpoint-s3-csi-driver"
SERVICE_ACCOUNT: Final = "s3-csi-driver-sa"
_DIRECTORY_BUCKET: Final = "--x-s3"
_LONGEST_NAME: Final = 63
# Directory listings of datasets are cached for this number of seconds.
# A new file appears after at most five minutes.
_DATASETS_TTL: Final = 300


def check_bucket(one: Bucket, cluster: EksCluster, here: Problems, name: str = "bucket") -> None:
    """Record a problem for an invalid S3 bucket name, and for a KMS key in another region.

    `here` points at the entry of the stack file. `name` is the field of the entry that contains the bucket's name.
    """
    if one.bucket.endswith(_DIRECTORY_BUCKET):
        here.at(name).add(
            f"{one.bucket!r}, a directory bucket",
            "a general purpose bucket: a directory bucket is in one zone and has its own permissions",
            "use another bucket, or type: lustre",
        )
    elif "_" in one.bucket or len(one.bucket) > _LONGEST_NAME:
        here.at(name).add(
            f"{one.bucket!r}",
            f"the name of an S3 bucket: {_LONGEST_NAME} characters at most, without underscores",
            "correct the name",
        )
    check_key(one.kms_key, cluster, here.at("kms_key"))


def plan_bucket(name: str, one: BucketStorage, cluster: EksCluster) -> Iterator[VolumePlan]:
    """Yield a volume for each team of a storage entry. If the stack file names no teams for the entry, `one.teams`
    already contains all teams.
    """
    for team in one.teams or ():
        yield VolumePlan(
            name=name,
            namespace=team,
            source=_source(one),
            driver=DRIVER,
            handle=f"{team}-{name}",
            attributes={
                "bucketName": one.bucket,
                "authenticationSource": "driver",
                **({"cache": "emptyDir", "cacheEmptyDirSizeLimit": f"{one.cache_gib}Gi"} if one.cache_gib else {}),
            },
            mount_options=tuple(_mount_options(one, cluster)),
            read_only=not one.writable,
            renames=False,  # Mountpoint for S3, Semantics: only directory buckets support renames; read 2026-11-25
        )


def _source(one: BucketStorage) -> str:
    return f"s3://{one.bucket}/{one.directory}"


def _mount_options(one: BucketStorage, cluster: EksCluster) -> Iterator[str]:
    # Pods cannot read the region from the instance metadata, because the metadata hop limit is 1.
    # With the option `region`, Mountpoint does not follow a redirect to another region.
    # Source: awslabs/mountpoint-s3, validate_client_for_bucket; read 2026-11-29.
    yield f"region {cluster.region}"
    if one.directory:
        yield f"prefix {one.directory}"
    if one.purpose == "datasets":
        yield f"metadata-ttl {_DATASETS_TTL}"
    # Team members can run pods as any user ID. Pods of other teams cannot use the team's claim.
    yield "allow-other"
    if one.writable:
        yield from ("dir-mode 0777", "file-mode 0666", "allow-delete", "allow-overwrite")
    else:
        yield from ("dir-mode 0555", "file-mode 0444", "read-only")


def bucket_statements(buckets: Sequence[Bucket], partition: str, region: str) -> tuple[Mapping[str, Any], ...]:
    """Return IAM statements that allow listing and reading below the buckets' prefixes, and writing to writable
    buckets.
    """
    directories = dict.fromkeys((one.bucket, one.directory) for one in buckets)
    lists = (
        statement
        for bucket, directory in directories
        for statement in iam_statements(
            "list-directory" if directory else "list-bucket",
            {"partition": partition, "bucket": bucket, "directory": directory},
        )
    )
    writable = [one for one in buckets if one.writable]
    objects = iam_statements(
        "objects",
        {
            "region": region,
            "readable": _objects(buckets, partition),
            "writable": _objects(writable, partition),
            "keys_of_readable": _keys(buckets),
            "keys_of_writable": _keys(writable),
        },
    )
    return (*lists, *objects)


def _objects(buckets: Sequence[Bucket], partition: str) -> list[str]:
    return list(dict.fromkeys(f"arn:{partition}:s3:::{one.bucket}/{one.directory}*" for one in buckets))


def _keys(buckets: Sequence[Bucket]) -> list[str]:
    return sorted({one.kms_key for one in buckets if one.kms_key is not None})


def by_bucket(name: str, one: BucketStorage, cluster: EksCluster) -> Decision:
    """Return a decision that describes a bucket's volumes and the teams' permissions."""
    access = "read and written" if one.writable else "read"
    uses = "reads and writes" if one.writable else "reads"
    driver = (
        f"the driver's identity {uses} the bucket, and pods have no credentials"
        if cluster.create is not None
        else f"the cluster's owner installs {ADDON}, version 2, with an identity that has access to the bucket"
    )
    return Decision(
        subject="storage",
        what=name,
        chosen=f"{_source(one)}, {access} by {', '.join(one.teams or ()) or 'no team'}",
        why=f"a claim of this name in the namespace of each team; {driver}; a bucket outside {cluster.region} "
        "cannot be mounted",
    )
