"""Reads the current state of the cluster for a team's guide: used and free resources, and the team's queued
workloads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.guide.no_node import takes_pods
from gpu_platform.guide.waiting import (
    why_it_is_deactivated,
    why_it_waits,
    why_new_pods_are_refused,
    why_pods_are_missing,
    with_reasons_of_equals,
)
from gpu_platform.live.held_queues import stop_policy
from gpu_platform.live.objects import items_at, mapping_at
from gpu_platform.live.usage import gpu_units, gpu_usage
from gpu_platform.planning.queues.limits import is_cpu_flavor

if TYPE_CHECKING:
    from gpu_platform.live.client import KubernetesClient  # only type checkers need this import

_KUEUE: Final = "kueue.x-k8s.io/v1beta2"
_QUOTA: Final = "gpu-quota"
_GATE: Final = "kueue.x-k8s.io/admission"  # scheduling gate of pods that wait for the queue
_GIB: Final = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A workload that is waiting in the team's queue. The first workload in the queue has `place` 1."""

    name: str
    place: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deactivated:
    """A workload that Kueue does not start until somebody activates it again, and the reason."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """A started workload that lacks a pod, and the reason why the pod is not created."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGuide:
    """State of a cluster for one team.

    `used` and `borrowed` contain the amounts that the team uses and borrows, by ResourceQuota key. `free` contains
    the amounts that no pod uses on nodes where pods can start, by pool and resource. `held` is the stopPolicy of
    the queue if somebody holds the queue, or else empty. `incomplete` contains workloads that lack pods because of
    the quota. `refused` explains that waiting pods use up the ResourceQuota, or is empty.
    """

    used: Mapping[str, str]
    borrowed: Mapping[str, str]
    free: Mapping[str, Mapping[str, int]]
    waiting: tuple[Waiting, ...]
    held: str = ""
    incomplete: tuple[Incomplete, ...] = ()
    deactivated: tuple[Deactivated, ...] = ()
    refused: str = ""


def read_live_guide(client: KubernetesClient, namespace: str) -> LiveGuide:
    """Read the state of the cluster for a team. Raises UnknownOutcome and Refused."""
    queues = client.objects(_KUEUE, "ClusterQueue")
    queue = next((one for one in queues if one["metadata"]["name"] == namespace), None)
    nodes = list(client.objects("v1", "Node", label_selector=names.POOL_LABEL))
    pool_of_node = {node["metadata"]["name"]: node["metadata"]["labels"][names.POOL_LABEL] for node in nodes}
    used = gpu_usage(client.objects("v1", "Pod"), pool_of_node).units
    of_namespace = _quota(client, namespace)
    workloads = list(client.objects(_KUEUE, "Workload", namespace=namespace))
    started = _of_queue(queue, "total") if queue is not None else {}
    quota, quota_used = mapping_at(of_namespace, "spec", "hard"), mapping_at(of_namespace, "status", "used")
    of_team = list(client.objects("v1", "Pod", namespace=namespace))
    gated, owners = _gated(of_team)
    ending, ending_pods = _ending(of_team, datetime.now(UTC))
    return LiveGuide(
        used=started if queue is not None else _texts(quota_used),
        borrowed=_of_queue(queue, "borrowed") if queue is not None else {},
        free=_free(nodes, used),
        waiting=tuple(_waiting(workloads, _pools_of_flavors(client), queue, nodes)),
        held=_held(client, namespace, queue),
        incomplete=tuple(_incomplete(workloads, started, quota, gated, ending, ending_pods)),
        deactivated=tuple(_deactivated(workloads)),
        refused=why_new_pods_are_refused(quota_used, quota, gated, owners),
    )


def _held(client: KubernetesClient, namespace: str, queue: Mapping[str, Any] | None) -> str:
    queues = [*client.objects(_KUEUE, "LocalQueue", namespace=namespace), *([queue] if queue is not None else [])]
    return next((policy for one in queues if (policy := stop_policy(one))), "")


def _quota(client: KubernetesClient, namespace: str) -> Mapping[str, Any]:
    return client.get("v1", "ResourceQuota", _QUOTA, namespace) or {}


def _gated(pods: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, int], Sequence[str]]:
    """Return the GPU requests of pods that wait for the queue, by ResourceQuota key, and these pods' owners."""
    waiting = [
        pod
        for pod in pods
        if gpu_units(pod) and any(gate["name"] == _GATE for gate in items_at(pod, "spec", "schedulingGates"))
    ]
    return _units_by_key(waiting), list(dict.fromkeys(map(_owner, waiting)))


def _ending(pods: Iterable[Mapping[str, Any]], now: datetime) -> tuple[Mapping[str, int], Sequence[str]]:
    """Return the GPU units of deleted pods that are still running, by key of the ResourceQuota, and the pods'
    names.

    Kueue frees the quota of a workload when it is deleted or its Job is suspended. The ResourceQuota counts the
    pods until they have ended. It ignores pods that have exceeded their grace period, as on a lost node.

    Sources: kubernetes-sigs/kueue v0.19.2, pkg/controller/jobframework/reconciler.go (finalize) and
    pkg/controller/jobs/job/job_controller.go (IsActive); kubernetes v1.36.3, pkg/quota/v1/evaluator/core/pods.go
    (QuotaV1Pod); read 2026-11-30.
    """
    ending = [pod for pod in pods if gpu_units(pod) and _is_ending(pod, now)]
    return _units_by_key(ending), [str(pod["metadata"]["name"]) for pod in ending]


def _is_ending(pod: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a pod was deleted, still runs on a node, and is within its grace period."""
    metadata = pod["metadata"]
    ended = mapping_at(pod, "status").get("phase") in ("Succeeded", "Failed")
    if ended or "deletionTimestamp" not in metadata or not mapping_at(pod, "spec").get("nodeName"):
        return False
    grace = timedelta(seconds=int(metadata.get("deletionGracePeriodSeconds") or 0))
    return now <= datetime.fromisoformat(str(metadata["deletionTimestamp"])) + grace


def _units_by_key(pods: Iterable[Mapping[str, Any]]) -> Mapping[str, int]:
    """Return the GPU units of pods by key of the ResourceQuota."""
    units = Counter[str]()
    for pod in pods:
        units.update({names.quota_key(resource): count for resource, count in gpu_units(pod).items()})
    return units


def _owner(pod: Mapping[str, Any]) -> str:
    """Return the kind and name of the object that creates a pod. For a Deployment's pod, this is the Deployment,
    not its ReplicaSet.
    """
    owner = next(iter(items_at(pod, "metadata", "ownerReferences")), {"kind": "Pod", **pod["metadata"]})
    revision = mapping_at(pod, "metadata", "labels").get("pod-template-hash")
    if owner["kind"] == "ReplicaSet" and revision is not None:
        return f"Deployment {str(owner['name']).removesuffix(f'-{revision}')}"
    return f"{owner['kind']} {owner['name']}"


def _texts(amounts: Mapping[str, Any]) -> Mapping[str, str]:
    return {str(key): str(value) for key, value in amounts.items()}


def _of_queue(queue: Mapping[str, Any], kind: str) -> Mapping[str, str]:
    """Return the usage that Kueue reports for the team's queue, summed over all pools. `kind` is `total` or
    `borrowed`.

    As in the quota, CPU and memory are counted only on nodes without GPUs.
    """
    sums: dict[str, Decimal] = {}
    for flavor in items_at(queue, "status", "flavorsUsage"):
        for resource in items_at(flavor, "resources"):
            name = str(resource["name"])
            if name not in ("cpu", "memory") or is_cpu_flavor(str(flavor["name"])):
                key = names.quota_key(name)
                sums[key] = sums.get(key, Decimal(0)) + parse_quantity(str(resource.get(kind, "0")))
    return {key: _text(key, total) for key, total in sums.items()}


def _text(key: str, total: Decimal) -> str:
    if key == "requests.memory":
        return f"{math.ceil(total / _GIB)}Gi"
    return f"{total.normalize():f}"


def _pools_of_flavors(client: KubernetesClient) -> Mapping[str, str]:
    """Return the name of the pool for each flavor of GPU nodes."""
    flavors = client.objects(_KUEUE, "ResourceFlavor")
    return {
        name: str(mapping_at(one, "spec", "nodeLabels").get(names.POOL_LABEL, name))
        for one in flavors
        if not is_cpu_flavor(name := str(one["metadata"]["name"]))
    }


def _free(nodes: list[dict[str, Any]], used: Mapping[str, Mapping[str, int]]) -> Mapping[str, Mapping[str, int]]:
    free: dict[str, dict[str, int]] = {}
    for node in nodes:
        if not takes_pods(node):
            continue
        units = free.setdefault(node["metadata"]["labels"][names.POOL_LABEL], {})
        for resource, quantity in mapping_at(node, "status", "allocatable").items():
            if names.is_gpu_resource(str(resource)):
                units[str(resource)] = units.get(str(resource), 0) + int(parse_quantity(str(quantity)))
    for pool, units in used.items():
        for resource, count in units.items():
            if resource in free.get(pool, {}):
                free[pool][resource] = max(free[pool][resource] - count, 0)
    return free


def _waiting(
    workloads: Sequence[Mapping[str, Any]],
    pools: Mapping[str, str],
    queue: Mapping[str, Any] | None,
    nodes: Sequence[Mapping[str, Any]],
) -> Iterator[Waiting]:
    """Yield the workloads that are waiting for quota, in Kueue's order: by priority, then by age.

    A workload that is being deleted or was deactivated (`active: false`) is not in a queue.
    """
    pending = [
        one
        for one in workloads
        if "deletionTimestamp" not in one["metadata"]
        and mapping_at(one, "spec").get("active", True)
        and not any(_holds(one, condition) for condition in ("QuotaReserved", "Finished"))
    ]
    pending.sort(
        key=lambda one: (-int(mapping_at(one, "spec").get("priority") or 0), one["metadata"]["creationTimestamp"])
    )
    for place, one in enumerate(with_reasons_of_equals(pending), start=1):
        yield Waiting(name=_name(one), place=place, why=why_it_waits(one, pools, queue, nodes))


def _incomplete(
    workloads: Sequence[Mapping[str, Any]],
    started: Mapping[str, str],
    hard: Mapping[str, Any],
    gated: Mapping[str, int],
    ending: Mapping[str, int],
    ending_pods: Sequence[str],
) -> Iterator[Incomplete]:
    for one in workloads:
        if why := why_pods_are_missing(one, started, hard, gated, ending, ending_pods):
            yield Incomplete(name=_name(one), why=why)


def _deactivated(workloads: Sequence[Mapping[str, Any]]) -> Iterator[Deactivated]:
    for one in workloads:
        if "deletionTimestamp" in one["metadata"] or _holds(one, "Finished"):
            continue
        if why := why_it_is_deactivated(one):
            yield Deactivated(name=_name(one), why=why)


def _name(workload: Mapping[str, Any]) -> str:
    """Return the name of the object that a Workload belongs to, such as a Job. The Workload itself has a different
    name.
    """
    owners = [owner["name"] for owner in workload["metadata"].get("ownerReferences", ())]
    return str(owners[0] if owners else workload["metadata"]["name"])


def _holds(workload: Mapping[str, Any], condition: str) -> bool:
    return any(
        one["type"] == condition and one["status"] == "True" for one in items_at(workload, "status", "conditions")
    )
