"""Check and plan Cloud Storage buckets as volumes of teams: Cloud Storage FUSE CSI driver.

A sidecar of the pod reads and writes as the pod's own service account: the bucket's IAM policy admits all service
accounts of the team's namespace. An identity has no cluster in it: a namespace of that name in another cluster of
the project is admitted, too.

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
    # "0" is no limit. The default is 5Gi, and since no other container has one, the kubelet evicts a pod whose
    # cache, scratch directories and logs together have more. With its limits of CPU and memory, which equal its
    # requests, the pod keeps the QoS class Guaranteed.
    settings={"gke-gcsfuse/ephemeral-storage-limit": "0"},
)
"""Added by GKE to pods with the annotation, however many buckets they mount: GKE docs, configure the Cloud Storage
FUSE CSI driver sidecar container, default requests, read 2026-11-28; GoogleCloudPlatform/gcs-fuse-csi-driver,
cmd/webhook/main.go, pkg/webhook/config.go, and docs/troubleshooting.md, file cache; kubernetes v1.36,
pkg/kubelet/eviction/eviction_manager.go, podEphemeralStorageLimitEviction; read 2026-11-29."""
READ_ROLE: Final = "roles/storage.objectViewer"
WRITE_ROLE: Final = "roles/storage.objectUser"
# Names of objects: without them no prefix of the bucket can be mounted.
_LIST: Final = "roles/storage.legacyBucketReader"
# Seconds until a new file of datasets is seen.
_DATASETS_TTL: Final = 600
# As Google sets it for checkpoints: a directory is renamed when a checkpoint is complete.
_RENAMED_FILES: Final = 200000


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketGrant:
    """A role of all service accounts of a namespace on a bucket. `prefix`: of the objects; empty: all."""

    bucket: str
    namespace: str
    role: str
    prefix: str = ""

    @property
    def name(self) -> str:
        """Logical name of the IAM member: no part of it has a slash before the prefix."""
        return "/".join((self.namespace, self.bucket, self.role.rpartition(".")[2], self.prefix)).rstrip("/")

    @property
    def condition(self) -> str | None:
        """Condition of the IAM binding: objects and folders below the prefix."""
        return below(self.bucket, self.prefix) if self.prefix else None


def below(bucket: str, prefix: str) -> str:
    """Return the condition of objects and folders of a bucket below a prefix."""
    return " || ".join(
        f'resource.name.startsWith("projects/_/buckets/{bucket}/{kind}/{prefix}")'
        for kind in ("objects", "folders", "managedFolders")
    )


def plan_bucket(name: str, one: BucketStorage) -> Iterator[VolumePlan]:
    """Yield the volume of each team; `one.teams`: resolved."""
    for team in one.teams or ():
        yield VolumePlan(
            name=name,
            namespace=team,
            source=_source(one),
            driver=DRIVER,
            # What follows the colon makes the handle unique, and the driver ignores it.
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
    # Members' pods run as any user; the claim is their team's alone.
    yield from ("file-mode=666", "dir-mode=777") if one.writable else ("file-mode=444", "dir-mode=555")


def bucket_grants(buckets: Mapping[str, BucketStorage]) -> tuple[BucketGrant, ...]:
    """Return the roles of teams on buckets, each once."""
    return tuple(dict.fromkeys(_grants(buckets)))


def _grants(buckets: Mapping[str, BucketStorage]) -> Iterator[BucketGrant]:
    for one in buckets.values():
        for team in one.teams or ():
            role = WRITE_ROLE if one.writable else READ_ROLE
            yield BucketGrant(bucket=one.bucket, namespace=team, role=role, prefix=one.directory)
            if one.directory:
                yield BucketGrant(bucket=one.bucket, namespace=team, role=_LIST)


def by_sidecar() -> Decision:
    """Return the decision about what pods that mount buckets need beside their claims."""
    return Decision(
        subject="storage",
        what="pods with buckets",
        chosen=" and ".join(f'{key}: "{value}"' for key, value in SIDECAR.pod_annotations.items()),
        why="declared workloads have these annotations, and members write them; without the limit 0 the kubelet "
        "evicts a pod whose cache, scratch and logs have more than 5 GiB",
    )


def by_bucket(name: str, one: BucketStorage, cluster: GkeCluster) -> Iterator[Decision]:
    """Yield the decisions about a bucket: its volumes, and the connections that it opens for its teams."""
    owner = "" if cluster.create is not None else "; the cluster's owner enables the driver of Cloud Storage FUSE"
    access = "read and written" if one.writable else "read"
    teams = ", ".join(one.teams or ()) or "no team"
    yield Decision(
        subject="storage",
        what=name,
        chosen=f"{_source(one)}, {access} by {teams}",
        why=f"a claim of this name in the namespace of each, for all its service accounts{owner}",
    )
    yield Decision(
        subject="storage",
        what=f"warning: {name}",
        chosen=f"pods of {teams} reach HTTPS servers outside private networks",
        why="Cloud Storage FUSE runs in the pod, and Cloud Storage has no fixed addresses",
    )
