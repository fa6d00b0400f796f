"""Completes the deletion of queues that a stack creates again, and of all queues when Kueue itself is deleted.

Kueue keeps a deleted ClusterQueue until the last workload of the queue has ended, and admits no other workload to
the queue. It keeps a ResourceFlavor that a queue refers to, and a Topology that a flavor refers to.
Without Kueue's finalizer, these objects are deleted immediately. The queue that the stack then creates counts the
running workloads, which are neither stopped nor changed. Queues of other stacks that refer to a flavor can use the
new flavor.

Kueue must outlive its workloads, because only Kueue removes the finalizers of their Workload objects and pods.
Waiting Jobs are suspended until Kueue starts them.

Source: kubernetes-sigs/kueue v0.19.2, pkg/cache/scheduler/cache.go (AddClusterQueue lists workloads),
pkg/controller/core (clusterqueue_controller.go, resourceflavor_controller.go) and pkg/controller/tas
(topology_controller.go); read 2026-11-28.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.objects import items_at, object_key
from gpu_platform.planning.queues.section import CONFIG_MAP

_API: Final = "kueue.x-k8s.io/v1beta2"
_IN_USE: Final = "kueue.x-k8s.io/resource-in-use"
_MOST_NAMED: Final = 10


def release_deleted(client: KubernetesClient, declared: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Remove Kueue's finalizer from declared objects that are being deleted, and yield their kinds and names."""
    for kind, name in declared:
        if _release(client, kind, name):
            yield kind, name


def _release(client: KubernetesClient, kind: str, name: str) -> bool:
    """Remove Kueue's finalizer from an object that is being deleted. Return whether the object had it."""
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
            if refusal.status == 409:  # Kueue has changed the object since it was read
                continue
            if refusal.status != 404:
                raise
        return True


def kueue_itself(superfluous: Iterable[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return Kueue's namespace and the objects in it, if the stack no longer declares them."""
    lives = list(superfluous)
    keys = [object_key(live) for live in lives]
    of_kueue = {key.namespace for key in keys if (key.kind, key.name) == ("ConfigMap", CONFIG_MAP)}
    return [
        live
        for live, key in zip(lives, keys, strict=True)
        if (key.name if key.group_kind == "Namespace" else key.namespace) in of_kueue
    ]


def why_kueue_stays(client: KubernetesClient) -> str:
    """Return the workloads that Kueue has started or keeps waiting, and what to do about them, as text. Return ""
    if Kueue has no such workloads.
    """
    left = [
        one
        for one in client.objects(_API, "Workload")
        if "deletionTimestamp" not in one["metadata"] and not _is(one, "Finished")
    ]
    if not left:
        return ""
    running = sorted(_named(one) for one in left if _is(one, "QuotaReserved"))
    waiting = sorted(_named(one) for one in left if not _is(one, "QuotaReserved"))
    lines = [
        "Kueue is not deleted, because workloads that it manages have not ended. All other objects are deployed, "
        "without queues. Until Kueue is deleted, new workloads of teams do not start. Run the command again when "
        "the workloads in this list have ended:",
        *_shortened("is still running: {}; wait until it ends, or delete it", running),
        *_shortened("waits for a deleted queue: {}; delete the workload, and create it again afterwards", waiting),
    ]
    return "\n".join(lines)


def _is(workload: Mapping[str, Any], condition: str) -> bool:
    conditions = items_at(workload, "status", "conditions")
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


def _named(workload: Mapping[str, Any]) -> str:
    """Return the object that a member created, such as `Job pretrain in namespace vision`.

    For a group of pods, return the Workload.
    """
    metadata = workload["metadata"]
    owners = [f"{owner['kind']} {owner['name']}" for owner in metadata.get("ownerReferences", ())]
    what = owners[0] if len(owners) == 1 else f"Workload {metadata['name']}"
    return f"{what} in namespace {metadata['namespace']}"


def _shortened(text: str, names: Sequence[str]) -> Iterator[str]:
    yield from (f"  - {text.format(name)}" for name in names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        yield f"  - {text.format(f'{len(names) - _MOST_NAMED} more')}"
