"""What of a deployed platform is in use: GPU pods that run, wait, and the units that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_platform.engine.objects import items_at, mapping_at

_VENDOR = "nvidia.com/"
_ENDED = {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class Usage:
    """GPU pods: how many are scheduled and pending, and the units held by pool and extended resource."""

    scheduled: int
    pending: int
    units: Mapping[str, Mapping[str, int]]


def gpu_usage(pods: Iterable[Mapping[str, Any]], pool_of_node: Mapping[str, str]) -> Usage:
    """Count the pods that request an `nvidia.com/*` resource and have not ended.

    Pods on nodes of no pool belong to somebody else and do not count; `pool_of_node`: pool by node name.
    """
    scheduled = pending = 0
    units: dict[str, dict[str, int]] = {}
    for pod in pods:
        requested = _requested(pod)
        if not requested or mapping_at(pod, "status").get("phase") in _ENDED:
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


def _requested(pod: Mapping[str, Any]) -> dict[str, int]:
    units: dict[str, int] = {}
    for container in items_at(pod, "spec", "containers"):
        for name, count in mapping_at(container, "resources", "requests").items():
            if name.startswith(_VENDOR):
                units[name] = units.get(name, 0) + int(count)
    return units
