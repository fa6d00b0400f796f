"""Reads PodDisruptionBudgets, and converts live budgets and pods to the types that planning uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import is_ready, items_at, mapping_at
from gpu_platform.planning.changes.budgets import DisruptionBudget, GuardedPod

# Pods in these phases, and pods with a deletionTimestamp, are evicted regardless of their disruption budgets.
# Source: `canIgnorePDB` in eviction.go of kubernetes/kubernetes.
_EXEMPT_PHASES: Final = ("Succeeded", "Failed", "Pending")


def read_budgets(client: KubernetesClient) -> tuple[DisruptionBudget, ...]:
    """Return all disruption budgets of a cluster."""
    return budgets_of(client.objects("policy/v1", "PodDisruptionBudget"))


def budgets_of(objects: Iterable[Mapping[str, Any]]) -> tuple[DisruptionBudget, ...]:
    """Convert PodDisruptionBudget objects from the API server to disruption budgets."""
    return tuple(_budget(live) for live in objects)


def guarded_pod(live: Mapping[str, Any]) -> GuardedPod:
    """Convert a pod from the API server to the form that disruption budgets use."""
    metadata = live["metadata"]
    return GuardedPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        labels=mapping_at(live, "metadata", "labels"),
        ready=is_ready(live),
        exempt="deletionTimestamp" in metadata or mapping_at(live, "status").get("phase") in _EXEMPT_PHASES,
    )


def _budget(live: Mapping[str, Any]) -> DisruptionBudget:
    spec, status = mapping_at(live, "spec"), mapping_at(live, "status")
    rule = "maxUnavailable" if "maxUnavailable" in spec else "minAvailable"
    failed = [one for one in items_at(live, "status", "conditions") if one.get("reason") == "SyncFailed"]
    return DisruptionBudget(
        namespace=live["metadata"]["namespace"],
        name=live["metadata"]["name"],
        rule=f"{rule}: {spec.get(rule)}",
        selector=mapping_at(spec, "selector") if spec.get("selector") is not None else None,
        evicts_unready=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
        allowed=int(status.get("disruptionsAllowed") or 0),
        healthy=int(status.get("currentHealthy") or 0),
        needed=int(status.get("desiredHealthy") or 0),
        expected=int(status.get("expectedPods") or 0),
        observed=int(status.get("observedGeneration") or 0) >= int(live["metadata"].get("generation") or 0),
        failure=str(failed[0].get("message") or "") if failed else "",
    )
