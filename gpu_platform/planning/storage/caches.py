"""Compare the bucket caches with the disks of nodes. The drivers limit each cache, but not the sum of all caches.

Sources: mountpoint-s3-csi-driver, docs/CACHING.md (a cache for each volume on a node); GKE docs, gcsfuse, file
cache (in the ephemeral storage of each pod); Kubernetes docs, Node-pressure Eviction (pods are evicted if less
than 10 % of the node's file system is free); read 2026-11-29.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.section import CloudNodes
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.storage import BucketStorage, StorageClass

_USABLE: Final = 0.9


def by_caches(
    storage: Mapping[str, StorageClass], pools: Sequence[PoolPlan], catalog: Catalog, *, in_pod: bool
) -> Iterator[Decision]:
    """Yield a warning for each pool whose nodes have a disk that caches may fill.

    Each entry of `storage` must name all its teams. `in_pod` means that each pod has its own cache for a bucket.
    """
    teams: dict[str, list[int]] = {}
    buckets = [one for one in storage.values() if isinstance(one, BucketStorage) and one.cache_gib]
    for one in buckets:
        for team in one.teams or ():
            teams.setdefault(team, []).append(one.cache_gib)
    for pool in pools if teams else ():
        if pool.cloud is None:
            continue
        # Each pod that uses a unit of the node can mount all buckets of its team.
        pods = max(1, sum(pool.units_per_node.values())) if in_pod else 1
        sizes = max(teams.values(), key=sum) if in_pod else itertools.chain(*teams.values())
        caches = list(sizes) * pods
        disk = _disk(pool.cloud_nodes, pool.machine_type, catalog)
        if sum(caches) <= disk * _USABLE:
            continue
        owner = "each pod caches the buckets of its team" if in_pod else "each bucket of a team has a cache"
        fix = f"write cache_gb: {int(disk * _USABLE) // len(caches)} or less for each bucket"
        if not pool.cloud_nodes.local_nvme:
            fix += f", or {pool.path}.disk.size_gb: {math.ceil(sum(caches) / _USABLE)}"
        yield Decision(
            subject="storage",
            what="warning: caches",
            chosen=f"up to {counted(len(caches), 'bucket cache')} with {sum(caches)} GiB on a node of pool "
            f"{pool.name}, whose disk has {disk} GiB",
            why=f"{owner}, and the kubelet evicts pods if more than {_USABLE:.0%} of the disk is used; {fix}",
        )


def _disk(nodes: CloudNodes, machine_type: str, catalog: Catalog) -> int:
    """Return the size in GiB of the file system that contains the caches."""
    local = catalog.machine_types[machine_type].local_nvme_gb * 10**9 // 2**30
    return local if nodes.local_nvme else nodes.disk_gib
