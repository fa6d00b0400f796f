"""What of a deployed platform is in use: GPU pods that run, wait, and the units that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_platform import names
from gpu_platform.engine.objects import items_at, mapping_at

_VENDOR = "nvidia.com/"
_ENDED = {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class Usage:
    """GPU pods: how many are scheduled and pending, and the units held by pool and extended resource."""

    scheduled: int
    pending: int
    units: Mapping[str, Mapping[str, int]]


def gpu_usage(
    pods: Iterable[Mapping[str, Any]],
    pool_of_node: Mapping[str, str],
    claims: Iterable[Mapping[str, Any]] = (),
) -> Usage:
    """Count the pods that request an `nvidia.com/*` resource, or hold devices by `claims`, and have not ended.

    Pods on nodes of no pool belong to somebody else and do not count; `pool_of_node`: pool by node name. Pods that
    share a claim are counted each, its devices once. A claim with admin access takes nothing from anybody.
    """
    scheduled = pending = 0
    units: dict[str, dict[str, int]] = {}
    unclaimed = {_key(claim): held for claim in claims if (held := _devices(claim)) is not None}
    shared = set(unclaimed)
    for pod in pods:
        named = [key for key in _claims_of(pod) if key in shared]
        requested = _requested(pod)
        if named and mapping_at(pod, "status").get("phase") not in _ENDED:
            requested = {**requested, **_taken(named, unclaimed)}
        if not (requested or named) or mapping_at(pod, "status").get("phase") in _ENDED:
            continue
        node = mapping_at(pod, "spec").get("nodeName")
        if not node:
            pending += 1
        elif pool := pool_of_node.get(str(node)):
            scheduled += 1
            held = units.setdefault(pool, {})
            for name, count in requested.items():
                held[name] = held.get(name, 0) + count
    return Usage(scheduled, pending, units)


def _taken(named: Iterable[str], unclaimed: dict[str, Mapping[str, int]]) -> dict[str, int]:
    """Take the devices of the named claims that no pod has been counted for yet."""
    taken: dict[str, int] = {}
    for key in named:
        for name, count in unclaimed.pop(key, {}).items():
            taken[name] = taken.get(name, 0) + count
    return taken


def _key(claim: Mapping[str, Any]) -> str:
    return f"{claim['metadata'].get('namespace')}/{claim['metadata']['name']}"


def _claims_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the claims of a pod: those made for it from templates, and those that it names."""
    made = items_at(pod, "status", "resourceClaimStatuses")
    said = items_at(pod, "spec", "resourceClaims")
    found = [each.get("resourceClaimName") for each in (*made, *said)]
    return [f"{pod['metadata'].get('namespace')}/{name}" for name in found if name]


def _devices(claim: Mapping[str, Any]) -> Mapping[str, int] | None:
    """Return the GPUs and instances that a claim holds or waits for, by the driver's device class.

    None: it takes nothing from anybody, or devices of another driver.
    """
    requests = items_at(claim, "spec", "devices", "requests")
    if any(mapping_at(request, "exactly").get("adminAccess") for request in requests):
        return None
    held: dict[str, int] = {}
    results = items_at(claim, "status", "allocation", "devices", "results")
    for result in results:
        if result.get("driver") == names.DRA_DRIVER:
            instance = "-mig-" in str(result.get("device"))
            name = names.MIG_DEVICE_CLASS if instance else names.GPU_DEVICE_CLASS
            held[name] = held.get(name, 0) + 1
    return held if held or not results else None


def _requested(pod: Mapping[str, Any]) -> dict[str, int]:
    units: dict[str, int] = {}
    for container in items_at(pod, "spec", "containers"):
        for name, count in mapping_at(container, "resources", "requests").items():
            if name.startswith(_VENDOR):
                units[name] = units.get(name, 0) + int(count)
    return units
