"""Explains why a workload waits in a team's queue, from the conditions of its Kueue Workload.

Source: kubernetes-sigs/kueue v0.19.2, pkg/scheduler/flavorassigner (messages about each flavor that was tried) and
apis/kueue/v1beta2/workload_types.go (reasons of conditions); read 2026-11-25. For deactivated workloads:
pkg/controller/core/workload_controller.go and ReasonWithCause of pkg/workload/patching. For equal workloads:
handleInadmissibleHash of pkg/cache/queue/cluster_queue.go, computeSchedulingHash of pkg/workload/workload.go and
SpecShape of pkg/util/pod/pod.go. Read 2026-11-30.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.quantity import amount_of, amount_text, parse_quantity
from gpu_platform.guide.no_node import why_no_node_fits, why_no_node_takes_pods
from gpu_platform.live.objects import items_at, mapping_at

_MISSING: Final = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_NEVER: Final = re.compile(
    r"insufficient quota for (\S+) in flavor (\S+), previously considered podsets requests \((\S+)\) \+ "
    r"current podset request \((\S+)\) > maximum capacity \((\S+)\)"
)
_UNKNOWN: Final = re.compile(r"resource (\S+) unavailable in ClusterQueue")
_NO_NODE: Final = "no topology domains at level"  # message of Kueue's topology-aware scheduling
_TAINT: Final = re.compile(r"untolerated taint \{(\S+) [^}]*\} in flavor")
_POD_SHAPE: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)
"""Fields of a pod that Kueue compares to find equal workloads, in addition to its containers and resources."""
_STOPPED: Final[Mapping[str, str]] = {
    "InClusterQueue": "another workload of the team with a higher priority needed its quota",
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


def why_it_waits(
    workload: Mapping[str, Any],
    pools: Mapping[str, str],
    queue: Mapping[str, Any] | None = None,
    nodes: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return why a workload waits for quota. If the workload was evicted before, also return why.

    `pools` contains the pool of each flavor. `queue` is the team's ClusterQueue. `nodes` are the nodes of all
    pools.
    """
    conditions = {str(one["type"]): one for one in items_at(workload, "status", "conditions")}
    message = str(conditions.get("QuotaReserved", {}).get("message", "Kueue has not processed the workload yet"))
    no_node = _unknown(message) or why_no_node_fits(workload, nodes, pools.values())
    why = f"can never start: {no_node}" if no_node else _shortage(message, workload, pools)
    if _NO_NODE in message:
        why = why_no_node_takes_pods(workload, nodes, pools.values()) or why
    if queue is not None and (forbidden := _not_taken_back(message, workload, queue, pools)):
        why = f"{why}; {forbidden}"
    stopped = [conditions[one] for one in ("Preempted", "Evicted") if one in conditions]
    reason = next((_stop(one) for one in stopped if _reason(one) in _STOPPED), None)
    return why if reason is None else f"was stopped, because {reason}; {why}"


def with_reasons_of_equals(workloads: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the waiting workloads of a queue, each with Kueue's condition about the missing quota.

    When a workload does not fit, Kueue sets all equal workloads aside without writing a condition for them. Such a
    workload gets the condition of the equal workload that Kueue tried.
    """
    tried = {_shape(one): one for one in reversed(workloads) if _waits_for_quota(one)}
    found: list[Mapping[str, Any]] = []
    for one in workloads:
        equal = None if _waits_for_quota(one) else tried.get(_shape(one))
        if equal is None:
            found.append(one)
            continue
        status = {
            **mapping_at(one, "status"),
            "conditions": [*items_at(one, "status", "conditions"), *_waits_for_quota(equal)],
            "resourceRequests": items_at(equal, "status", "resourceRequests"),
        }
        found.append({**one, "status": status})
    return found


def _waits_for_quota(workload: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return a list with the condition about the missing quota, or an empty list if Kueue has not set it."""
    return [one for one in items_at(workload, "status", "conditions") if one["type"] == "QuotaReserved"]


def _shape(workload: Mapping[str, Any]) -> str:
    """Return the properties of a workload that Kueue compares, as text. Kueue compares requests but not limits."""
    pod_sets: list[Mapping[str, Any]] = []
    for pods in items_at(workload, "spec", "podSets"):
        spec = mapping_at(pods, "template", "spec")
        containers = {
            kind: [
                [mapping_at(one, "resources").get("requests"), one.get("ports")] for one in items_at(spec, kind)
            ]
            for kind in ("initContainers", "containers")
        }
        pod_sets.append(
            {
                **{key: pods.get(key) for key in ("name", "count", "minCount", "topologyRequest")},
                **{key: spec.get(key) for key in _POD_SHAPE},
                **containers,
                "requests": mapping_at(spec, "resources").get("requests"),
            }
        )
    spec = mapping_at(workload, "spec")
    return json.dumps([spec.get("queueName"), spec.get("priority"), pod_sets], sort_keys=True)


def why_it_is_deactivated(workload: Mapping[str, Any]) -> str:
    """Return why a deactivated workload stays stopped and what starts it again, or "" for any other workload.

    Kueue deactivates a workload that it will not retry. Administrators can also deactivate a workload by hand.
    """
    if mapping_at(workload, "spec").get("active", True):
        return ""
    conditions = {str(one["type"]): one for one in items_at(workload, "status", "conditions")}
    metadata, patch = workload["metadata"], '{"spec": {"active": true}}'
    activate = f"kubectl -n {metadata['namespace']} patch workload {metadata['name']} --type merge -p '{patch}'"
    return (
        f"{_stop(conditions.get('Evicted', {}), 'Deactivated')}. Delete its object and create it again, or ask an "
        f"administrator to run `{activate}`"
    )


def _stop(condition: Mapping[str, Any], reason: str = "") -> str:
    """Return why Kueue stopped a workload. If an admission check failed, the result contains the message of that
    check.
    """
    text = _STOPPED[reason or _reason(condition)]
    _, _, cause = str(condition.get("message", "")).partition(" due to ")
    return f"{text}: {cause}" if cause and _reason(condition) in ("AdmissionCheck", "Deactivated") else text


def _reason(condition: Mapping[str, Any]) -> str:
    """Return the reason of a condition without its cause, which Kueue appends as in `DeactivatedDueToX`."""
    return str(condition.get("reason", "")).partition("DueTo")[0]


def why_pods_are_missing(
    workload: Mapping[str, Any],
    started: Mapping[str, str],
    hard: Mapping[str, Any],
    gated: Mapping[str, int] = MappingProxyType({}),
    ending: Mapping[str, int] = MappingProxyType({}),
    ending_pods: Sequence[str] = (),
) -> str:
    """Return why a pod of a started workload is missing, or "" if the quota does not prevent the pod.

    `started` contains the team's usage in Kueue, by key of the ResourceQuota. `hard` contains the limits of the
    ResourceQuota. `gated` contains the units of pods that wait for the queue, and `ending` the units of deleted
    pods that are still running. `ending_pods` contains the names of these deleted pods. The ResourceQuota also
    counts waiting and deleted pods. A lowered limit does not stop running pods, but the API server refuses pods
    that would replace lost pods.
    """
    conditions = {str(one["type"]): one for one in items_at(workload, "status", "conditions")}
    if conditions.get("Admitted", {}).get("status") != "True" or "Finished" in conditions:
        return ""
    if conditions.get("PodsReady", {}).get("status") != "False":
        return ""
    excess = {
        key: parse_quantity(amount) + gated.get(key, 0) - parse_quantity(str(hard[key]))
        for key, amount in started.items()
        if key in hard and key not in ("requests.cpu", "requests.memory")  # CPU and memory are counted separately
    }
    over = [
        f"the team uses {started[key]} {key.removeprefix('requests.')}"
        + (f" and its waiting pods hold {gated[key]}" if gated.get(key) else "")
        + (f" and deleted pods that are still running hold {ending[key]}" if ending.get(key) else "")
        + f", but only {hard[key]} are allowed now"
        for key, beyond in excess.items()
        if beyond + ending.get(key, 0) > 0
    ]
    if not over:
        return ""
    if all(beyond <= 0 for beyond in excess.values()):  # the quota has room once the deleted pods end
        return (
            f"a missing pod is refused: {', '.join(over)}, including what may be borrowed. It is created when the "
            f"deleted pods have ended; `kubectl delete pod {' '.join(ending_pods)} --now` ends them within seconds"
        )
    waiting = any(gated.get(key) for key in started)
    delete = "waiting pods by lowering the replicas of their Deployments" if waiting else "another workload"
    return (
        f"a missing pod is refused: {', '.join(over)}, including what may be borrowed. Delete {delete}, "
        "or delete this workload and create it again with fewer pods. Otherwise Kueue puts it back into the queue "
        "(queueing.pods_ready_timeout)"
    )


def why_new_pods_are_refused(
    used: Mapping[str, Any], hard: Mapping[str, Any], gated: Mapping[str, int], owners: Sequence[str]
) -> str:
    """Return why the API server refuses new pods instead of letting them wait, or "" if waiting pods are not the
    cause.

    `used` and `hard` are the usage and the limits of the ResourceQuota. `gated` contains the requests of pods that
    wait for the queue, and `owners` are the objects that create these pods.
    """
    full = [
        f"{count} of {hard[key]} {key.removeprefix('requests.')}"
        for key, count in gated.items()
        if key in hard and parse_quantity(str(used.get(key, "0"))) >= parse_quantity(str(hard[key]))
    ]
    if not full:
        return ""
    return (
        f"Pods that wait for the queue ({', '.join(owners)}) hold {' and '.join(full)} of the ResourceQuota, and "
        "none is left. The API server refuses new pods, including pods of started Jobs and of higher priority "
        "classes. Lower the replicas to the number of pods that can run. Jobs need no pods while they wait."
    )


def _unknown(message: str) -> str:
    """Return a message about requested resources that have no quota in Kueue.

    GPU resources are left out, because the nodes show which GPU resources exist.
    """
    found = [name for name in dict.fromkeys(_UNKNOWN.findall(message)) if not names.is_gpu_resource(name)]
    if not found:
        return ""
    return (
        f"it requests {', '.join(found)}, but no queue has a quota for it: remove the request. If the cluster "
        "added it, ask the operator to list it in resources.excludeResourcePrefixes of Kueue's configuration"
    )


def _shortage(message: str, workload: Mapping[str, Any], pools: Mapping[str, str]) -> str:
    """Return the missing resources by pool, or Kueue's own message if that message is not about quota."""
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
            (parse_quantity(capacity), _text(resource, capacity), _text(resource, before, request)),
        )
    taints: str = ", ".join(dict.fromkeys(_TAINT.findall(message)))
    if taints and all(capacity == 0 for capacity, _, _ in most.values()):
        if names.GPU_TAINT_KEY in taints and not _asks_for_gpus(workload):
            return "can never start: the queue has only nodes with GPUs; request a GPU, or ask for a CPU pool"
        return f"can never start: it does not tolerate the taint {taints} of the nodes; add the toleration"
    if not most:
        return message
    return "can never start: " + "; ".join(
        f"it requests {asked} {resource}; the team may use at most {capacity} on one pool"
        for resource, (_, capacity, asked) in most.items()
    )


def _asks_for_gpus(workload: Mapping[str, Any]) -> bool:
    """Return whether a pod of a workload requests GPUs, or claims devices."""
    templates = [mapping_at(one, "template", "spec") for one in items_at(workload, "spec", "podSets")]
    return any(
        names.is_gpu_resource(str(name))
        for template in templates
        for container in (*items_at(template, "containers"), *items_at(template, "initContainers"))
        for name in mapping_at(container, "resources", "limits")
    ) or any(items_at(template, "resourceClaims") for template in templates)


def _text(resource: str, *quantities: str) -> str:
    """Return the sum of several quantities of a resource as readable text."""
    total = sum((parse_quantity(quantity) for quantity in quantities), Decimal(0))
    return amount_text(resource, amount_of(resource, f"{total:f}"))


def _not_taken_back(
    message: str, workload: Mapping[str, Any], queue: Mapping[str, Any], pools: Mapping[str, str]
) -> str:
    """Return why Kueue does not reclaim the team's own quota from borrowing teams for this workload, or "".

    Kueue does not preempt other teams' workloads for a workload that would itself borrow any resource of the
    flavor (preemption.go, without borrowWithinCohort).
    """
    requests = _requests(workload)
    for resource, flavor, _ in _MISSING.findall(message):
        left = _left(queue, flavor)
        if requests.get(resource, Decimal(0)) > left.get(resource, Decimal(0)):
            continue  # the workload needs more of this resource than the team's unused quota
        beyond = [name for name, amount in requests.items() if amount > left.get(name, Decimal(0))]
        if beyond:
            rest = {name: max(left.get(name, Decimal(0)), Decimal(0)).normalize() for name in beyond}
            most = " and ".join(f"{amount:f} {name}" for name, amount in rest.items())
            return (
                f"the team's own {resource} is not reclaimed from others, because the workload would have to "
                f"borrow {' and '.join(beyond)} of {_where(flavor, pools)}: request at most {most}"
            )
    return ""


def _requests(workload: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return the requests of all pods of a workload, as Kueue recorded them when it last tried to admit the
    workload.
    """
    sums: dict[str, Decimal] = {}
    for pods in items_at(workload, "status", "resourceRequests"):
        for name, amount in mapping_at(pods, "resources").items():
            sums[str(name)] = sums.get(str(name), Decimal(0)) + parse_quantity(str(amount))
    return sums


def _left(queue: Mapping[str, Any], flavor: str) -> dict[str, Decimal]:
    """Return the part of a flavor's nominal quota that the team's workloads do not use."""
    left = {
        str(one["name"]): parse_quantity(str(one["nominalQuota"]))
        for group in items_at(queue, "spec", "resourceGroups")
        for part in items_at(group, "flavors")
        if part["name"] == flavor
        for one in items_at(part, "resources")
    }
    for part in items_at(queue, "status", "flavorsReservation"):
        for one in items_at(part, "resources") if part["name"] == flavor else ():
            left[str(one["name"])] -= parse_quantity(str(one.get("total", "0")))
    return left


def _where(flavor: str, pools: Mapping[str, str]) -> str:
    pool = pools.get(flavor)
    return "nodes without GPUs" if pool is None else f"pool {pool}"
