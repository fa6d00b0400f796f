"""Check and plan storage classes on GKE: Google Cloud disks, Filestore and Managed Lustre.

Sources: GKE docs (Hyperdisk, Filestore CSI driver, Managed Lustre CSI driver) and the Managed Lustre CSI driver
reference; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.catalog.zones import google_region
from gpu_platform.planning.clouds.gke import buckets, existing_file_systems
from gpu_platform.planning.clouds.gke.buckets import BucketGrant
from gpu_platform.planning.clouds.gke.cluster import network_name
from gpu_platform.planning.clouds.gke.existing_file_systems import LUSTRE_DRIVER, LUSTRE_RULE
from gpu_platform.planning.clouds.gke.keys import check_key
from gpu_platform.planning.clouds.gke.plan import GkePoolPlan
from gpu_platform.planning.clouds.gke.system_pool import DEFAULT_TYPES
from gpu_platform.planning.clouds.storage import (
    ClaimSizes,
    MountProblem,
    StorageClassPlan,
    StoragePlan,
    VolumePlan,
    check_iops,
)
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.kubernetes_versions import minor
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import GkeCluster
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

DISK_DRIVER: Final = "pd.csi.storage.gke.io"
NFS_DRIVER: Final = "filestore.csi.storage.gke.io"
TOPOLOGY: Final = "topology.gke.io/zone"
HYPERDISK: Final = "hyperdisk-balanced"
_PERSISTENT_DISK: Final = "pd-balanced"
DEFAULT_CLASS: Final = "standard-rwo"
CLASSES_OF_GKE: Final[Mapping[str, Literal["pd-balanced", "pd-ssd"]]] = {
    DEFAULT_CLASS: _PERSISTENT_DISK,
    "premium-rwo": "pd-ssd",
}
"""Storage classes that GKE creates in every cluster, by disk type (GKE docs, Persistent Disk CSI driver)."""
# IOPS of one volume: Compute Engine docs, Hyperdisk Balanced, read 2026-11-28.
_HYPERDISK_IOPS: Final = (3000, 160_000)
LUSTRE_FEATURE: Final = "managed-lustre"
_LUSTRE_ON_ARM: Final = "managed-lustre-arm"
_LUSTRE_EXPANSION: Final = "managed-lustre-expansion"
# Filestore's API and driver use older names for the basic tiers.
_TIERS: Final[Mapping[str, str]] = {
    "basic-hdd": "standard",
    "basic-ssd": "premium",
    "zonal": "zonal",
    "enterprise": "enterprise",
}
# Source for 100 GiB on basic HDD: GKE docs, Access Filestore instances with the Filestore CSI driver.
# Source for the other sizes: Filestore docs, service tiers. Both sources were read 2026-11-29.
_SMALL_HDD_FROM: Final = "1.33"
_SMALLEST: Final[Mapping[str, str]] = {
    "basic-hdd": "100Gi",
    "basic-ssd": "2560Gi",
    "zonal": "1Ti",
    "enterprise": "1Ti",
}
# Smallest size and step by throughput (Managed Lustre docs, performance tiers; read 2026-11-28).
_LUSTRE_STEPS: Final[Mapping[int, str]] = {1000: "9000Gi", 500: "18000Gi", 250: "36000Gi", 125: "72000Gi"}
_WITH_KEYS: Final = ("zonal", "enterprise")


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeStorage:
    """Drivers and network access that the storage classes of a GKE cluster need.

    `in_network` names the storage classes whose parameter `network` is looked up, because it is the network of an
    existing cluster. `private_access` is the name of the peering range for Managed Lustre in a VPC that the
    program creates. `grants` are the teams' roles on buckets.
    """

    kind: Literal["gke"] = "gke"
    in_network: tuple[str, ...]
    filestore: tuple[str, ...] = ()
    """The storage classes for Filestore in `in_network`. Their connection also depends on the project of the
    network.
    """
    private_access: str | None
    grants: tuple[BucketGrant, ...] = ()


def check_gke_storage(
    cluster: GkeCluster,
    storage: Mapping[str, StorageClass],
    pools: Sequence[Pool],
    catalog: Catalog,
    problems: Problems,
) -> None:
    """Record problems with storage that GKE or the pools' machine types do not support. `problems` points to
    `storage`.
    """
    machines = {
        pool.name: machine
        for pool in pools
        if (machine := catalog.machine_types.get(pool.machine_type)) is not None and machine.vendor == "gcp"
    }
    for name, one in storage.items():
        here = problems.at(name)
        if name in CLASSES_OF_GKE and not isinstance(one, TeamStorage):
            here.add(
                f"{name!r}", "a name of your own, because GKE creates a storage class with this name", "rename it"
            )
        if isinstance(one, DiskStorage | NfsStorage):
            check_key(one.kms_key, cluster, here.at("kms_key"), regional=isinstance(one, NfsStorage))
        if isinstance(one, DiskStorage):
            _check_disk(one, _PERSISTENT_DISK if cluster.create is not None else None, machines, catalog, here)
        elif isinstance(one, NfsStorage):
            if one.kms_key is not None and (one.tier or "zonal") not in _WITH_KEYS:
                here.at("kms_key").add(
                    f"a key with tier {one.tier}",
                    "a key only with the tiers zonal and enterprise",
                    "write tier: zonal",
                )
        elif isinstance(one, LustreStorage):
            _check_lustre(one, cluster, pools, machines, catalog, here)
        elif isinstance(one, ExistingStorage):
            existing_file_systems.check_existing(one, here)
            if one.system == "managed-lustre":
                _check_lustre_nodes(
                    cluster, pools, machines, catalog, here.at("system"), "write system: filestore"
                )


def _check_disk(
    one: DiskStorage, unset: str | None, machines: Mapping[str, MachineType], catalog: Catalog, here: Problems
) -> None:
    """Record problems with a disk type that no pool can attach, and with IOPS that the disk type does not support.

    `unset` is the disk type of a storage class that does not declare one. It is None if the program chooses this
    type to fit the pools.
    """
    if one.iops is not None and one.disk != HYPERDISK:
        here.at("iops").add(
            f"{one.iops} with disk {one.disk or 'unset'}",
            f"iops only with {HYPERDISK}; the IOPS of other types depend on their size",
            f"write disk: {HYPERDISK}, or remove iops",
        )
    else:
        check_iops(one, HYPERDISK, _HYPERDISK_IOPS, here)
    disk = one.disk or unset
    if disk is None or not machines:
        return
    if all(not _attaches(disk, machine, catalog) for machine in machines.values()):
        possible = sorted({disk for machine in machines.values() for disk in _disks(machine, catalog)})
        here.at("disk").add(
            f"{one.disk!r}, which no pool can attach"
            if one.disk is not None
            else f"nothing; the default on a new cluster is {disk}, which no pool can attach",
            " or ".join(possible),
            f"write disk: {possible[0]}",
        )


def _check_lustre(
    one: LustreStorage,
    cluster: GkeCluster,
    pools: Sequence[Pool],
    machines: Mapping[str, MachineType],
    catalog: Catalog,
    here: Problems,
) -> None:
    region = google_region(cluster.location)
    if one.zone is not None and google_region(one.zone) != region:
        here.at("zone").add(
            f"{one.zone!r}", f"a zone of {region}", f"write {region}-a or another zone of the region"
        )
    _check_lustre_nodes(cluster, pools, machines, catalog, here.at("type"), "write type: nfs")


def _check_lustre_nodes(
    cluster: GkeCluster,
    pools: Sequence[Pool],
    machines: Mapping[str, MachineType],
    catalog: Catalog,
    here: Problems,
    otherwise: str,
) -> None:
    """Record problems with clusters and nodes that cannot run the Managed Lustre driver. `otherwise` is a fix that
    avoids the driver.
    """
    feature = catalog.gke_features[LUSTRE_FEATURE]
    if not _has(LUSTRE_FEATURE, cluster, catalog):
        here.add(
            f"'lustre' on Kubernetes {cluster.kubernetes}",
            f"GKE {feature.minimum} or newer ({feature.source})",
            f"upgrade the cluster, or {otherwise}",
        )
    unable = [
        pool.name
        for pool in pools
        if _no_lustre(machines.get(pool.name), cluster, catalog, on_ubuntu=pool.image.family == "ubuntu")
        is not None
    ]
    if len(unable) == len(pools):
        here.add(
            f"'lustre' with {', '.join(unable)}",
            "a pool with Container-Optimized OS, on Arm with GKE "
            f"{catalog.gke_features[_LUSTRE_ON_ARM].minimum} or newer, because the driver runs on no other nodes",
            otherwise,
        )


def _no_lustre(
    machine: MachineType | None, cluster: GkeCluster, catalog: Catalog, *, on_ubuntu: bool
) -> str | None:
    """Return why the nodes cannot run the Managed Lustre driver, or None if they can."""
    if on_ubuntu:
        return "Managed Lustre, whose driver runs only on Container-Optimized OS"
    if machine is not None and machine.arch == "arm64" and not _has(_LUSTRE_ON_ARM, cluster, catalog):
        return f"Managed Lustre, whose Arm driver needs GKE {catalog.gke_features[_LUSTRE_ON_ARM].minimum}"
    return None


def _is_managed_lustre(one: StorageClass) -> bool:
    return isinstance(one, LustreStorage) or (isinstance(one, ExistingStorage) and one.system == "managed-lustre")


def _has(feature: str, cluster: GkeCluster, catalog: Catalog) -> bool:
    """Return whether the cluster's version may have a feature. The result is true if no version is declared."""
    return cluster.kubernetes is None or minor(cluster.kubernetes) >= minor(catalog.gke_features[feature].minimum)


def _disks(machine: MachineType, catalog: Catalog) -> tuple[str, ...]:
    """Return the disk types that are known to work with a machine type: the types that its boot disk may have."""
    return catalog.gcp_family(machine).boot_disk_types


def _attaches(disk: str, machine: MachineType, catalog: Catalog) -> bool:
    return disk in _disks(machine, catalog)


def _system(cluster: GkeCluster, catalog: Catalog) -> MachineType | None:
    """Return the machine type of the system nodes of a new cluster, or None for an existing cluster."""
    if cluster.create is None:
        return None
    return catalog.machine_types[cluster.create.system.machine_type or DEFAULT_TYPES[0]]


def _only_hyperdisk(cluster: GkeCluster, pools: Sequence[PoolPlan], catalog: Catalog) -> list[str]:
    machines = [(pool.name, catalog.machine_types[pool.machine_type]) for pool in pools]
    if (system := _system(cluster, catalog)) is not None:
        machines.append(("system", system))
    return [name for name, machine in machines if not _attaches(_PERSISTENT_DISK, machine, catalog)]


def _all_hyperdisk(cluster: GkeCluster, pools: Sequence[PoolPlan], catalog: Catalog) -> bool:
    return bool(pools) and len(_only_hyperdisk(cluster, pools, catalog)) == len(pools) and cluster.create is None


def claim_sizes(one: StorageClass, cluster: GkeCluster) -> ClaimSizes:
    """Return the sizes of the instances that Google creates for a claim."""
    if isinstance(one, NfsStorage):
        old = cluster.kubernetes is not None and minor(cluster.kubernetes) < minor(_SMALL_HDD_FROM)
        return ClaimSizes(smallest=_SMALLEST["zonal" if old and one.tier == "basic-hdd" else one.tier or "zonal"])
    if isinstance(one, LustreStorage):
        return ClaimSizes(smallest=_LUSTRE_STEPS[one.throughput], step=_LUSTRE_STEPS[one.throughput])
    return ClaimSizes()


def mount_problem(
    one: StorageClass, cluster: GkeCluster, pool: PoolPlan, pools: Sequence[PoolPlan], catalog: Catalog
) -> MountProblem | None:
    """Return why the nodes of a pool cannot mount volumes of a storage entry, or None if no reason is known."""
    machine = catalog.machine_types[pool.machine_type]
    if isinstance(one, DiskStorage):
        disk = _disk(one, _all_hyperdisk(cluster, pools, catalog))
        if not _attaches(disk, machine, catalog):
            attached = _disks(machine, catalog)
            why = f"disks of type {disk}, but its nodes can attach only {' or '.join(attached)}"
            return MountProblem(why, f"disk: {attached[0]}" if attached else "")
    if _is_managed_lustre(one):
        ubuntu = catalog.node_images["gcp", "ubuntu"].image_type(machine)
        on_ubuntu = isinstance(pool.cloud, GkePoolPlan) and pool.cloud.image_type == ubuntu
        why = _no_lustre(machine, cluster, catalog, on_ubuntu=on_ubuntu)
        return None if why is None else MountProblem(why)
    return None


def own_classes(
    cluster: GkeCluster, storage: Mapping[str, StorageClass], pools: Sequence[PoolPlan], catalog: Catalog
) -> Mapping[str, DiskStorage]:
    """Return GKE's storage classes for disks. If the program creates the cluster, also return a storage class for
    nodes that can attach only Hyperdisk.
    """
    defaults = any(isinstance(one, DiskStorage) and one.default for one in storage.values())
    found = {
        name: DiskStorage(type="disk", disk=disk, default=name == DEFAULT_CLASS and not defaults)
        for name, disk in CLASSES_OF_GKE.items()
    }
    hyperdisk = HYPERDISK in storage or _has_hyperdisk(storage, _all_hyperdisk(cluster, pools, catalog))
    if cluster.create is not None and _only_hyperdisk(cluster, pools, catalog) and not hyperdisk:
        found[HYPERDISK] = DiskStorage(type="disk", disk=HYPERDISK)
    return found


def plan_gke_storage(
    cluster: GkeCluster, storage: Mapping[str, StorageClass], pools: Sequence[PoolPlan], catalog: Catalog
) -> Decided[StoragePlan]:
    """Return the storage classes of a cluster, with the Google Cloud resources that they need."""
    machines = {pool.name: catalog.machine_types[pool.machine_type] for pool in pools}
    only_hyperdisk = _only_hyperdisk(cluster, pools, catalog)
    all_hyperdisk = _all_hyperdisk(cluster, pools, catalog)
    of_buckets = {name: one for name, one in storage.items() if isinstance(one, BucketStorage)}
    wanted: dict[str, ClaimableStorage] = {
        name: one for name, one in storage.items() if not isinstance(one, TeamStorage)
    }
    decisions: list[Decision] = []
    if (hyperdisk := own_classes(cluster, storage, pools, catalog).get(HYPERDISK)) is not None:
        wanted[HYPERDISK] = hyperdisk
        decisions.append(
            Decision(
                subject="storage",
                what=HYPERDISK,
                chosen="a storage class in addition to GKE's default",
                why=f"the nodes of {'pool' if len(only_hyperdisk) == 1 else 'pools'} {', '.join(only_hyperdisk)} "
                "cannot attach disks of class standard-rwo",
            )
        )
    zones = sorted({zone for pool in pools for zone in _pool_zones(pool)})
    network = _network(cluster)
    own_network = _created_network(cluster)

    def unable(one: StorageClass) -> tuple[str, ...]:
        return tuple(pool.name for pool in pools if mount_problem(one, cluster, pool, pools, catalog))

    classes = [
        replace(
            _class(name, one, cluster, catalog, network, zones, all_hyperdisk),
            smallest=claim_sizes(one, cluster).smallest,
            unable=unable(one),
        )
        for name, one in wanted.items()
    ]
    for name, one in of_buckets.items():
        decisions.extend(buckets.by_bucket(name, one, cluster))
    if of_buckets:
        decisions.append(buckets.by_sidecar())
    for name, one in storage.items():
        if isinstance(one, ExistingStorage):
            decisions.extend(existing_file_systems.by_existing(name, one, cluster, own_network))
        if _is_managed_lustre(one) and (others := unable(one)):
            decisions.append(
                Decision(
                    subject="storage",
                    what=f"warning: {name}",
                    chosen=f"no volume on nodes of these pools: {', '.join(others)}",
                    why="the Managed Lustre driver does not run on these nodes, so pods that mount the volume "
                    "never start there",
                )
            )
        if isinstance(one, TeamStorage):
            continue
        decisions.append(_by_class(name, one, cluster, all_hyperdisk))
        decisions.extend(
            _warning(name, one, machines, catalog, all_hyperdisk=all_hyperdisk, system=_system(cluster, catalog))
        )
    in_network = [name for name, one in storage.items() if isinstance(one, NfsStorage | LustreStorage)]
    lustre = any(_is_managed_lustre(one) for one in storage.values())
    cloud = GkeStorage(
        in_network=tuple(in_network) if cluster.create is None else (),
        filestore=tuple(name for name in in_network if isinstance(storage[name], NfsStorage))
        if cluster.create is None
        else (),
        private_access=f"{own_network}-services" if lustre and own_network is not None else None,
        grants=buckets.bucket_grants(of_buckets),
    )
    needed = bool(cloud.in_network or cloud.private_access or cloud.grants)
    plan = StoragePlan(
        classes=tuple(classes),
        volumes=tuple(
            replace(volume, unable=unable(one))
            for name, one in storage.items()
            for volume in _volumes(name, one, cluster)
        ),
        cloud=cloud if needed else None,
        retained=tuple(_retained(storage, own_network)),
    )
    return Decided(plan, tuple(decisions))


def _volumes(name: str, one: StorageClass, cluster: GkeCluster) -> Iterator[VolumePlan]:
    if isinstance(one, BucketStorage):
        yield from buckets.plan_bucket(name, one)
    elif isinstance(one, ExistingStorage):
        yield from existing_file_systems.plan_existing(name, one, cluster)


def _created_network(cluster: GkeCluster) -> str | None:
    """Return the name of the VPC that the program creates, or None if the cluster is in an existing VPC."""
    return network_name(cluster) if cluster.create is not None and cluster.create.network is None else None


def _network(cluster: GkeCluster) -> str | None:
    """Return the network of a new cluster as a name, or as a path if the network already exists.

    The result is None for an existing cluster, whose network is looked up.
    """
    if cluster.create is None or cluster.create.network is None:
        return _created_network(cluster)
    vpc = cluster.create.network
    return f"projects/{vpc.project or cluster.project}/global/networks/{vpc.name}"


def _pool_zones(pool: PoolPlan) -> Sequence[str]:
    return pool.cloud.node_locations if isinstance(pool.cloud, GkePoolPlan) else ()


def _has_hyperdisk(storage: Mapping[str, StorageClass], all_hyperdisk: bool) -> bool:
    return any(isinstance(one, DiskStorage) and _disk(one, all_hyperdisk) == HYPERDISK for one in storage.values())


def _disk(one: DiskStorage, all_hyperdisk: bool) -> str:
    """Return the disk type of a storage class. If the class declares no type, the type depends on whether all
    nodes can attach Hyperdisk.

    The system nodes of a new cluster cannot attach Hyperdisk.
    """
    return one.disk or (HYPERDISK if all_hyperdisk else _PERSISTENT_DISK)


def _class(
    name: str,
    one: ClaimableStorage,
    cluster: GkeCluster,
    catalog: Catalog,
    network: str | None,
    zones: Sequence[str],
    all_hyperdisk: bool,
) -> StorageClassPlan:
    reclaim: Literal["Delete", "Retain"] = "Retain" if one.retain else "Delete"
    in_network = {"network": network} if network is not None else {}
    match one:
        case DiskStorage():
            key = {"disk-encryption-kms-key": one.kms_key} if one.kms_key is not None else {}
            iops = {"provisioned-iops-on-create": str(one.iops)} if one.iops is not None else {}
            return StorageClassPlan(
                name=name,
                provisioner=DISK_DRIVER,
                parameters={"type": _disk(one, all_hyperdisk), **iops, **key},
                reclaim_policy=reclaim,
                binding="WaitForFirstConsumer",
                expandable=True,
                default=one.default,
            )
        case NfsStorage():
            key = {"instance-encryption-kms-key": one.kms_key} if one.kms_key is not None else {}
            return StorageClassPlan(
                name=name,
                provisioner=NFS_DRIVER,
                shared=True,
                parameters={
                    "tier": _TIERS[one.tier or "zonal"],
                    **(filestore_network(network, cluster.project) if network is not None else {}),
                    **key,
                },
                reclaim_policy=reclaim,
                binding="WaitForFirstConsumer",
                expandable=True,
            )
        case LustreStorage():
            declared = (one.zone,) if one.zone is not None else tuple(zones) if len(zones) == 1 else ()
            return StorageClassPlan(
                name=name,
                provisioner=LUSTRE_DRIVER,
                shared=True,
                parameters={"perUnitStorageThroughput": str(one.throughput), **in_network},
                reclaim_policy=reclaim,
                # With WaitForFirstConsumer, pods with an unbound claim run only in the zones of the class.
                # Source: kubernetes v1.36.3, volumebinding/binder.go, checkVolumeProvisions.
                # The volume itself has no topology.
                binding="Immediate" if declared else "WaitForFirstConsumer",
                expandable=_has(_LUSTRE_EXPANSION, cluster, catalog),
                zones=declared,
                topology_key=TOPOLOGY if declared else "",
            )


def filestore_network(network: str, project: str) -> Mapping[str, str]:
    """Return how Filestore connects to a network.

    A network in another project allows only private services access.

    `network` is a name, or a path that begins with projects/. `project` is the cluster's project. Source: GKE
    docs, Access Filestore instances with Shared VPC; read 2026-11-28.
    """
    shared = network.startswith("projects/") and network.split("/")[1] != project
    return {"network": network, **({"connect-mode": "PRIVATE_SERVICE_ACCESS"} if shared else {})}


_ACCESS: Final = "private services access"


def _by_class(name: str, one: ClaimableStorage, cluster: GkeCluster, all_hyperdisk: bool) -> Decision:
    kept = "kept" if one.retain else "deleted"
    network, owner = _network(cluster), ""
    match one:
        case DiskStorage():
            chosen, why = _disk(one, all_hyperdisk), "for the pods of one node"
        case NfsStorage():
            chosen, why = (
                f"Filestore, {one.tier or 'zonal'}",
                "shared by the pods of all nodes, with one instance for each claim",
            )
            if network is None:
                owner = "; the cluster's owner must enable the Filestore driver"
            elif "connect-mode" in filestore_network(network, cluster.project):
                owner = f"; the network's owner must enable {_ACCESS}"
        case LustreStorage():
            chosen = f"Managed Lustre, {one.throughput} MB/s per TiB"
            why = "a file system for each claim, on nodes with Container-Optimized OS"
            if network is None:
                owner = (
                    f"; the cluster's owner must enable the Managed Lustre driver, enable {_ACCESS} in the "
                    "network, "
                    f"and add {LUSTRE_RULE}"
                )
            elif _created_network(cluster) is None:
                owner = f"; the network's owner must enable {_ACCESS} and add {LUSTRE_RULE}"
    return Decision(
        subject="storage", what=name, chosen=chosen, why=f"{why}; {kept} when its claim is deleted{owner}"
    )


def _warning(
    name: str,
    one: StorageClass,
    machines: Mapping[str, MachineType],
    catalog: Catalog,
    *,
    all_hyperdisk: bool,
    system: MachineType | None,
) -> Iterator[Decision]:
    """Yield a warning about nodes that cannot attach the disks of a storage class.

    `system` is the system nodes' machine type.
    """
    if not isinstance(one, DiskStorage):
        return
    disk = _disk(one, all_hyperdisk)
    unable = [pool for pool, machine in machines.items() if not _attaches(disk, machine, catalog)]
    if system is not None and not _attaches(disk, system, catalog):
        unable.append("the system nodes")
    if unable:
        yield Decision(
            subject="storage",
            what=f"warning: {name}",
            chosen=f"{disk} on {', '.join(unable)}",
            why=(
                "these nodes may be unable to attach the disk; declare a storage class with another disk type "
                "for them"
            ),
        )


def _retained(storage: Mapping[str, StorageClass], created_network: str | None) -> Iterator[str]:
    for name, one in storage.items():
        if isinstance(one, ExistingStorage) and created_network is not None:
            yield (
                f"instance {one.file_system} of storage {name}, if it is in VPC {created_network}; delete it by "
                "hand first, because the VPC cannot be deleted while the instance exists"
            )
        if isinstance(one, NfsStorage | LustreStorage):
            what = "Filestore instances" if isinstance(one, NfsStorage) else "Managed Lustre instances"
            yield (
                f"{what} of storage class {name}, even if their claim was deleted; delete them by hand first, "
                "because they are in the cluster's network"
            )
