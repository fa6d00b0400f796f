"""Removes Kueue's finalizer of objects that are being deleted, so that a stack can create them again.

Kueue keeps a deleted ClusterQueue until the last workload that it admitted has ended, and admits nothing more. It
keeps a ResourceFlavor while a queue names it, and a Topology while a flavor does. Without Kueue's finalizer they
are deleted at once. The queue that the stack creates then counts the workloads that run, which are neither stopped
nor changed; queues of other stacks that name a flavor find it again.

Source: kubernetes-sigs/kueue v0.19.2, pkg/cache/scheduler/cache.go (AddClusterQueue lists workloads),
pkg/controller/core (clusterqueue_controller.go, resourceflavor_controller.go) and pkg/controller/tas
(topology_controller.go); read 2026-11-28.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gpu_platform.live.client import KubernetesClient, Refused

_API: Final = "kueue.x-k8s.io/v1beta2"
_IN_USE: Final = "kueue.x-k8s.io/resource-in-use"


def release_deleted(client: KubernetesClient, declared: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Let declared objects of Kueue that are being deleted go at once; yield their kinds and names."""
    for kind, name in declared:
        if _release(client, kind, name):
            yield kind, name


def _release(client: KubernetesClient, kind: str, name: str) -> bool:
    """Remove Kueue's finalizer of an object that is being deleted; return whether there was one."""
    while True:
        live = client.get(_API, kind, name)
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
            client.merge_if_unchanged({"apiVersion": _API, "kind": kind, "metadata": metadata})
        except Refused as refusal:
            if refusal.status == 409:  # Kueue changed it since it was read
                continue
            if refusal.status != 404:
                raise
        return True
