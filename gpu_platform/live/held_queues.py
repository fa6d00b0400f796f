"""Finds Kueue queues that somebody holds with `spec.stopPolicy`. No stack file declares this field.

An administrator holds a queue during an incident. No run of the platform ends the hold or waits for the queue,
because Kueue reports the queue as not active until the hold ends. A LocalQueue is not active while its
ClusterQueue is not active.

Source: kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2 (StopPolicy), pkg/cache/scheduler/clusterqueue.go
(inactiveReason) and pkg/controller/core/localqueue_controller.go; read 2026-11-29.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_platform.live.objects import items_at, mapping_at, object_key

if TYPE_CHECKING:
    from gpu_platform.live.client import KubernetesClient
    from gpu_platform.planning.queues.section import TeamQueuePlan

_API: Final = "kueue.x-k8s.io/v1beta2"
_QUEUES: Final = ("ClusterQueue.kueue.x-k8s.io", "LocalQueue.kueue.x-k8s.io")
_NOT_HELD: Final = (None, "None")
_WAITS_FOR_CLUSTER_QUEUE: Final = "ClusterQueueIsInactive"
_EFFECTS: Final = {
    "Hold": "no new workload starts, but running workloads continue",
    "HoldAndDrain": "no new workload starts, and running workloads were stopped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldQueue:
    """A held ClusterQueue or, if `namespace` is set, a held LocalQueue.

    `team` is the namespace of the team. `policy` is Kueue's stopPolicy. `manager` is the client that set the
    policy, if known.
    """

    team: str
    kind: str
    name: str
    namespace: str
    policy: str
    manager: str = ""

    def __str__(self) -> str:
        """Return the held queue, the client that holds it, the effect of the hold, and the command that ends the
        hold.
        """
        by = f", set by {self.manager}" if self.manager else ""
        where = f" -n {self.namespace}" if self.namespace else ""
        patch = json.dumps({"spec": {"stopPolicy": "None"}})
        return (
            f"team {self.team}: {self.kind} {self.name} is held (spec.stopPolicy: {self.policy}{by}): "
            f"{_EFFECTS.get(self.policy, 'no new workload starts')}. `up` leaves it held and does not wait for "
            f"it. To end it: kubectl patch {self.kind.casefold()} {self.name}{where} --type merge -p '{patch}'"
        )


def held_queues(client: KubernetesClient, queues: Iterable[TeamQueuePlan]) -> Iterator[HeldQueue]:
    """Yield the teams' held queues. Raises UnknownOutcome and Refused."""
    for queue in queues:
        team = queue.namespace
        for kind, name, namespace in (("ClusterQueue", team, ""), ("LocalQueue", queue.local_queue, team)):
            live = client.get(_API, kind, name, namespace)
            policy = stop_policy(live) if live is not None else ""
            if live is not None and policy:
                yield HeldQueue(
                    team=team,
                    kind=kind,
                    name=name,
                    namespace=namespace,
                    policy=policy,
                    manager=_manager(live),
                )


def is_held(live: Mapping[str, Any]) -> bool:
    """Return whether an object is a held queue, or a LocalQueue of a held ClusterQueue.

    The engine does not wait for such a queue, because it is not active until the hold ends. Any other ClusterQueue
    is active before the engine applies its LocalQueue, so a LocalQueue waits only for a held ClusterQueue.
    """
    if object_key(live).group_kind not in _QUEUES:
        return False
    return bool(stop_policy(live)) or any(
        condition["type"] == "Active" and condition.get("reason") == _WAITS_FOR_CLUSTER_QUEUE
        for condition in items_at(live, "status", "conditions")
    )


def stop_policy(live: Mapping[str, Any]) -> str:
    """Return the stopPolicy that somebody set to hold a queue, or an empty string if nobody holds it."""
    policy = mapping_at(live, "spec").get("stopPolicy")
    return "" if policy in _NOT_HELD else str(policy)


def _manager(live: Mapping[str, Any]) -> str:
    entries: list[Mapping[str, Any]] = live["metadata"].get("managedFields") or []
    owners = [str(one["manager"]) for one in entries if "f:stopPolicy" in mapping_at(one, "fieldsV1", "f:spec")]
    # Pulumi's provider takes over the field from the client that set it.
    people = [owner for owner in owners if not owner.startswith("pulumi-kubernetes")]
    return people[-1] if people else ""
