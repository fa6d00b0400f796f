"""Explains why a workload waits in a team's queue, from the conditions of its Kueue Workload.

Source: kubernetes-sigs/kueue v0.19.2, pkg/scheduler/flavorassigner (messages about each flavor that was tried) and
apis/kueue/v1beta2/workload_types.go (reasons of conditions); read 2026-11-25.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from gpu_platform.engine.objects import items_at
from gpu_platform.quantity import parse_quantity

_MISSING: Final = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_NEVER: Final = re.compile(
    r"insufficient quota for (\S+) in flavor (\S+), previously considered podsets requests \((\S+)\) \+ "
    r"current podset request \((\S+)\) > maximum capacity \((\S+)\)"
)
_TAINT: Final = re.compile(r"untolerated taint \{(\S+) [^}]*\} in flavor")
_STOPPED: Final[Mapping[str, str]] = {
    "InClusterQueue": "a workload of a higher class of the team needed its quota",
    "InCohortReclamation": "the team that owns the borrowed quota needed it",
    "InCohortReclaimWhileBorrowing": "the team that owns the borrowed quota needed it",
    "InCohortFairSharing": "another team had borrowed less",
    "PodsReadyTimeout": "its pods did not become ready in time",
    "AdmissionCheck": "no nodes were provisioned for it",
    "ClusterQueueStopped": "the queue was stopped",
    "LocalQueueStopped": "the queue was stopped",
    "Deactivated": "it was deactivated",
    "NodeFailures": "a node failed",
}


def why_it_waits(workload: Mapping[str, Any], pools: Mapping[str, str]) -> str:
    """Return why a workload without quota waits, and why it was stopped before. `pools`: by flavor."""
    conditions = {str(one["type"]): one for one in items_at(workload, "status", "conditions")}
    message = str(conditions.get("QuotaReserved", {}).get("message", "Kueue has not processed it yet"))
    why = _shortage(message, pools)
    stopped = [conditions[one] for one in ("Preempted", "Evicted") if one in conditions]
    reason = next((_STOPPED[one["reason"]] for one in stopped if one.get("reason") in _STOPPED), None)
    return why if reason is None else f"was stopped, because {reason}; {why}"


def _shortage(message: str, pools: Mapping[str, str]) -> str:
    """Return the missing resources by pool; Kueue's own message if it is about something other than quota."""
    missing = [
        f"{units} more {resource} of {_where(flavor, pools)}"
        for resource, flavor, units in _MISSING.findall(message)
    ]
    if missing:
        return f"needs {' or '.join(dict.fromkeys(missing))}, which is in use"
    most: dict[str, tuple[Decimal, str, str]] = {}
    for resource, _, before, request, capacity in _NEVER.findall(message):
        most[resource] = max(
            most.get(resource, (Decimal(-1), "", "")),
            (parse_quantity(capacity), capacity, str(parse_quantity(before) + parse_quantity(request))),
        )
    taints: str = ", ".join(dict.fromkeys(_TAINT.findall(message)))
    if taints and all(capacity == 0 for capacity, _, _ in most.values()):
        return f"can never start: it does not tolerate the taint {taints} of the nodes; add the toleration"
    if not most:
        return message
    return "can never start: " + "; ".join(
        f"it requests {asked} {resource}, and one pool has at most {capacity}"
        for resource, (_, capacity, asked) in most.items()
    )


def _where(flavor: str, pools: Mapping[str, str]) -> str:
    pool = pools.get(flavor)
    return "nodes without GPUs" if pool is None else f"pool {pool}"
