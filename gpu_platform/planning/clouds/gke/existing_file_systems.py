"""Check and plan existing Google Cloud file systems as team volumes: Filestore and Managed Lustre.

The kubelet's own NFS client mounts Filestore shares. A volume handle of the Filestore CSI driver cannot contain a
directory, so with this driver, two teams could not have separate volumes on one share.

Sources: GKE docs, access Filestore instances, and existing Managed Lustre instances; GoogleCloudPlatform/
lustre-csi-driver, docs/preprov-guide.md and examples/pre-prov/preprov-subpath-pvc-pv.yaml; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_platform.planning.clouds.storage import NFS, VolumePlan, read_only_options
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.storage import ExistingStorage

LUSTRE_DRIVER: Final = "lustre.csi.storage.gke.io"
LUSTRE_PORTS: Final = (988, 6988)
"""988 is Lustre's standard port. GKE's driver uses 6988 if GKE's metadata server occupies 988."""
LUSTRE_RULE: Final = (
    f"a firewall rule for TCP {' and '.join(map(str, LUSTRE_PORTS))} from the range for private services access"
)
_NAMES: Final = {"filestore": "Filestore", "managed-lustre": "Managed Lustre"}


def check_existing(one: ExistingStorage, here: Problems) -> None:
    """Record a problem for an instance whose name is not in Google Cloud's format, or whose mount settings are
    missing.
    """
    if one.file_system.startswith("fs-") and "/" not in one.file_system:
        here.at("file_system").add(
            f"{one.file_system!r}",
            "location and name of an instance",
            "write file_system: us-central1-a/scratch, for example",
        )
    for field, what in (
        ("address", "the IP address"),
        ("share", "the name of the instance's file share or file system"),
    ):
        if getattr(one, field) is None:
            here.at(field).add(
                f"nothing with system {one.system}",
                f"{what}, because nodes need it to mount the instance",
                "see gcloud filestore instances describe"
                if one.system == "filestore"
                else "see gcloud lustre instances describe",
            )


def plan_existing(name: str, one: ExistingStorage, cluster: GkeCluster) -> Iterator[VolumePlan]:
    """Yield a volume for each team of a storage entry. If the stack file names no teams for the entry, `one.teams`
    already contains all teams.
    """
    project, location, instance = _parts(one, cluster)
    for team in one.teams or ():
        path = one.path(team)
        source = f"{_NAMES[one.system]} {location}/{instance}/{path}"
        if one.system == "filestore":
            export = "/".join(part for part in (one.share, path) if part)
            yield VolumePlan(
                name=name,
                namespace=team,
                source=source,
                driver=NFS,
                handle=f"{one.address}:/{export}",
                mount_options=read_only_options(one),
                read_only=one.read_only,
            )
        else:
            handle = f"{project}/{location}/{instance}"
            yield VolumePlan(
                name=name,
                namespace=team,
                source=source,
                driver=LUSTRE_DRIVER,
                handle=f"{handle}:{path}" if path else handle,
                attributes={
                    "ip": one.address or "",
                    "filesystem": one.share or "",
                    **({"subPath": path} if path else {}),
                },
                mount_options=read_only_options(one),
                read_only=one.read_only,
            )


def _parts(one: ExistingStorage, cluster: GkeCluster) -> tuple[str, str, str]:
    """Return the project, location and name of the instance."""
    before, _, instance = one.file_system.rpartition("/")
    project, _, location = before.rpartition("/")
    return project or cluster.project, location, instance


def by_existing(
    name: str, one: ExistingStorage, cluster: GkeCluster, created_network: str | None
) -> Iterator[Decision]:
    """Yield a decision about the volumes of a file system, and a warning if the program creates the cluster's VPC.

    `created_network` is the VPC that the program creates, or None if the cluster is in an existing VPC.
    """
    owner = ""
    if one.system == "managed-lustre" and cluster.create is None:
        owner = f"; the cluster's owner must enable the Managed Lustre driver and add {LUSTRE_RULE}"
    elif one.system == "managed-lustre" and created_network is None:
        owner = f"; the network's owner must add {LUSTRE_RULE}"
    yield Decision(
        subject="storage",
        what=name,
        chosen=f"{_NAMES[one.system]} {one.file_system}, {'read' if one.read_only else 'read and written'} by "
        f"{', '.join(one.teams or ()) or 'no team'}",
        why="a claim with this name in each namespace; nodes reach the instance from the cluster's network"
        + owner,
    )
    if created_network is not None:
        yield Decision(
            subject="storage",
            what=f"warning: {name}",
            chosen=f"the instance must be in VPC {created_network}, which this stack creates",
            why="pods that mount an instance in another VPC never start, even if the VPCs are peered; create "
            "the instance in this VPC after the first `up`, or write its VPC in cluster.create.network",
        )
