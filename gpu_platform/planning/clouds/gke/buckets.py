"""Check and plan Cloud Storage buckets as team volumes, with the Cloud Storage FUSE CSI driver.

A sidecar in the pod reads and writes with the pod's own service account. The bucket's IAM policy grants access to
all service accounts in the team's namespace. The identity does not contain the cluster, so a namespace with the
same name in another cluster of the project has access too.

Sources: GKE docs, Cloud Storage FUSE CSI driver (setup, performance, troubleshooting) and Workload Identity
Federation (principal identifiers, network policies); Cloud Storage docs, IAM conditions on resource names;
GoogleCloudPlatform/gcsfuse#4196 (mounts list the bucket without a prefix); read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpu_platform.planning.clouds.storage import VolumePlan, VolumeSidecar
from gpu_platform.planning.decision import Decision
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.storage import BucketStorage

DRIVER: Final = "gcsfuse.csi.storage.gke.io"
SIDECAR: Final = VolumeSidecar(
    "gke-gcsfuse-sidecar",
    {"gke-gcsfuse/volumes": "true"},
    cpu="250m",
    memory="256Mi",
    # The value "0" means no limit on ephemeral storage. The default is 5Gi.
    # No other container has such a limit, so the default would apply to the whole pod.
    # The kubelet would evict a pod whose cache, scratch directories and logs together exceed 5Gi.
    # CPU and memory limits equal the requests, so the pod keeps the QoS class Guaranteed.
    settings={"gke-gcsfuse/ephemeral-storage-limit": "0"},
)
"""The sidecar that GKE adds to pods with the annotation gke-gcsfuse/volumes. One sidecar serves all buckets that
the pod mounts.

Sources: GKE docs, configure the Cloud Storage FUSE CSI driver sidecar container, default requests, read
2026-11-28; GoogleCloudPlatform/gcs-fuse-csi-driver, cmd/webhook/main.go, pkg/webhook/config.go, and
docs/troubleshooting.md, file cache; kubernetes v1.36, pkg/kubelet/eviction/eviction_manager.go,
podEphemeralStorageLimitEviction; read 2026-11-29.
"""
READ_ROLE: Final = "roles/storage.objectViewer"
WRITE_ROLE: Final = "roles/storage.objectUser"
# Role that allows listing object names. Without it, no prefix of the bucket can be mounted.
_LIST: Final = "roles/storage.legacyBucketReader"
# Maximum time in seconds before pods see a new file in a dataset.
_DATASETS_TTL: Final = 600
# Maximum number of files in a directory that pods can rename.
# Google recommends this value for checkpoints.
# A checkpoint's directory is renamed when the checkpoint is complete.
_RENAMED_FILES: Final = 200000


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketGrant:
    """A role on a bucket for all service accounts of a namespace. An empty `prefix` means all objects."""

    bucket: str
    namespace: str
    role: str
    prefix: str = ""

    @property
    def name(self) -> str:
        """Logical name of the IAM member. Only the prefix may contain a slash."""
        return "/".join((self.namespace, self.bucket, self.role.rpartition(".")[2], self.prefix)).rstrip("/")

    @property
    def condition(self) -> str | None:
        """Condition that limits the IAM binding to objects and folders below the prefix."""
        return below(self.bucket, self.prefix) if self.prefix else None


def below(bucket: str, prefix: str) -> str:
    """Return the IAM condition for objects and folders of a bucket below a prefix."""
    return " || ".join(
        f'resource.name.startsWith("projects/_/buckets/{bucket}/{kind}/{prefix}")'
        for kind in ("objects", "folders", "managedFolders")
    )


def plan_bucket(name: str, one: BucketStorage) -> Iterator[VolumePlan]:
    """Yield a volume for each team of a storage entry. If the stack file names no teams for the entry, `one.teams`
    already contains all teams.
    """
    for team in one.teams or ():
        yield VolumePlan(
            name=name,
            namespace=team,
            source=_source(one),
            driver=DRIVER,
            # The part after the colon makes the handle unique. The driver ignores this part.
            handle=f"{one.bucket}:{team}-{name}",
            mount_options=tuple(_mount_options(one)),
            read_only=not one.writable,
            sidecar=SIDECAR,
        )


def _source(one: BucketStorage) -> str:
    return f"gs://{one.bucket}/{one.directory}"


def _mount_options(one: BucketStorage) -> Iterator[str]:
    yield "implicit-dirs"
    if one.directory:
        yield f"only-dir={one.directory.rstrip('/')}"
    if one.purpose == "datasets":
        yield f"metadata-cache:ttl-secs:{_DATASETS_TTL}"
        yield f"file-system:kernel-list-cache-ttl-secs:{_DATASETS_TTL}"
    else:
        yield "metadata-cache:negative-ttl-secs:0"
        yield "write:enable-streaming-writes:true"
        yield f"rename-dir-limit={_RENAMED_FILES}"
    if one.cache_gib:
        yield f"file-cache:max-size-mb:{one.cache_gib * 1024}"
        yield "file-cache:enable-parallel-downloads:true"
    # Members' pods run with any user ID, and only their team can use the claim.
    yield from ("file-mode=666", "dir-mode=777") if one.writable else ("file-mode=444", "dir-mode=555")


def bucket_grants(buckets: Mapping[str, BucketStorage]) -> tuple[BucketGrant, ...]:
    """Return the teams' roles on buckets, without duplicates."""
    return tuple(dict.fromkeys(_grants(buckets)))


def _grants(buckets: Mapping[str, BucketStorage]) -> Iterator[BucketGrant]:
    for one in buckets.values():
        for team in one.teams or ():
            role = WRITE_ROLE if one.writable else READ_ROLE
            yield BucketGrant(bucket=one.bucket, namespace=team, role=role, prefix=one.directory)
            if one.directory:
                yield BucketGrant(bucket=one.bucket, namespace=team, role=_LIST)


def by_sidecar() -> Decision:
    """Return a decision about the annotations that pods with buckets need in addition to their claims."""
    return Decision(
        subject="storage",
        what="pods with buckets",
        chosen=" and ".join(f'{key}: "{value}"' for key, value in SIDECAR.pod_annotations.items()),
        why="declared workloads have these annotations, and members add them to their own pods; without the "
        "limit 0 "
        "the kubelet evicts a pod whose cache, scratch directories and logs together exceed 5 GiB",
    )


def by_bucket(name: str, one: BucketStorage, cluster: GkeCluster) -> Iterator[Decision]:
    """Yield a decision about a bucket's volumes, and a warning about the outbound connections that its teams are
    allowed to open.
    """
    owner = "" if cluster.create is not None else "; the cluster's owner must enable the Cloud Storage FUSE driver"
    access = "read and written" if one.writable else "read"
    teams = ", ".join(one.teams or ()) or "no team"
    yield Decision(
        subject="storage",
        what=name,
        chosen=f"{_source(one)}, {access} by {teams}",
        why=f"a claim with this name in each namespace, for all service accounts in it{owner}",
    )
    yield Decision(
        subject="storage",
        what=f"warning: {name}",
        chosen=f"pods of {teams} can reach HTTPS servers outside private networks",
        why="Cloud Storage FUSE runs in the pod, and Cloud Storage has no fixed addresses",
    )
