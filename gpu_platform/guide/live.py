"""What a team uses now, what is free, and where its workloads stand in the queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_platform import names
from gpu_platform.engine.objects import items_at, mapping_at
from gpu_platform.quantity import parse_quantity
from gpu_platform.usage import gpu_usage

if TYPE_CHECKING:
    from gpu_platform.engine.client import KubernetesClient  # which a plan with a guide does not need

_WORKLOADS: Final = ("kueue.x-k8s.io/v1beta2", "Workload")
_QUOTA: Final = "gpu-quota"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A workload that waits in the team's queue. `place`: 1 is the next; `why`: Kueue's words."""

    name: str
    place: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGuide:
    """State of a cluster for one team. `used`: by key of its ResourceQuota.

    `free`: units that no pod uses on ready nodes, by pool and resource.
    """

    used: Mapping[str, str]
    free: Mapping[str, Mapping[str, int]]
    waiting: tuple[Waiting, ...]


def read_live_guide(client: KubernetesClient, namespace: str) -> LiveGuide:
    """Read the state of a team; raises UnknownOutcome and Refused."""
    quota = client.get("v1", "ResourceQuota", _QUOTA, namespace) or {}
    nodes = list(client.objects("v1", "Node", label_selector=names.POOL_LABEL))
    pool_of_node = {node["metadata"]["name"]: node["metadata"]["labels"][names.POOL_LABEL] for node in nodes}
    used = gpu_usage(client.objects("v1", "Pod"), pool_of_node).units
    return LiveGuide(
        used={str(key): str(value) for key, value in mapping_at(quota, "status", "used").items()},
        free=_free(nodes, used),
        waiting=tuple(_waiting(client, namespace)),
    )


def _free(nodes: list[dict[str, Any]], used: Mapping[str, Mapping[str, int]]) -> Mapping[str, Mapping[str, int]]:
    free: dict[str, dict[str, int]] = {}
    for node in nodes:
        if mapping_at(node, "spec").get("unschedulable") or not _ready(node):
            continue
        units = free.setdefault(node["metadata"]["labels"][names.POOL_LABEL], {})
        for resource, quantity in mapping_at(node, "status", "allocatable").items():
            if str(resource).startswith(names.NVIDIA_PREFIX):
                units[str(resource)] = units.get(str(resource), 0) + int(parse_quantity(str(quantity)))
    for pool, units in used.items():
        for resource, count in units.items():
            if resource in free.get(pool, {}):
                free[pool][resource] = max(free[pool][resource] - count, 0)
    return free


def _ready(node: Mapping[str, Any]) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True" for one in items_at(node, "status", "conditions")
    )


def _waiting(client: KubernetesClient, namespace: str) -> Iterator[Waiting]:
    """Yield the workloads without quota in the order of Kueue: by priority, then by age.

    One that is being deleted, or that was stopped (`active: false`), is in no queue.
    """
    pending = [
        one
        for one in client.objects(*_WORKLOADS, namespace=namespace)
        if "deletionTimestamp" not in one["metadata"]
        and mapping_at(one, "spec").get("active", True)
        and not any(_holds(one, condition) for condition in ("QuotaReserved", "Finished"))
    ]
    pending.sort(
        key=lambda one: (-int(mapping_at(one, "spec").get("priority") or 0), one["metadata"]["creationTimestamp"])
    )
    for place, one in enumerate(pending, start=1):
        owners = [owner["name"] for owner in one["metadata"].get("ownerReferences", ())]
        yield Waiting(name=owners[0] if owners else one["metadata"]["name"], place=place, why=_reason(one))


def _holds(workload: Mapping[str, Any], condition: str) -> bool:
    return any(
        one["type"] == condition and one["status"] == "True" for one in items_at(workload, "status", "conditions")
    )


def _reason(workload: Mapping[str, Any]) -> str:
    conditions = {one["type"]: one for one in items_at(workload, "status", "conditions")}
    return str(conditions.get("QuotaReserved", {}).get("message", "Kueue has not looked at it yet"))
