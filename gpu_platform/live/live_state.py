"""Reads the state of the cluster that determines the impact of a change.

The state includes the nodes of each pool, pods, PodDisruptionBudgets, and the data that team members store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.disruption import guarded_pod
from gpu_platform.live.live_objects import LiveObjects, read_objects
from gpu_platform.live.objects import is_ready, items_at, mapping_at
from gpu_platform.live.pods import daemon_gpu_pods, daemon_set_of, eviction_action, pod_name
from gpu_platform.live.usage import gpu_units
from gpu_platform.planning.changes.budgets import DisruptionBudget, block_of, daemon_block
from gpu_platform.planning.changes.live_types import DataObject, LiveState, RunningPod
from gpu_platform.planning.nodes.section import HOLDING_TAINTS
from gpu_platform.planning.plan import Plan
from gpu_platform.planning.pools.section import PoolPlan
from validators.cluster import upgrade_failed

# Kubernetes and Helm create Secrets of these types, so they are not members' data.
_OWN_SECRETS: Final = ("kubernetes.io/service-account-token", "helm.sh/release.v1")
_POD_HASH: Final = re.compile(r"-[a-z0-9]{1,10}$")


def read_live(
    client: KubernetesClient, plan: Plan, namespaces: Iterable[str], objects: LiveObjects | None = None
) -> LiveState:
    """Return the state of a cluster. Raises UnknownOutcome and Refused.

    `namespaces` are the namespaces whose data is included. `objects` are the objects of the cluster if they were
    already read.
    """
    found = objects or read_objects(client)
    return LiveState(
        kubernetes=client.kubernetes_version(),
        nodes=_by_pool(found.nodes, plan.pools if plan.kind == "environment" else ()),
        held={one["metadata"]["name"]: marks for one in found.nodes if (marks := _marks(one))},
        driver_failed=_named(found.nodes, upgrade_failed),
        driver_skipped=_named(found.nodes, _keeps_driver),
        not_ready=_named(found.nodes, lambda node: not is_ready(node)),
        cordoned=_named(found.nodes, lambda node: bool(mapping_at(node, "spec").get("unschedulable"))),
        pods=tuple(running_pods(found.pods, found.budgets)),
        daemons=tuple(_daemons(found.pods)),
        data={namespace: tuple(_data(client, namespace)) for namespace in namespaces},
    )


def _daemons(pods: Iterable[Mapping[str, Any]]) -> Iterator[RunningPod]:
    """Yield the DaemonSet pods that have GPUs, each with the reason why it blocks a change."""
    for pod in daemon_gpu_pods(pods):
        yield RunningPod(
            namespace=pod["metadata"]["namespace"],
            name=pod["metadata"]["name"],
            owner=_owner(pod),
            node=str(mapping_at(pod, "spec").get("nodeName")),
            units=gpu_units(pod),
            block=daemon_block(pod_name(pod), daemon_set_of(pod)),
            stays=True,
        )


def running_pods(pods: Iterable[Mapping[str, Any]], budgets: Sequence[DisruptionBudget]) -> Iterator[RunningPod]:
    """Yield the pods that a drain stops. Pods of DaemonSets, static pods and ended pods are left out."""
    for pod in pods:
        action = eviction_action(pod)
        if action == "keep":
            continue
        metadata = pod["metadata"]
        yield RunningPod(
            namespace=metadata["namespace"],
            name=metadata["name"],
            owner=_owner(pod),
            node=str(mapping_at(pod, "spec").get("nodeName")),
            units=gpu_units(pod),
            has_claims=bool(mapping_at(pod, "spec").get("resourceClaims")),
            tolerations=tuple(items_at(pod, "spec", "tolerations")),
            managed=action != "unmanaged",
            block=block_of(guarded_pod(pod), budgets),
        )


def _named(nodes: Iterable[Mapping[str, Any]], condition: Callable[[Mapping[str, Any]], bool]) -> tuple[str, ...]:
    return tuple(sorted(node["metadata"]["name"] for node in nodes if condition(node)))


def _keeps_driver(node: Mapping[str, Any]) -> bool:
    """Return whether a label keeps the operator from replacing the driver of a node."""
    return mapping_at(node, "metadata", "labels").get(names.DRIVER_UPGRADE_SKIP_LABEL) == "true"


def _owner(pod: Mapping[str, Any]) -> str:
    """Return the pod's controller, with the Deployment instead of its ReplicaSet, or the pod itself if it has
    none.
    """
    owner = next((one for one in items_at(pod, "metadata", "ownerReferences") if one.get("controller")), None)
    if owner is None:
        return f"Pod {pod['metadata']['name']}"
    if owner["kind"] == "ReplicaSet" and "pod-template-hash" in mapping_at(pod, "metadata", "labels"):
        return f"Deployment {_POD_HASH.sub('', owner['name'])}"
    return f"{owner['kind']} {owner['name']}"


def _by_pool(nodes: Sequence[Mapping[str, Any]], pools: Sequence[PoolPlan]) -> dict[str, tuple[str, ...]]:
    """Return the nodes by pool.

    A node belongs to the pool that its label names, or else to the pool whose node selector matches the node.
    """
    found: dict[str, list[str]] = {pool.name: [] for pool in pools}
    for node in nodes:
        labels = mapping_at(node, "metadata", "labels")
        selected = (pool.name for pool in pools if pool.node_selector.items() <= labels.items())
        name = labels.get(names.POOL_LABEL) or next(selected, None)
        if name is not None:
            found.setdefault(str(name), []).append(node["metadata"]["name"])
    return {name: tuple(members) for name, members in found.items()}


def _marks(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of the taints and the cordon annotation that the node agent uses to keep pods off a node."""
    ours = {taint.key for taint in HOLDING_TAINTS}
    tainted = [str(one["key"]) for one in items_at(node, "spec", "taints") if one["key"] in ours]
    cordoned = names.CORDON_ANNOTATION in mapping_at(node, "metadata", "annotations")
    return (*tainted, *([names.CORDON_ANNOTATION] if cordoned else []))


def _data(client: KubernetesClient, namespace: str) -> Iterator[DataObject]:
    """Yield the claims, StatefulSets and Secrets of a namespace. Secrets are listed by name only."""
    for claim in client.objects("v1", "PersistentVolumeClaim", namespace=namespace):
        size = str(mapping_at(claim, "spec", "resources", "requests").get("storage") or "")
        yield DataObject(
            kind="PersistentVolumeClaim", namespace=namespace, name=claim["metadata"]["name"], size=size
        )
    for one in client.objects("apps/v1", "StatefulSet", namespace=namespace):
        yield DataObject(kind="StatefulSet", namespace=namespace, name=one["metadata"]["name"])
    for one in client.objects("v1", "Secret", namespace=namespace):
        if one.get("type") not in _OWN_SECRETS:
            yield DataObject(kind="Secret", namespace=namespace, name=one["metadata"]["name"])
