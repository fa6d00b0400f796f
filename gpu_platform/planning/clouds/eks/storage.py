"""Check and plan storage classes on EKS: EBS, EFS and FSx for Lustre, with their drivers as EKS add-ons.

Sources: EKS user guide (Amazon EBS, EFS and FSx CSI drivers); kubernetes-sigs/aws-ebs-csi-driver, parameters;
aws-efs-csi-driver v3, docs/parameters.md; aws-fsx-csi-driver v1.9, docs/install.md and dynamic provisioning; FSx
for Lustre guide, security groups (TCP 988 and 1018-1023); read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from gpu_platform.catalog.csi_drivers import EBS_DRIVER, EFS_DRIVER, FSX_DRIVER
from gpu_platform.catalog.iam_policies import iam_statements
from gpu_platform.planning.clouds.eks import buckets, existing_file_systems
from gpu_platform.planning.clouds.eks.addons import managed_policy
from gpu_platform.planning.clouds.eks.arns import check_key, partition_of
from gpu_platform.planning.clouds.eks.cluster_plan import Addon
from gpu_platform.planning.clouds.eks.placement import zones_of
from gpu_platform.planning.clouds.eks.tags import check_file_system_tags
from gpu_platform.planning.clouds.eks.vpc import vpc_zones
from gpu_platform.planning.clouds.eks.zones import is_local_zone
from gpu_platform.planning.clouds.section import ClusterSetting
from gpu_platform.planning.clouds.storage import (
    ClaimSizes,
    StorageClassPlan,
    StoragePlan,
    VolumePlan,
    check_iops,
    disk_keys,
)
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.storage import (
    BucketStorage,
    ClaimableStorage,
    DiskStorage,
    ExistingStorage,
    LustreStorage,
    NfsStorage,
    StorageClass,
    TeamStorage,
)

DEFAULT_CLASS = "gp3"
"""Default storage class of a cluster that the program creates. EKS has not marked a class as default since 1.30.
"""
CLASS_OF_EKS = "gp2"
"""Storage class that EKS creates in new clusters, but not as the default (EKS user guide, release notes of
Kubernetes 1.30; read 2026-11-28). The parameters of a storage class cannot be changed.
"""
_GP3_IOPS = (3000, 80_000)  # IOPS of a volume; EBS user guide, General Purpose SSD volumes; read 2026-11-28
LUSTRE_SIZES = ClaimSizes(smallest="1200Gi", step="2400Gi")
"""Sizes of FSx for Lustre file systems of type PERSISTENT_2 (FSx for Lustre user guide; read 2026-11-28)."""
LUSTRE_PORTS = ((988, 988), (1018, 1023))
NFS_PORT = 2049
# The newest version that FSx offers. The clients of AL2023 and Bottlerocket support this version.
_LUSTRE_VERSION = "2.15"
# Team members can run pods as any user ID.
# EFS accesses a claim's directory with the claim's group ID.
_DIRECTORY_MODE = "700"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemPlan:
    """An EFS file system that the program creates for a storage class.

    If `kms_key` is None, EFS uses its default key.
    """

    storage_class: str
    kms_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EksStorage:
    """Drivers, file systems and network access that the storage classes of an EKS cluster need.

    `drivers` are the add-ons of a new cluster. `file_systems` are the EFS file systems that the program creates.
    `lustre` maps each storage class for Lustre to the zone of its file systems.
    """

    kind: Literal["eks"] = "eks"
    drivers: tuple[Addon, ...]
    file_systems: tuple[FileSystemPlan, ...]
    lustre: Mapping[str, str]


def check_eks_storage(
    cluster: EksCluster, storage: Mapping[str, StorageClass], pools: Sequence[Pool], problems: Problems
) -> None:
    """Record problems for storage that EKS or the cluster does not support. `problems` points at `storage`."""
    for name, one in storage.items():
        here = problems.at(name)
        if name == CLASS_OF_EKS and not isinstance(one, TeamStorage):
            here.add(
                f"{name!r}", "a name of your own, because EKS creates a storage class with this name", "rename it"
            )
        if isinstance(one, DiskStorage | NfsStorage | LustreStorage):
            check_key(one.kms_key, cluster, here.at("kms_key"))
        if isinstance(one, DiskStorage):
            _check_disk(one, here)
        elif isinstance(one, NfsStorage):
            _check_nfs(one, cluster, here)
        elif isinstance(one, BucketStorage):
            buckets.check_bucket(one, cluster, here)
        elif isinstance(one, ExistingStorage):
            existing_file_systems.check_existing(one, here)
        else:
            _check_lustre(one, cluster, pools, here)


def _check_disk(one: DiskStorage, here: Problems) -> None:
    if one.disk == "io2" and one.iops is None:
        here.at("iops").add("nothing with disk io2", "IOPS: io2 volumes have no default", "write iops: 10000")
    if one.disk != "io2":
        check_iops(one, "gp3", _GP3_IOPS, here)


def _check_nfs(one: NfsStorage, cluster: EksCluster, here: Problems) -> None:
    if one.file_system is None and cluster.create is None:
        here.at("file_system").add(
            "nothing on an existing cluster",
            "an EFS file system with a mount target in every zone of the cluster: the network belongs to its "
            "owner",
            "write file_system: fs-...",
        )
    if one.file_system is not None and one.kms_key is not None:
        here.at("kms_key").add(
            "a key for a file system that exists",
            "kms_key only without file_system: a key cannot be changed later",
            "remove kms_key",
        )


def _check_lustre(one: LustreStorage, cluster: EksCluster, pools: Sequence[Pool], here: Problems) -> None:
    check_file_system_tags(cluster.tags, here)
    possible = _zones(cluster, pools)
    if one.zone is None and len([zone for zone in _named(pools) if not is_local_zone(zone)]) != 1:
        named = ", ".join(_named(pools)) or "none"
        here.at("zone").add(
            f"nothing, and the pools name {named}",
            "one zone: an FSx file system is in one subnet",
            f"write zone: {next((zone for zone in possible if not is_local_zone(zone)), cluster.region + 'a')}",
        )
    elif one.zone is not None and one.zone not in possible:
        here.at("zone").add(
            f"{one.zone!r}",
            f"a zone of the cluster's network: {', '.join(possible) or 'name zones in the pools'}",
            "write one of these zones"
            if cluster.create is None
            else "write one of these zones, or add the zone to create.zones",
        )


def _named(pools: Sequence[Pool]) -> tuple[str, ...]:
    return tuple(sorted({zone for pool in pools for zone in zones_of(pool)}))


def _zones(cluster: EksCluster, pools: Sequence[Pool]) -> tuple[str, ...]:
    """Return the zones with a known subnet. In a VPC that the program creates, these are all its zones. In an
    existing network, they are the zones of the pools.
    """
    return vpc_zones(cluster, _named(pools)) if cluster.create is not None else _named(pools)


def own_classes(cluster: EksCluster, storage: Mapping[str, StorageClass]) -> Mapping[str, DiskStorage]:
    """Return the default storage class of a new cluster, unless a disk class is declared as the default.

    A declared class with the same name replaces it.
    """
    classes = {name: one for name, one in storage.items() if not isinstance(one, TeamStorage)}
    declared = classes.get(DEFAULT_CLASS, DiskStorage(type="disk"))
    defaults = any(isinstance(one, DiskStorage) and one.default for one in classes.values())
    if cluster.create is None or defaults or not isinstance(declared, DiskStorage):
        return {}
    return {DEFAULT_CLASS: declared.model_copy(update={"default": True})}


def plan_eks_storage(
    cluster: EksCluster,
    storage: Mapping[str, StorageClass],
    stack: str,
    pool_zones: Sequence[str],
    kubernetes: str | None,
    catalog: Catalog,
) -> Decided[StoragePlan]:
    """Return the storage classes of a cluster, with the drivers and file systems that they need.

    `pool_zones` are all zones that pools name, sorted. `kubernetes` is the cluster's minor version, which is known
    for a new cluster.
    """
    of_buckets = {name: one for name, one in storage.items() if isinstance(one, BucketStorage)}
    own = own_classes(cluster, storage)
    classes = [
        _class(name, one, stack, cluster.tags)
        for name, one in {**storage, **own}.items()
        if not isinstance(one, TeamStorage)
    ]
    decisions = [_by_class(name, one, cluster) for name, one in storage.items()]
    decisions += [_untagged(name) for name, one in storage.items() if isinstance(one, NfsStorage) and cluster.tags]
    local = [zone for zone in pool_zones if is_local_zone(zone)]
    decisions += [
        Decision(
            subject="storage",
            what=f"warning: {name}",
            chosen=f"no mount target in {', '.join(local)}",
            why="mount targets are only in Availability Zones, so pods in a Local Zone need other storage",
        )
        for name, one in storage.items()
        if isinstance(one, NfsStorage) and one.file_system is None and local
    ]
    if own:
        decisions.append(
            Decision(
                subject="storage",
                what="default class",
                chosen=f"{DEFAULT_CLASS}, {'declared' if DEFAULT_CLASS in storage else 'encrypted EBS volumes'}",
                why="EKS has no default storage class, so claims without a class would stay pending",
            )
        )
    lustre = {
        name: one.zone or next(zone for zone in pool_zones if not is_local_zone(zone))
        for name, one in storage.items()
        if isinstance(one, LustreStorage)
    }
    cloud = EksStorage(
        drivers=()
        if cluster.create is None or kubernetes is None
        else (
            *_drivers(storage, stack, kubernetes, cluster.region, catalog),
            *_bucket_driver(of_buckets, cluster, kubernetes, catalog),
        ),
        file_systems=tuple(
            FileSystemPlan(storage_class=name, kms_key=one.kms_key)
            for name, one in storage.items()
            if isinstance(one, NfsStorage) and one.file_system is None
        ),
        lustre=lustre,
    )
    needed = bool(cloud.drivers or cloud.file_systems or cloud.lustre)
    plan = StoragePlan(
        classes=tuple(classes),
        volumes=tuple(volume for name, one in storage.items() for volume in _volumes(name, one, cluster)),
        cloud=cloud if needed else None,
        retained=tuple(_retained(storage, cloud)),
        created=tuple(
            f"{one.storage_class} (new file system, {one.kms_key or 'default key'})" for one in cloud.file_systems
        ),
        settings=(
            *_mount_targets(cluster, cloud),
            *((disk_keys(volume_keys(storage)),) if cluster.create is not None else ()),
        ),
    )
    return Decided(plan, tuple(decisions))


def _mount_targets(cluster: EksCluster, cloud: EksStorage) -> Iterator[ClusterSetting]:
    """Yield the settings for the mount targets of new file systems in an existing VPC.

    A file system has one mount target in each zone, and the subnet of a mount target cannot be changed (EFS API,
    CreateMountTarget: MountTargetConflict; hashicorp/terraform-provider-aws#2525). Nodes use the mount target in
    their zone (EFS user guide, "Mounting on Amazon EC2 with a DNS name"). Read 2026-11-29.
    """
    network = cluster.create.network if cluster.create is not None else None
    if network is None or not cloud.file_systems:
        return
    classes = ", ".join(one.storage_class for one in cloud.file_systems)
    zones = {zone: subnet for zone, subnet in sorted(network.subnets.items()) if not is_local_zone(zone)}
    place = f"of {cluster.name} in {network.vpc}"
    yield ClusterSetting(
        name=f"mount_targets {place}",
        what="zones with mount targets of file systems",
        field="cluster.create.network.subnets",
        values=tuple(zones),
        loss="cuts-access",
        on_loss=f"the mount target in {{lost}} is deleted without a replacement: on nodes that stay in the "
        f"zone, access to files of {classes} hangs in running pods, and new pods cannot mount them",
        on_gain="pods in the new zone reach the files through a mount target in this zone",
    )
    for zone, subnet in zones.items():
        yield ClusterSetting(
            name=f"mount_target {place}, {zone}",
            what=f"mount target of file systems in {zone}",
            field="cluster.create.network.subnets",
            values=(subnet,),
            loss="cuts-access",
            on_loss="EFS has one mount target in each zone, and the subnet of a mount target cannot be changed: "
            "the mount target in {lost} is deleted, "
            f"then another is created in the new subnet. For some minutes, access to files of {classes} hangs in "
            "pods of the "
            "zone",
        )


def _volumes(name: str, one: StorageClass, cluster: EksCluster) -> Iterator[VolumePlan]:
    if isinstance(one, BucketStorage):
        yield from buckets.plan_bucket(name, one, cluster)
    elif isinstance(one, ExistingStorage):
        yield from existing_file_systems.plan_existing(name, one, cluster)


def _bucket_driver(
    of_buckets: Mapping[str, BucketStorage], cluster: EksCluster, kubernetes: str, catalog: Catalog
) -> Iterator[Addon]:
    """Yield the add-on for buckets if there is a bucket to mount."""
    if of_buckets:
        yield Addon(
            name=buckets.ADDON,
            version=catalog.eks_addons[buckets.ADDON].versions[kubernetes],
            configuration={},
            before_nodes=False,
            service_account=buckets.SERVICE_ACCOUNT,
            statements=buckets.bucket_statements(
                tuple(of_buckets.values()), partition_of(cluster.region), cluster.region
            ),
            own_association=True,
        )


def _class(name: str, one: ClaimableStorage, stack: str, tags: Mapping[str, str]) -> StorageClassPlan:
    reclaim: Literal["Delete", "Retain"] = "Retain" if one.retain else "Delete"
    match one:
        case DiskStorage():
            parameters = {"type": one.disk or "gp3", "encrypted": "true"}
            parameters |= {"iops": str(one.iops)} if one.iops is not None else {}
            parameters |= {"kmsKeyId": one.kms_key} if one.kms_key is not None else {}
            return StorageClassPlan(
                name=name,
                provisioner=EBS_DRIVER,
                parameters=parameters,
                reclaim_policy=reclaim,
                binding="WaitForFirstConsumer",
                expandable=True,
                default=one.default,
            )
        case NfsStorage():
            parameters = {"provisioningMode": "efs-ap", "directoryPerms": _DIRECTORY_MODE}
            parameters |= {"fileSystemId": one.file_system} if one.file_system is not None else {}
            return StorageClassPlan(
                name=name,
                provisioner=EFS_DRIVER,
                shared=True,
                parameters=parameters,
                reclaim_policy=reclaim,
                binding="Immediate",  # EFS volumes are reachable from every zone
                expandable=False,  # EFS file systems have no fixed size
            )
        case LustreStorage():
            parameters = {
                "deploymentType": "PERSISTENT_2",
                "storageType": "SSD",
                "perUnitStorageThroughput": str(one.throughput),
                "dataCompressionType": "LZ4",
                "fileSystemTypeVersion": _LUSTRE_VERSION,
                "extraTags": ",".join(
                    f"{key}={value}" for key, value in {**tags, names.STACK_LABEL: stack}.items()
                ),
            }
            parameters |= {"kmsKeyId": one.kms_key} if one.kms_key is not None else {}
            return StorageClassPlan(
                name=name,
                provisioner=FSX_DRIVER,
                shared=True,
                parameters=parameters,
                reclaim_policy=reclaim,
                binding="Immediate",  # the creation of a file system takes minutes, and its zone is fixed
                expandable=True,
                smallest=LUSTRE_SIZES.smallest,
            )


def _drivers(
    storage: Mapping[str, StorageClass], stack: str, kubernetes: str, region: str, catalog: Catalog
) -> Iterator[Addon]:
    """Yield the add-ons for file systems. Every new cluster already has the EBS add-on."""

    partition = partition_of(region)
    types = {one.type for one in storage.values()}
    existing = {one.system for one in storage.values() if isinstance(one, ExistingStorage)}

    def addon(
        name: str,
        service_account: str,
        policies: tuple[str, ...] = (),
        statements: tuple[Mapping[str, Any], ...] = (),
    ) -> Addon:
        return Addon(
            name=name,
            version=catalog.eks_addons[name].versions[kubernetes],
            configuration={},
            before_nodes=False,
            service_account=service_account,
            managed_policies=policies,
            statements=statements,
        )

    if "nfs" in types:
        policy = managed_policy(partition, "service-role/AmazonEFSCSIDriverPolicy")
        yield addon("aws-efs-csi-driver", "efs-csi-controller-sa", (policy,))
    elif "efs" in existing:
        statements = iam_statements("mount-efs", {})
        yield addon("aws-efs-csi-driver", "efs-csi-controller-sa", statements=statements)
    if "lustre" in types:
        # AmazonFSxFullAccess is not used, because it allows deleting every file system in the account.
        keys = sorted({one.kms_key for one in storage.values() if isinstance(one, LustreStorage) and one.kms_key})
        tag = {"stack_tag": names.STACK_LABEL, "stack": stack}
        statements = (
            *iam_statements("fsx-driver", {"partition": partition, "region": region, **tag}),
            *iam_statements("volume-keys", {"keys": keys}),
        )
        yield addon("aws-fsx-csi-driver", "fsx-csi-controller-sa", statements=statements)
    elif "fsx-lustre" in existing:
        statements = iam_statements("mount-fsx", {})
        yield addon("aws-fsx-csi-driver", "fsx-csi-controller-sa", statements=statements)


def volume_keys(storage: Mapping[str, StorageClass]) -> tuple[str, ...]:
    """Return the KMS keys that storage classes declare for EBS volumes."""
    return tuple(sorted({one.kms_key for one in storage.values() if isinstance(one, DiskStorage) and one.kms_key}))


def _by_class(name: str, one: StorageClass, cluster: EksCluster) -> Decision:
    if isinstance(one, BucketStorage):
        return buckets.by_bucket(name, one, cluster)
    if isinstance(one, ExistingStorage):
        return existing_file_systems.by_existing(name, one, cluster)
    kept = f"{'kept' if one.retain else 'deleted'} when its claim is deleted"
    driver = "" if cluster.create is not None else "; the cluster's owner installs the driver"
    match one:
        case DiskStorage():
            chosen, why = f"EBS {one.disk or 'gp3'}, encrypted", "usable by the pods of one node"
        case NfsStorage():
            chosen = f"EFS {one.file_system or 'file system for this class'}"
            why = "shared by the pods of all nodes; each claim is a directory"
            # The driver's option to delete files is off, because it has deleted whole file systems.
            # Source: kubernetes-sigs/aws-efs-csi-driver#411, #1085 and #1695 (open); read 2026-11-30.
            kept = "the files of a deleted claim stay" + (
                "" if one.retain else ", only its access point is deleted"
            )
        case LustreStorage():
            chosen = f"FSx for Lustre, {one.throughput} MB/s per TiB"
            why = "a file system of at least 1,200 GiB for each claim"
    return Decision(subject="storage", what=name, chosen=chosen, why=f"{why}; {kept}{driver}")


def _untagged(name: str) -> Decision:
    """Return the warning that EFS access points do not have the company's tags.

    Sources: aws/containers-roadmap#2755 (open): the add-on has no setting for tags; aws-efs-csi-driver#1921:
    AmazonEFSCSIDriverPolicy allows only the driver's own tag key; read 2026-11-25.
    """
    return Decision(
        subject="storage",
        what=f"warning: {name}",
        chosen="EFS access points without cluster.tags",
        why="the EFS add-on sets no tags on the access point of each claim, and AWS's policy for the add-on "
        "allows none; the file system that the program creates has the tags, and access points cost nothing",
    )


def _retained(storage: Mapping[str, StorageClass], cloud: EksStorage) -> Iterator[str]:
    for one in cloud.file_systems:
        yield f"EFS file system of storage class {one.storage_class}, with its files: delete it by hand"
    for name, one in storage.items():
        if isinstance(one, LustreStorage):
            yield (
                f"FSx file systems of storage class {name}, even if their claim is deleted: delete them by "
                "hand first, because they are in the cluster's network"
            )
