"""Deletes live objects in an order in which each can go, and waits until they are gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from gpu_platform.engine.changes import Action, Change
from gpu_platform.engine.client import KubernetesClient
from gpu_platform.engine.objects import ObjectKey, object_key
from gpu_platform.engine.wait import DEFAULT_TIMEOUT_SECONDS, Waiter

# A pod cannot end properly without its node, nor a namespace that has pods: workloads go before namespaces,
# namespaces before nodes. Definitions go last, since they take all objects of their kind with them.
_WORKLOAD_GROUPS: Final = ("apps", "batch")
_LAST_KINDS: Final = ("Namespace", "Node", "CustomResourceDefinition.apiextensions.k8s.io")


def delete_all(client: KubernetesClient, waiter: Waiter, lives: Iterable[Mapping[str, Any]]) -> tuple[Change, ...]:
    """Delete these live objects, the youngest first within each wave; raises NotReady when one stays."""
    changes: list[Change] = []
    for wave in _waves(lives):
        for live in wave:
            client.delete(live)
        waiter.until_gone(wave, DEFAULT_TIMEOUT_SECONDS)
        changes.extend(Change(Action.DELETE, object_key(live)) for live in wave)
    return tuple(changes)


def _waves(lives: Iterable[Mapping[str, Any]]) -> list[Collection[Mapping[str, Any]]]:
    by_rank: dict[int, list[Mapping[str, Any]]] = {}
    for live in lives:
        by_rank.setdefault(_rank(object_key(live)), []).append(live)
    return [
        sorted(by_rank[rank], key=lambda live: str(live["metadata"]["creationTimestamp"]), reverse=True)
        for rank in sorted(by_rank)
    ]


def _rank(key: ObjectKey) -> int:
    if key.group_kind in _LAST_KINDS:
        return 2 + _LAST_KINDS.index(key.group_kind)
    return 0 if key.group in _WORKLOAD_GROUPS else 1
