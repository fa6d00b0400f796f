"""Check and plan existing AWS file systems as team volumes: EFS, and FSx for Lustre.

Sources: aws-efs-csi-driver v3, static provisioning and volume path; aws-fsx-csi-driver v1.9, static provisioning
and pkg/driver/node.go (mounts DNS name and mount name, with a directory after it); FSx for Lustre guide, DNS
names; read 2026-11-23. Access modes: validateAccessMode in pkg/driver/node.go of the EFS driver v3.3.0, volumeCaps
in pkg/driver/controller.go of the FSx driver v1.9.0; read 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_platform.catalog.csi_drivers import EFS_DRIVER, FSX_DRIVER
from gpu_platform.planning.clouds.storage import VolumePlan, read_only_options
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.storage import ExistingStorage

_NAMES: Final = {"efs": "EFS", "fsx-lustre": "FSx for Lustre"}


def check_existing(one: ExistingStorage, here: Problems) -> None:
    """Record a problem for an invalid file system id, and for a mount name that is missing or not allowed."""
    if not one.file_system.startswith("fs-"):
        here.at("file_system").add(
            f"{one.file_system!r}",
            "the id of a file system",
            "write file_system: fs-..., as the AWS CLI prints it",
        )
    if one.system == "fsx-lustre" and one.mount_name is None:
        here.at("mount_name").add(
            "nothing with system fsx-lustre",
            "the mount name that FSx assigns to the file system",
            f"see aws fsx describe-file-systems --file-system-ids {one.file_system}",
        )
    if one.system == "efs" and one.mount_name is not None:
        here.at("mount_name").add(
            f"{one.mount_name!r} with system efs", "mount_name only with fsx-lustre", "remove it"
        )


def plan_existing(name: str, one: ExistingStorage, cluster: EksCluster) -> Iterator[VolumePlan]:
    """Yield a volume for each team of a storage entry. If the stack file names no teams for the entry, `one.teams`
    already contains all teams.
    """
    for team in one.teams or ():
        path = one.path(team)
        source = f"{_NAMES[one.system]} {one.file_system}/{path}"
        # The EFS driver reads the directory from the volume handle, and the FSx driver from the volume attributes.
        # The kubelet treats volumes with the same handle as one volume.
        # Handles of FSx volumes therefore also contain the directory.
        handle = f"{one.file_system}:/{path}" if path else one.file_system
        if one.system == "efs":
            yield VolumePlan(
                name=name,
                namespace=team,
                source=source,
                driver=EFS_DRIVER,
                handle=handle,
                mount_options=("tls", *read_only_options(one)),
                read_only=one.read_only,
                knows_read_only=False,
            )
        else:
            yield VolumePlan(
                name=name,
                namespace=team,
                source=source,
                driver=FSX_DRIVER,
                handle=handle,
                attributes={
                    "dnsname": f"{one.file_system}.fsx.{cluster.region}.amazonaws.com",
                    "mountname": "/".join(part for part in (one.mount_name, path) if part),
                },
                mount_options=("flock", *read_only_options(one)),
                read_only=one.read_only,
                knows_read_only=False,
            )


def by_existing(name: str, one: ExistingStorage, cluster: EksCluster) -> Decision:
    """Return a decision that describes an existing file system's volumes, and the access that its owner must
    allow.
    """
    ports = "TCP 2049" if one.system == "efs" else "TCP 988 and 1018-1023, in both directions"
    more = ""
    if cluster.create is None:
        more = ", and installs the driver"
    elif cluster.create.network is None:
        more = ", and connects its VPC to the VPC that this stack creates, for example by peering"
    return Decision(
        subject="storage",
        what=name,
        chosen=f"{_NAMES[one.system]} {one.file_system}, {'read' if one.read_only else 'read and written'} by "
        f"{', '.join(one.teams or ()) or 'no team'}",
        why=f"a claim of this name in the namespace of each team; the owner of the file system must allow {ports} "
        f"from the nodes' security group{more}",
    )
