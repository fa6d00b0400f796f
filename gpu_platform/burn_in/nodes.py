"""Finds idle nodes, where active checks take no GPUs from other pods. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.live.objects import items_at, mapping_at
from gpu_platform.live.usage import gpu_units

_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node of a pool. `busy` is the reason why no active check may run there, or empty if the node is idle."""

    name: str
    uid: str
    busy: str


def node_states(
    nodes: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
    claims: Iterable[Mapping[str, Any]],
    selector: Mapping[str, str],
) -> list[NodeState]:
    """Return the nodes of a pool, sorted by name. `pods` and `claims` must contain all pods and claims in the
    cluster.
    """
    users = _users(pods, claims)
    found = [
        NodeState(
            name=node["metadata"]["name"],
            uid=node["metadata"]["uid"],
            busy=_why_busy(node, users.get(node["metadata"]["name"], ())),
        )
        for node in nodes
        if selector.items() <= mapping_at(node, "metadata", "labels").items()
    ]
    return sorted(found, key=lambda state: state.name)


def pairs_of(nodes: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the nodes in pairs.

    If the number of nodes is odd, the last group has three nodes. A single node is left out.
    """
    if len(nodes) < 2:
        return []
    pairs = [tuple(nodes[start : start + 2]) for start in range(0, len(nodes), 2)]
    if len(pairs[-1]) == 1:
        pairs[-2:] = [(*pairs[-2], *pairs[-1])]
    return pairs


def _users(pods: Iterable[Mapping[str, Any]], claims: Iterable[Mapping[str, Any]]) -> Mapping[str, Sequence[str]]:
    """Return the pods with GPUs, by node."""
    allocated = {
        (claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in claims if _takes_devices(claim)
    }
    found: dict[str, list[str]] = {}
    for pod in pods:
        node, metadata = mapping_at(pod, "spec").get("nodeName"), pod["metadata"]
        if not node or mapping_at(pod, "status").get("phase") in _ENDED:
            continue
        generated = items_at(pod, "status", "resourceClaimStatuses")
        declared = items_at(pod, "spec", "resourceClaims")
        named = {(metadata["namespace"], one.get("resourceClaimName")) for one in (*generated, *declared)}
        if gpu_units(pod) or named & allocated:
            found.setdefault(str(node), []).append(f"{metadata['namespace']}/{metadata['name']}")
    return found


def _takes_devices(claim: Mapping[str, Any]) -> bool:
    results = items_at(claim, "status", "allocation", "devices", "results")
    return any(not result.get("adminAccess") for result in results)


def _why_busy(node: Mapping[str, Any], users: Sequence[str]) -> str:
    if users:
        more = f" and {len(users) - 1} more" if len(users) > 1 else ""
        return f"its GPUs are in use by {users[0]}{more}"
    ready = any(
        one["type"] == "Ready" and one["status"] == "True" for one in items_at(node, "status", "conditions")
    )
    return "" if ready else "the node is not ready"
