"""Deletes live objects in the order of their dependencies, and waits until they are deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from gpu_platform.deploy.changes import Action, Change
from gpu_platform.deploy.embedded.wait import DEFAULT_TIMEOUT_SECONDS, Waiter
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import WORKLOAD_GROUPS, ObjectKey, object_key

# Workloads and namespaces are deleted before nodes, because pods cannot terminate without their node.
# CRDs are deleted last, because the deletion of a CRD deletes all objects of its kind.
LAST_KINDS: Final = ("Namespace", "Node", "CustomResourceDefinition.apiextensions.k8s.io")

_QUEUES: Final = "kueue.x-k8s.io"


def delete_all(client: KubernetesClient, waiter: Waiter, lives: Iterable[Mapping[str, Any]]) -> tuple[Change, ...]:
    """Delete live objects in waves, the youngest first within a wave. Raises NotReady if an object is not deleted
    in time.
    """
    changes: list[Change] = []
    for wave in _waves(lives):
        for live in wave:
            client.delete(live)
        waiter.until_deleted([live for live in wave if not _is_finished_later(live)], DEFAULT_TIMEOUT_SECONDS)
        changes.extend(Change(Action.DELETE, object_key(live)) for live in wave)
    return tuple(changes)


def _is_finished_later(live: Mapping[str, Any]) -> bool:
    """Return whether Kueue deletes the object only after its workloads have ended, which may take days."""
    return object_key(live).group == _QUEUES


def _waves(lives: Iterable[Mapping[str, Any]]) -> list[Collection[Mapping[str, Any]]]:
    by_rank: dict[int, list[Mapping[str, Any]]] = {}
    for live in lives:
        by_rank.setdefault(_rank(object_key(live)), []).append(live)
    return [
        sorted(by_rank[rank], key=lambda live: str(live["metadata"]["creationTimestamp"]), reverse=True)
        for rank in sorted(by_rank)
    ]


def _rank(key: ObjectKey) -> int:
    if key.group_kind in LAST_KINDS:
        return 2 + LAST_KINDS.index(key.group_kind)
    return 0 if key.group in WORKLOAD_GROUPS else 1
