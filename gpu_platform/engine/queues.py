"""Removes Kueue's finalizer of a queue that is being deleted, so that a stack can create it again (undone rename).

Kueue keeps a deleted ClusterQueue until the last workload that it admitted has ended, and admits nothing more.
Without Kueue's finalizer it is deleted at once; the one that the stack creates then counts the workloads that run,
which are neither stopped nor changed.

Source: kubernetes-sigs/kueue v0.19.2, pkg/cache/scheduler/cache.go (AddClusterQueue lists workloads) and
pkg/controller/core (clusterqueue_controller.go, reconcileOnClusterQueueActiveState); read 2026-11-25.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from gpu_platform.engine.client import KubernetesClient, Refused

_API: Final = "kueue.x-k8s.io/v1beta2"
_KIND: Final = "ClusterQueue"
_IN_USE: Final = "kueue.x-k8s.io/resource-in-use"


def release_deleted_queues(client: KubernetesClient, declared: Collection[str]) -> Iterator[str]:
    """Let declared ClusterQueues that are being deleted go at once; yield their names."""
    for name in declared:
        if _release(client, name):
            yield name


def _release(client: KubernetesClient, name: str) -> bool:
    """Remove Kueue's finalizer of a ClusterQueue that is being deleted; return whether there was one."""
    while True:
        live = client.get(_API, _KIND, name)
        found: Sequence[str] = (
            live["metadata"].get("finalizers", ()) if live and "deletionTimestamp" in live["metadata"] else ()
        )
        if live is None or _IN_USE not in found:
            return False
        metadata = {
            "name": name,
            "resourceVersion": live["metadata"]["resourceVersion"],
            "finalizers": [one for one in found if one != _IN_USE],
        }
        try:
            client.merge_if_unchanged({"apiVersion": _API, "kind": _KIND, "metadata": metadata})
        except Refused as refusal:
            if refusal.status == 409:  # Kueue changed it since it was read
                continue
            if refusal.status != 404:
                raise
        return True
