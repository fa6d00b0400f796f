"""Check and plan storage on AKS: Azure disks, and new and existing shares of Azure Files.

Sources: AKS docs, "Create and use a volume with Azure Disks", "Azure Files" and "Azure Blob Storage"
(storeAccountKey), and "Storage options for applications"; azuredisk-csi-driver and
azurefile-csi-driver, docs/driver-parameters.md and updateSubnetServiceEndpoints; read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gpu_platform.planning.clouds.aks.existing_shares import (
    FILES_DRIVER,
    by_existing,
    check_existing,
    plan_existing,
)
from gpu_platform.planning.clouds.aks.keys import check_encryption_set, encryption_sets
from gpu_platform.planning.clouds.aks.names import SUBNET, network_name
from gpu_platform.planning.clouds.storage import ClaimSizes, StorageClassPlan, StoragePlan, disk_keys
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.aks import AksCluster
from gpu_platform.stack.storage import DiskStorage, ExistingStorage, NfsStorage, StorageClass

DISK_DRIVER: Final = "disk.csi.azure.com"
TOPOLOGY: Final = "topology.disk.csi.azure.com/zone"
DEFAULT_CLASS: Final = "default"
KEY_CLASSES: Final = (
    "azureblob-fuse-premium",
    "azurefile",
    "azurefile-csi",
    "azurefile-csi-premium",
    "azurefile-premium",
)
"""Storage classes of AKS whose driver writes the key of the storage account into a Secret next to the claim. The
account also has the volumes of other teams.
"""
CLASSES_OF_AKS: Final = (
    DEFAULT_CLASS,
    "managed",
    "managed-csi",
    "managed-csi-premium",
    "managed-premium",
    "managed-csi-premium-v2",
    "azureblob-nfs-premium",
    *KEY_CLASSES,
)
"""Storage classes that AKS creates, depending on the version and the drivers of a cluster."""
_SKUS: Final[Mapping[str, str]] = {"standard-ssd": "StandardSSD_LRS", "premium-ssd": "Premium_LRS"}
# A premium share has 100 GiB or more, and is billed for its whole size.
_SMALLEST_SHARE: Final = "100Gi"


def check_aks_storage(cluster: AksCluster, storage: Mapping[str, StorageClass], problems: Problems) -> None:
    """Record problems with storage that AKS does not support. `problems` points to `storage`."""
    for name, one in storage.items():
        if isinstance(one, DiskStorage):
            check_encryption_set(one.kms_key, cluster, problems.at(name).at("kms_key"))
        elif isinstance(one, ExistingStorage):
            check_existing(one, problems.at(name))
        if name in CLASSES_OF_AKS:
            problems.at(name).add(
                f"{name!r}", "a name of your own, because AKS creates a storage class with this name", "rename it"
            )


def own_classes(cluster: AksCluster, storage: Mapping[str, StorageClass]) -> Mapping[str, DiskStorage]:
    """Return the default storage class that AKS creates in a new cluster. The classes of an existing cluster are
    not known. A declared default is newer, so claims that name no class get it.
    """
    if cluster.create is None:
        return {}
    declared = any(isinstance(one, DiskStorage) and one.default for one in storage.values())
    return {DEFAULT_CLASS: DiskStorage(type="disk", disk="standard-ssd", default=not declared)}


def claim_sizes(one: StorageClass) -> ClaimSizes:
    """Return the sizes of the volumes that Azure creates for a storage class."""
    return ClaimSizes(smallest=_SMALLEST_SHARE) if isinstance(one, NfsStorage) else ClaimSizes()


def plan_aks_storage(storage: Mapping[str, StorageClass], cluster: AksCluster) -> Decided[StoragePlan]:
    """Return the storage classes of a stack, and the volumes of existing shares."""
    classes = tuple(_classes(storage, _subnet(cluster)))
    existing = {name: one for name, one in storage.items() if isinstance(one, ExistingStorage)}
    decisions = (
        *(decision for one in classes for decision in _decisions(one, cluster)),
        *(by_existing(name, one, cluster) for name, one in existing.items()),
    )
    volumes = tuple(volume for name, one in existing.items() for volume in plan_existing(name, one))
    retained = tuple(
        f"volumes of storage class {one.name}"
        for one in classes
        if one.reclaim_policy == "Retain" and cluster.create is None
    )
    return Decided(
        StoragePlan(
            classes=classes,
            volumes=volumes,
            retained=retained,
            settings=(disk_keys(encryption_sets(cluster, storage)),) if cluster.create is not None else (),
        ),
        decisions,
    )


def _decisions(one: StorageClassPlan, cluster: AksCluster) -> Iterator[Decision]:
    """Yield the driver of a class, and that a new cluster takes its volumes with it: they are in the resource
    group of the nodes, which AKS deletes together with the cluster (AKS docs, FAQ, read 2026-11-30).
    """
    subject = f"storage {one.name}"
    yield Decision(subject=subject, what="driver", chosen=one.provisioner, why="AKS runs this driver")
    if (key := one.parameters.get("diskEncryptionSetID")) is not None and cluster.create is None:
        yield Decision(
            subject=subject,
            what="requirement of its key",
            chosen=f"the role Reader on {key} for the identity of the cluster",
            why="the control plane attaches disks, and the program does not change roles of an existing cluster",
        )
    if one.reclaim_policy == "Retain" and cluster.create is not None:
        yield Decision(
            subject=subject,
            what="warning: retain",
            chosen="volumes outlive their claims, but not the cluster",
            why="AKS deletes the nodes' resource group together with the cluster, and all volumes are in it",
        )


def _subnet(cluster: AksCluster) -> Mapping[str, str]:
    """Return the parameters that name the subnet of a new cluster's nodes. Without them, the driver changes every
    subnet of the virtual network, which AKS may not do: its role covers only the subnet of the nodes.
    """
    if cluster.create is None:
        return {}
    network = cluster.create.network
    if network is None:
        group, virtual, subnet = cluster.resource_group, network_name(cluster.name), SUBNET
    else:
        parts = network.subnet.split("/")
        group, virtual, subnet = parts[4], parts[8], parts[10]
    return {"vnetResourceGroup": group, "vnetName": virtual, "subnetName": subnet}


def _classes(storage: Mapping[str, StorageClass], subnet: Mapping[str, str]) -> Iterator[StorageClassPlan]:
    for name, one in storage.items():
        if isinstance(one, DiskStorage):
            yield StorageClassPlan(
                name=name,
                provisioner=DISK_DRIVER,
                parameters={
                    "skuName": _SKUS[one.disk or "premium-ssd"],
                    **({} if one.kms_key is None else {"diskEncryptionSetID": one.kms_key}),
                },
                reclaim_policy="Retain" if one.retain else "Delete",
                binding="WaitForFirstConsumer",
                expandable=True,
                default=one.default,
                topology_key=TOPOLOGY,
            )
        elif isinstance(one, NfsStorage):
            yield StorageClassPlan(
                name=name,
                provisioner=FILES_DRIVER,
                # The driver admits only the subnet of the nodes, by a service endpoint.
                parameters={"protocol": "nfs", "skuName": "Premium_LRS", **subnet},
                reclaim_policy="Retain" if one.retain else "Delete",
                binding="Immediate",
                expandable=True,
                shared=True,
                smallest=_SMALLEST_SHARE,
            )
