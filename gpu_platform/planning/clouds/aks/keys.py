"""Check and plan the customer-managed keys of an AKS cluster: disk encryption sets for disks of nodes and volumes,
and a Key Vault key for Secrets.

AKS has one disk encryption set for the disks of all nodes. The key of Secrets uses AKS's integration with a public
key vault, because a private vault needs API Server VNet Integration. The successor of this integration is a
preview.

Sources: AKS docs, "Bring your own keys (BYOK) with Azure managed disks" and "Add Key Management Service (KMS) etcd
encryption to an Azure Kubernetes Service (AKS) cluster (legacy)"; Azure docs, "Server-side encryption of Azure
Disk Storage", restrictions; terraform-provider-azurerm, kubernetes_cluster_resource.go; read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpu_platform.planning.clouds.aks.plan import VaultKey
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.aks import AksCluster, CreateAks
from gpu_platform.stack.storage import DiskStorage, StorageClass


def check_encryption_set(key: str | None, cluster: AksCluster, here: Problems) -> None:
    """Record a problem for a key that cannot encrypt disks of the cluster. `here` points to the key."""
    if key is None:
        return
    if not key.startswith("/subscriptions/"):
        here.add(
            f"{key!r}",
            "the resource ID of a disk encryption set: /subscriptions/S/resourceGroups/G/providers/"
            "Microsoft.Compute/diskEncryptionSets/N",
            "see az disk-encryption-set list --query [].id",
        )
    elif (subscription := key.split("/")[2]) != cluster.subscription:
        here.add(
            f"a disk encryption set in subscription {subscription}",
            f"a disk encryption set in the cluster's subscription, {cluster.subscription}, and in its region",
            "create one there; its key may be in another subscription",
        )


def encryption_sets(cluster: AksCluster, storage: Mapping[str, StorageClass]) -> tuple[str, ...]:
    """Return the disk encryption sets of nodes and volumes, without duplicates."""
    of_nodes = cluster.create.disk_encryption_set if cluster.create is not None else None
    of_volumes = (one.kms_key for one in storage.values() if isinstance(one, DiskStorage))
    return tuple(dict.fromkeys(key for key in (of_nodes, *of_volumes) if key is not None))


def vault_key(version: str | None) -> VaultKey | None:
    """Return the key with a version from the stack file, or None if the stack file names no key."""
    if version is None:
        return None
    parts = version.split("/")
    vault, name, number = parts[8], parts[10], parts[12]
    return VaultKey(
        id=version.rpartition("/versions/")[0], url=f"https://{vault}.vault.azure.net/keys/{name}/{number}"
    )


def key_decisions(cluster: AksCluster, create: CreateAks) -> Iterator[Decision]:
    """Yield decisions about the keys of a new cluster's disks and Secrets, if the stack file names keys."""
    subject = f"cluster {cluster.name}"
    if create.disk_encryption_set is not None:
        yield Decision(
            subject=subject,
            what="disks of nodes",
            chosen=create.disk_encryption_set,
            why="the stack file names it; AKS uses it for all nodes, and cannot change it later",
        )
    if (key := vault_key(create.kms_key)) is not None:
        yield Decision(
            subject=subject,
            what="key of Secrets",
            chosen=key.url,
            why="if the key is deleted, the API server stops; after a change of the version, keep the former "
            "version, and run kubectl get secrets --all-namespaces -o json | kubectl replace -f -",
        )
