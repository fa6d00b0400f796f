"""Stack file field `storage`: by name, storage classes for claims of members, and volumes of teams."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.stack._types import DnsLabel, SpecModel, Zone
from gpu_platform.stack.bucket_paths import BUCKET_NAME, BUCKET_PATH_SEGMENT, BUCKET_PREFIX, KMS_OF_BUCKET
from gpu_platform.stack.declared import On
from gpu_platform.stack.keys import AwsKey, Key
from gpu_platform.stack.patterns import worded

_KMS_ON_EKS = On(("eks",), "the driver of Managed Lustre takes no key", fix="remove kms_key, or take type: nfs")


class DiskStorage(SpecModel):
    """Volumes on network disks, each for the pods of one node: home directories, caches, databases."""

    type: Literal["disk"]
    disk: Annotated[
        Literal["gp3", "io2", "pd-balanced", "pd-ssd", "hyperdisk-balanced"] | None,
        On(("eks",), "it is a type of EBS volumes", values=("gp3", "io2")),
        On(
            ("gke",),
            "it is a type of Google Cloud's disks",
            values=("pd-balanced", "pd-ssd", "hyperdisk-balanced"),
        ),
    ] = None
    """Unset: gp3 on EKS; on GKE pd-balanced, or hyperdisk-balanced on an existing cluster whose pools attach no
    other. A new cluster with such pools needs it."""
    iops: int | None = Field(default=None, ge=100, le=256000)
    """IOPS of each volume, for gp3, io2 and hyperdisk-balanced; io2 needs it. Unset: what the type has."""
    default: bool = False
    """The class of claims that name none; of one class at most."""
    retain: bool = False
    """Keep the disk, and pay for it, when its claim is deleted."""
    kms_key: Key | None = None
    """Customer-managed key (its ARN, or the name of a Cloud KMS key); unset: the cloud's default key."""


class NfsStorage(SpecModel):
    """Directories that the pods of many nodes share over NFS: code, environments, small datasets. EFS, or
    Filestore."""

    type: Literal["nfs"]
    file_system: Annotated[str | None, On(("eks",), "Filestore makes an instance for each claim")] = Field(
        default=None, pattern=r"^fs-[0-9a-f]{8,40}$", examples=["fs-0a1b2c3d4e5f60718"]
    )
    """EKS: an existing EFS file system; each claim is a directory of it. Unset: the program creates one, which
    `destroy` keeps."""
    tier: Annotated[
        Literal["basic-hdd", "basic-ssd", "zonal", "enterprise"] | None,
        On(("gke",), "EFS has no tiers: its throughput is elastic"),
    ] = None
    """GKE: service tier of Filestore; unset: zonal."""
    retain: bool = True
    """Keep what was written, and pay for it, when its claim is deleted."""
    kms_key: Key | None = None
    """Customer-managed key of the file system that the program creates (EKS), or of each instance (GKE)."""


class LustreStorage(SpecModel):
    """A parallel file system for each claim, that all nodes read and write fast: checkpoints, training data. FSx
    for Lustre, or Managed Lustre."""

    type: Literal["lustre"]
    throughput: Literal[125, 250, 500, 1000] = 250
    """Throughput in MB/s for each TiB of the claim."""
    zone: Zone | None = None
    """Zone of the file system; reads from other zones are slower and cost money. Unset: the zone of the pools, if
    they name one alone."""
    retain: bool = True
    """Keep the file system, and pay for it, when its claim is deleted."""
    kms_key: Annotated[AwsKey | None, _KMS_ON_EKS] = None
    """EKS: customer-managed key; unset: the default key of FSx."""


_SEGMENT = BUCKET_PATH_SEGMENT
TeamStacks = Annotated[tuple[DnsLabel, ...], Field(max_length=200)]


class BucketStorage(SpecModel):
    """An existing S3 or Cloud Storage bucket, which pods of teams see as a directory: each team gets a claim of
    this name."""

    type: Literal["bucket"]
    bucket: str = Field(pattern=BUCKET_NAME, examples=["acme-datasets"])
    """Name of the bucket; the program neither creates nor deletes it. EKS: a bucket of the cluster's region."""
    prefix: str | None = Field(default=None, pattern=BUCKET_PREFIX, max_length=512, examples=["imagenet/"])
    """Directory of the bucket that pods see, and beyond which they can read nothing; unset: the whole bucket."""
    teams: Annotated[tuple[DnsLabel, ...], Field(min_length=1, max_length=200)] | None = None
    """Teams of the environment that get the claim; unset: all of them."""
    team_stacks: TeamStacks = ()
    """Teams with a stack of their own that get the claim, from that stack; unset: none."""
    purpose: Literal["datasets", "checkpoints"] = "datasets"
    """What is in it, which sets how it is mounted. `datasets`: files that do not change, cached on the nodes;
    `checkpoints`: files that jobs write, nothing cached."""
    read_only: bool | None = None
    """Unset: yes for datasets, no for checkpoints."""
    cache_gb: int | None = Field(default=None, ge=0, le=16384)
    """GiB of each node's disk (EKS) or each pod's ephemeral storage (GKE) for files that were read. Unset: 50 for
    datasets, 0 for checkpoints."""
    kms_key: Annotated[AwsKey | None, KMS_OF_BUCKET] = None
    """EKS: ARN of the customer-managed key that encrypts the bucket's objects (SSE-KMS); unset: none is needed."""

    @property
    def writable(self) -> bool:
        """Whether pods may write."""
        return self.purpose == "checkpoints" if self.read_only is None else not self.read_only

    @property
    def cache_gib(self) -> int:
        """Size of the cache in GiB."""
        default = 50 if self.purpose == "datasets" else 0
        return default if self.cache_gb is None else self.cache_gb

    @property
    def directory(self) -> str:
        """`prefix` with one slash at its end; empty: the whole bucket."""
        return f"{self.prefix.rstrip('/')}/" if self.prefix else ""


_ON_EKS = On(("eks",), "Google Cloud's instances are mounted by their address", fix="write address and share")
_ON_GKE = On(("gke",), "file systems of AWS are mounted by their id")


class ExistingStorage(SpecModel):
    """An existing file system: each team gets a claim of this name, for the whole or for a directory of it."""

    type: Literal["existing"]
    system: Annotated[
        Literal["efs", "fsx-lustre", "filestore", "managed-lustre"],
        On(("eks",), "it is a file system of AWS", values=("efs", "fsx-lustre")),
        On(("gke",), "it is a file system of Google Cloud", values=("filestore", "managed-lustre")),
    ]
    file_system: str = Field(
        pattern=r"^(fs-[0-9a-f]{8,40}|([a-z0-9-]+/)?[a-z]+-[a-z0-9-]+/[a-z][a-z0-9-]*)$",
        examples=["fs-0a1b2c3d4e5f60718", "us-central1-a/scratch"],
    )
    """EKS: its id; GKE: location and name of the instance, with the project before them if it is another than the
    cluster's. The program neither creates nor deletes it."""
    mount_name: Annotated[str | None, _ON_EKS] = Field(
        default=None,
        pattern=worded(r"^[a-z0-9]{3,10}$", "a mount name: 3 to 10 lower-case letters and digits"),
        examples=["fsx", "abcdefgh"],
    )
    """fsx-lustre: its mount name, which `aws fsx describe-file-systems` prints."""
    address: Annotated[str | None, _ON_GKE] = Field(
        default=None, pattern=r"^\d{1,3}(\.\d{1,3}){3}$", examples=["10.0.0.2"]
    )
    """GKE: IP address of the instance."""
    share: Annotated[str | None, _ON_GKE] = Field(
        default=None,
        pattern=worded(
            r"^[A-Za-z][A-Za-z0-9_]{0,31}$", "the name of a share: up to 32 letters, digits and _, a letter first"
        ),
        examples=["vol1"],
    )
    """GKE: name of the file share (Filestore) or of the file system (Managed Lustre)."""
    directory: str | None = Field(
        default=None, pattern=rf"^({_SEGMENT}|\{{team\}})(/({_SEGMENT}|\{{team\}}))*$", examples=["teams/{team}"]
    )
    """Directory that pods see; `{team}` is the name of each team. It must exist. Unset: the whole file system."""
    teams: Annotated[tuple[DnsLabel, ...], Field(min_length=1, max_length=200)] | None = None
    """Teams of the environment that get the claim; unset: all of them."""
    team_stacks: TeamStacks = ()
    """Teams with a stack of their own that get the claim, from that stack; unset: none."""
    read_only: bool = False

    def path(self, team: str) -> str:
        """Return the directory of a team, without slashes around it; empty: the whole file system."""
        return (self.directory or "").replace("{team}", team)


ClaimableStorage = DiskStorage | NfsStorage | LustreStorage
"""What becomes a StorageClass."""

TeamStorage = BucketStorage | ExistingStorage
"""What becomes a volume of each team."""

StorageClass = Annotated[ClaimableStorage | TeamStorage, Field(discriminator="type")]
