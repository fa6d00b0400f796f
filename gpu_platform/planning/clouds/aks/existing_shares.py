"""Check and plan existing NFS shares of Azure Files as team volumes.

The driver needs no key and no identity to mount an NFS share, because the storage account admits the network of
the nodes. `mountPermissions` 0 and `fsGroupChangePolicy` None keep the owner and the permissions of the directory.
By default, the driver sets the permissions 0777, and the group in a pod's `fsGroup`.

Sources: AKS docs, "Create and use a volume with Azure Files" (static NFS share); azurefile-csi-driver,
docs/driver-parameters.md and pkg/azurefile (GetAccountInfo, NodeStageVolume), commit 7b5ae18e of 2026-08-22; Azure
docs, "NFS Azure file shares" (security and networking); read 2026-12-01.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gpu_platform.planning.clouds.storage import VolumePlan, read_only_options
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.aks import AksCluster
from gpu_platform.stack.azure_resources import EXAMPLE_FILE_SHARE, FILE_SHARE
from gpu_platform.stack.storage import ExistingStorage

FILES_DRIVER: Final = "file.csi.azure.com"


def check_existing(one: ExistingStorage, here: Problems) -> None:
    """Record a problem if the file system is not the resource ID of a share."""
    if not re.fullmatch(FILE_SHARE, one.file_system):
        here.at("file_system").add(
            f"{one.file_system!r}",
            "the resource ID of a share, as `az storage share-rm show --query id` prints it",
            f"write file_system: {EXAMPLE_FILE_SHARE}, for example",
        )


def plan_existing(name: str, one: ExistingStorage) -> Iterator[VolumePlan]:
    """Yield a volume for each team of a storage entry. If the stack file names no teams for the entry, `one.teams`
    already contains all teams.
    """
    account, share = _account_and_share(one)
    for team in one.teams or ():
        path = one.path(team)
        yield VolumePlan(
            name=name,
            namespace=team,
            source=f"Azure Files {account}/{share}/{path}",
            driver=FILES_DRIVER,
            handle=f"{account}/{share}/{team}/{name}",
            attributes={
                "protocol": "nfs",
                "storageAccount": account,
                "shareName": share,
                "mountPermissions": "0",
                "fsGroupChangePolicy": "None",
                **({"folderName": path} if path else {}),
            },
            mount_options=read_only_options(one),
            read_only=one.read_only,
        )


def by_existing(name: str, one: ExistingStorage, cluster: AksCluster) -> Decision:
    """Return a decision that describes the volumes of a share, and the access that its owner must allow."""
    account, share = _account_and_share(one)
    subnet = "the subnet of the cluster's nodes"
    if cluster.create is not None:
        network = cluster.create.network
        subnet = "the subnet that this stack creates" if network is None else f"subnet {network.subnet}"
    return Decision(
        subject="storage",
        what=name,
        chosen=f"Azure Files {account}/{share}, {'read' if one.read_only else 'read and written'} by "
        f"{', '.join(one.teams or ()) or 'no team'}",
        why=f"a claim with this name in the namespace of each team; the owner of storage account {account} must "
        f"admit {subnet}, by a service endpoint or private endpoint, and allow NFS without encryption in transit",
    )


def _account_and_share(one: ExistingStorage) -> tuple[str, str]:
    parts = one.file_system.split("/")
    return parts[8], parts[12]
