"""Counts the scheduled and pending GPU pods of a cluster, and the GPU resources that they use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.live.objects import items_at, mapping_at

_ENDED = {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class Usage:
    """Number of scheduled and pending GPU pods, and the GPU resources in use by pool and resource name."""

    scheduled: int
    pending: int
    units: Mapping[str, Mapping[str, int]]


def gpu_usage(
    pods: Iterable[Mapping[str, Any]],
    pool_of_node: Mapping[str, str],
    claims: Iterable[Mapping[str, Any]] = (),
) -> Usage:
    """Count the pods that have not ended and that request GPU resources or use devices of `claims`.

    `pool_of_node` contains the pool of each node. Pods on other nodes are not counted. All pods that share a claim
    are counted, but the devices of the claim are counted only once. A claim with admin access uses no devices.
    """
    scheduled = pending = 0
    units: dict[str, dict[str, int]] = {}
    uncounted = {_key(claim): used for claim in claims if (used := _devices(claim)) is not None}
    shared = set(uncounted)
    for pod in pods:
        named = [key for key in _claims_of(pod) if key in shared]
        requested: Mapping[str, int] = gpu_units(pod)
        if named and mapping_at(pod, "status").get("phase") not in _ENDED:
            requested = {**requested, **_take_devices(named, uncounted)}
        if not (requested or named) or mapping_at(pod, "status").get("phase") in _ENDED:
            continue
        node = mapping_at(pod, "spec").get("nodeName")
        if not node:
            pending += 1
        elif pool := pool_of_node.get(str(node)):
            scheduled += 1
            used = units.setdefault(pool, {})
            for name, count in requested.items():
                used[name] = used.get(name, 0) + count
    return Usage(scheduled, pending, units)


def _take_devices(named: Iterable[str], uncounted: dict[str, Mapping[str, int]]) -> dict[str, int]:
    """Remove the named claims from `uncounted`, so that each claim is counted once, and return the devices of
    these claims.
    """
    taken: dict[str, int] = {}
    for key in named:
        for name, count in uncounted.pop(key, {}).items():
            taken[name] = taken.get(name, 0) + count
    return taken


def _key(claim: Mapping[str, Any]) -> str:
    return f"{claim['metadata'].get('namespace')}/{claim['metadata']['name']}"


def _claims_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the claims of a pod, both generated from templates and named in its spec."""
    generated = items_at(pod, "status", "resourceClaimStatuses")
    declared = items_at(pod, "spec", "resourceClaims")
    found = [each.get("resourceClaimName") for each in (*generated, *declared)]
    return [f"{pod['metadata'].get('namespace')}/{name}" for name in found if name]


def _devices(claim: Mapping[str, Any]) -> Mapping[str, int] | None:
    """Return the GPUs and MIG instances that are allocated to a claim, by device class.

    The result is empty while nothing is allocated, and None for a claim with admin access or with devices of
    another driver.
    """
    requests = items_at(claim, "spec", "devices", "requests")
    if any(mapping_at(request, "exactly").get("adminAccess") for request in requests):
        return None
    used: dict[str, int] = {}
    results = items_at(claim, "status", "allocation", "devices", "results")
    for result in results:
        if result.get("driver") == names.DRA_DRIVER:
            instance = "-mig-" in str(result.get("device"))
            name = names.MIG_DEVICE_CLASS if instance else names.GPU_DEVICE_CLASS
            used[name] = used.get(name, 0) + 1
    return used if used or not results else None


def uses_gpus(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod uses GPUs, or may use GPUs through ResourceClaims."""
    return bool(gpu_units(pod)) or bool(items_at(pod, "spec", "resourceClaims"))


def gpu_units(pod: Mapping[str, Any]) -> dict[str, int]:
    """Return the quantity of each GPU resource that the containers of a pod use.

    Requests and limits of an extended resource are equal, but a manifest may set only one of them.
    """
    units: dict[str, int] = {}
    for container in items_at(pod, "spec", "containers"):
        resources = mapping_at(container, "resources")
        for name, count in {**mapping_at(resources, "limits"), **mapping_at(resources, "requests")}.items():
            if names.is_gpu_resource(name):
                units[name] = units.get(name, 0) + int(parse_quantity(count))
    return units
