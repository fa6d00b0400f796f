"""Compares the buckets and existing file systems of a stack with the resources in AWS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_platform.online.finding import OnlineFinding
from gpu_platform.planning.clouds.eks import buckets, existing_file_systems
from gpu_platform.planning.clouds.eks.identities import EksIdentities
from gpu_platform.planning.clouds.storage import VolumePlan
from gpu_platform.planning.plan import EnvironmentPlan

_MISSING = "pods that mount it wait in ContainerCreating"
_MISSING_BUCKET = f"{_MISSING}, and requests to it fail"


def bucket_names(plan: EnvironmentPlan) -> Mapping[str, bool]:
    """Return the buckets that teams mount or may access through an IAM role. The value is true if a team mounts
    the bucket.
    """
    mounted = [one.attributes["bucketName"] for one in plan.storage.volumes if one.driver == buckets.DRIVER]
    roles = plan.identities.roles if isinstance(plan.identities, EksIdentities) else ()
    return dict.fromkeys((bucket for role in roles for bucket in role.buckets), False) | dict.fromkeys(
        mounted, True
    )


def file_systems(plan: EnvironmentPlan, driver: str) -> Sequence[VolumePlan]:
    """Return one volume for each existing file system of a driver."""
    found = {one.handle.partition(":")[0]: one for one in plan.storage.volumes if one.driver == driver}
    return list(found.values())


def compare_bucket(name: str, region: str, found: str | None, *, mounted: bool) -> OnlineFinding:
    """Return a finding about whether a bucket is in the cluster's region.

    `found` is the bucket's region, or None if there is no such bucket.
    """
    looked_at = f"bucket {name}"
    if found == region:
        return OnlineFinding(looked_at=looked_at, severity="fine", found=f"in {region}")
    if found is None:
        return OnlineFinding(
            looked_at=looked_at,
            severity="warns",
            found="no such bucket",
            why=_MISSING_BUCKET,
            fix="create it, or correct its name in storage or identity",
        )
    return OnlineFinding(
        looked_at=looked_at,
        severity="warns",
        found=f"in {found}",
        why=f"it is mounted through the endpoint of {region}, and {_MISSING}"
        if mounted
        else f"pods use it from {region}, so S3 answers with a redirect, and traffic between regions is charged",
        fix=f"copy it to a bucket in {region}",
    )


def compare_file_system(volume: VolumePlan, found: str | None) -> OnlineFinding:
    """Return a finding about whether an existing file system can be mounted.

    `found` is its mount name, which is empty for EFS, or None if there is no such file system.
    """
    looked_at = f"file system {volume.handle.partition(':')[0]}"
    if found is None:
        return OnlineFinding(
            looked_at=looked_at,
            severity="warns",
            found="no such file system in this account and region",
            why=_MISSING,
            fix="correct file_system in storage",
        )
    declared = volume.attributes.get("mountname", "").partition("/")[0]
    if volume.driver == existing_file_systems.FSX_DRIVER and declared != found:
        return OnlineFinding(
            looked_at=looked_at,
            severity="warns",
            found=f"its mount name is {found}"
            if found
            else "it has no mount name, because it is not a Lustre file system",
            why=f"mount_name is {declared}, so nodes cannot mount the file system",
            fix=f"write mount_name: {found}" if found else "name a Lustre file system",
        )
    return OnlineFinding(looked_at=looked_at, severity="fine", found="exists")
