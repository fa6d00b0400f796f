"""Stack file field `storage`: named storage classes for members' volume claims, and the teams' named volumes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.stack._types import DnsLabel, SpecModel, Zone
from gpu_platform.stack.azure_resources import EXAMPLE_FILE_SHARE, FILE_SHARE
from gpu_platform.stack.bucket_paths import BUCKET_NAME, BUCKET_PATH_SEGMENT, BUCKET_PREFIX, KMS_OF_BUCKET
from gpu_platform.stack.declared import Examples, On
from gpu_platform.stack.keys import AwsKey, Key
from gpu_platform.stack.patterns import worded

_KEY_OF_SHARES = On(
    ("eks", "gke"), "on AKS, a key belongs to a whole storage account, and the driver creates accounts without one"
)
_LUSTRE_ON_AKS = On(
    ("eks", "gke"),
    "on AKS, the driver of Managed Lustre is in early development, and needs an identity on all nodes that can "
    "delete file systems",
    fix="write type: nfs, for shares of Azure Files",
)
_BUCKET_ON_AKS = On(
    ("eks", "gke"),
    "on AKS, mounting a container with the identity of a pod is a preview, and otherwise the pods of all teams "
    "share the rights of their nodes",
    fix="remove it, and give the teams an identity with buckets, which programs read with an SDK",
)
_KMS_ON_EKS = On(
    ("eks",),
    "the driver of Managed Lustre does not support customer-managed keys",
    fix="remove kms_key, or write type: nfs",
)


class DiskStorage(SpecModel):
    """Volumes on network disks, for home directories, caches and databases. Only the pods of a single node can use
    a volume.
    """

    type: Literal["disk"]
    disk: Annotated[
        Literal["gp3", "io2", "pd-balanced", "pd-ssd", "hyperdisk-balanced", "standard-ssd", "premium-ssd"] | None,
        On(("eks",), "it is a type of EBS volume", values=("gp3", "io2")),
        On(
            ("gke",),
            "it is a type of Google Cloud disk",
            values=("pd-balanced", "pd-ssd", "hyperdisk-balanced"),
        ),
        On(("aks",), "it is a type of Azure disk", values=("standard-ssd", "premium-ssd")),
    ] = None
    """Disk type. The default is gp3 on EKS, and premium-ssd on AKS. On GKE, it is pd-balanced, or
    hyperdisk-balanced on an existing cluster if its pools can attach no other type. A new cluster with such pools
    requires this field.
    """
    iops: Annotated[int | None, On(("eks", "gke"), "the size of an Azure disk determines its IOPS")] = Field(
        default=None, ge=100, le=256000
    )
    """IOPS of each volume, for gp3, io2 and hyperdisk-balanced. The field is required for io2. The default depends
    on the disk type.
    """
    default: bool = False
    """Whether claims that name no storage class use this storage class. At most one storage class can be the
    default.
    """
    retain: bool = False
    """Keep the disk when its claim is deleted. The disk continues to cost money."""
    kms_key: Key | None = None
    """Customer-managed key: its ARN, the name of a Cloud KMS key, or the resource ID of a disk encryption set. By
    default, the cloud's default key is used, or `disk_encryption_set` of a new AKS cluster.
    """


class NfsStorage(SpecModel):
    """Directories that the pods of many nodes share over NFS (EFS, Filestore or Azure Files), for code,
    environments and small datasets.
    """

    type: Literal["nfs"]
    file_system: Annotated[str | None, On(("eks",), "Filestore and Azure Files create a share for each claim")] = (
        Field(default=None, pattern=r"^fs-[0-9a-f]{8,40}$", examples=["fs-0a1b2c3d4e5f60718"])
    )
    """An existing EFS file system on EKS. Each claim is a directory in the file system. If unset, the program
    creates a file system, which `destroy` keeps.
    """
    tier: Annotated[
        Literal["basic-hdd", "basic-ssd", "zonal", "enterprise"] | None,
        On(("gke",), "only Filestore has such tiers"),
    ] = None
    """Service tier of Filestore on GKE. The default is `zonal`."""
    retain: bool = True
    """Keep the data when its claim is deleted. The data continues to cost money. EFS (on EKS) keeps the files in
    any case.
    """
    kms_key: Annotated[Key | None, _KEY_OF_SHARES] = None
    """Customer-managed key of the file system that the program creates (EKS), or of each instance (GKE)."""


class LustreStorage(SpecModel):
    """A parallel file system for each claim (FSx for Lustre or Managed Lustre), with fast access from all nodes,
    for checkpoints and training data.
    """

    type: Annotated[Literal["lustre"], _LUSTRE_ON_AKS]
    throughput: Literal[125, 250, 500, 1000] = 250
    """Throughput in MB/s per TiB of the claim."""
    zone: Zone | None = None
    """Zone of the file system. Access from other zones is slower and costs money. The default is the zone of the
    pools, if they name only one zone.
    """
    retain: bool = True
    """Keep the file system when its claim is deleted. The file system continues to cost money."""
    kms_key: Annotated[AwsKey | None, _KMS_ON_EKS] = None
    """Customer-managed key on EKS. By default, FSx uses its default key."""


_SEGMENT = BUCKET_PATH_SEGMENT
TeamStacks = Annotated[tuple[DnsLabel, ...], Field(max_length=200)]


class BucketStorage(SpecModel):
    """An existing S3 or Cloud Storage bucket that teams' pods use as a directory. Each team has a claim with the
    name of this entry.
    """

    type: Annotated[Literal["bucket"], _BUCKET_ON_AKS]
    bucket: str = Field(pattern=BUCKET_NAME, examples=["acme-datasets"])
    """Name of the bucket. The program neither creates nor deletes it. On EKS, the bucket must be in the cluster's
    region.
    """
    prefix: str | None = Field(default=None, pattern=BUCKET_PREFIX, max_length=512, examples=["imagenet/"])
    """Directory of the bucket that is mounted in pods. Pods cannot read anything outside this directory. The
    default is the whole bucket.
    """
    teams: Annotated[tuple[DnsLabel, ...], Field(min_length=1, max_length=200)] | None = None
    """Teams of the environment that have the claim. The default is all teams."""
    team_stacks: TeamStacks = ()
    """Teams with a separate stack that also have the claim. Their stack creates the claim. By default, teams with
    a separate stack do not have the claim.
    """
    purpose: Literal["datasets", "checkpoints"] = "datasets"
    """Content of the bucket, which decides how the bucket is mounted. `datasets` are files that do not change and
    are cached on the nodes. `checkpoints` are files that jobs write and that are not cached.
    """
    read_only: bool | None = None
    """Whether pods can only read. The default is `true` for datasets and `false` for checkpoints."""
    cache_gb: int | None = Field(default=None, ge=0, le=16384)
    """Cache size in GiB for files that were read, on each node's disk (EKS) or in each pod's ephemeral storage
    (GKE). The default is 50 for datasets and 0 for checkpoints.
    """
    kms_key: Annotated[AwsKey | None, KMS_OF_BUCKET] = None
    """ARN of the customer-managed key that encrypts the bucket's objects (SSE-KMS) on EKS. Leave it unset if there
    is no such key.
    """

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
        """`prefix` with exactly one slash at its end, or an empty string for the whole bucket."""
        return f"{self.prefix.rstrip('/')}/" if self.prefix else ""


_ON_EKS = On(
    ("eks",), "only FSx assigns mount names", fix="remove mount_name; on GKE, set address and share instead"
)
_ON_GKE = On(("gke",), "file systems of AWS and Azure are mounted by ID")


class ExistingStorage(SpecModel):
    """An existing file system. Each team has a claim with the name of this entry, for the whole file system or for
    one of its directories.
    """

    type: Literal["existing"]
    system: Annotated[
        Literal["efs", "fsx-lustre", "filestore", "managed-lustre", "azure-files"],
        On(("eks",), "it is an AWS file system", values=("efs", "fsx-lustre")),
        On(("gke",), "it is a Google Cloud file system", values=("filestore", "managed-lustre")),
        On(("aks",), "it is a share of Azure Files", values=("azure-files",)),
    ]
    file_system: Annotated[
        str, Examples(eks="fs-0a1b2c3d4e5f60718", gke="us-central1-a/scratch", aks=EXAMPLE_FILE_SHARE)
    ] = Field(pattern=rf"^fs-[0-9a-f]{{8,40}}$|^([a-z0-9-]+/)?[a-z]+-[a-z0-9-]+/[a-z][a-z0-9-]*$|{FILE_SHARE}")
    """ID of the file system on EKS, or resource ID of the share on AKS. On GKE, location and name of the instance,
    preceded by the project if the instance is in another project than the cluster. The program neither creates nor
    deletes the file system.
    """
    mount_name: Annotated[str | None, _ON_EKS] = Field(
        default=None,
        pattern=worded(r"^[a-z0-9]{3,10}$", "a mount name: 3 to 10 lower-case letters and digits"),
        examples=["fsx", "abcdefgh"],
    )
    """Mount name of an fsx-lustre file system. `aws fsx describe-file-systems` prints it."""
    address: Annotated[str | None, _ON_GKE] = Field(
        default=None, pattern=r"^\d{1,3}(\.\d{1,3}){3}$", examples=["10.0.0.2"]
    )
    """IP address of the instance on GKE."""
    share: Annotated[str | None, _ON_GKE] = Field(
        default=None,
        pattern=worded(
            r"^[A-Za-z][A-Za-z0-9_]{0,31}$",
            "the name of a share: up to 32 letters, digits and _, starting with a letter",
        ),
        examples=["vol1"],
    )
    """Name of the file share (Filestore) or of the file system (Managed Lustre) on GKE."""
    directory: str | None = Field(
        default=None, pattern=rf"^({_SEGMENT}|\{{team\}})(/({_SEGMENT}|\{{team\}}))*$", examples=["teams/{team}"]
    )
    """Directory that is mounted in pods. `{team}` is replaced by the name of each team. The directory must exist.
    The default is the whole file system.
    """
    teams: Annotated[tuple[DnsLabel, ...], Field(min_length=1, max_length=200)] | None = None
    """Teams of the environment that have the claim. The default is all teams."""
    team_stacks: TeamStacks = ()
    """Teams with a separate stack that also have the claim. Their stack creates the claim. By default, teams with
    a separate stack do not have the claim.
    """
    read_only: bool = False

    def path(self, team: str) -> str:
        """Return the directory of a team without leading and trailing slashes, or an empty string for the whole
        file system.
        """
        return (self.directory or "").replace("{team}", team)


ClaimableStorage = DiskStorage | NfsStorage | LustreStorage
"""Types of storage that are deployed as a StorageClass."""

TeamStorage = BucketStorage | ExistingStorage
"""Types of storage that are deployed as a volume for each team."""

StorageClass = Annotated[ClaimableStorage | TeamStorage, Field(discriminator="type")]
