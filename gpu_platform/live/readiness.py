"""Decides whether a live object is ready, and why it is not. All functions are pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.base.quantity import counted
from gpu_platform.live.held_queues import is_held
from gpu_platform.live.objects import annotation, items_at, mapping_at
from gpu_platform.planning.nodes.section import Taint

SKIP_ANNOTATION: Final = "pulumi.com/skipAwait"
WAIT_FOR_ANNOTATION: Final = "pulumi.com/waitFor"
TIMEOUT_ANNOTATION: Final = "pulumi.com/timeoutSeconds"

Live = Mapping[str, Any]


def unready_reason(live: Live, nodes: Callable[[], Sequence[Live]]) -> str:
    """Return why an object is not ready, or an empty string if it is ready or its kind has no readiness.

    `nodes` returns the cluster's nodes, because the node count in a DaemonSet's status is updated late.
    """
    if wanted := annotation(live, WAIT_FOR_ANNOTATION):
        return "" if is_held(live) else _unmet(live, wanted)
    kind = f"{live['apiVersion'].rpartition('/')[0]}/{live['kind']}"
    if kind == "apps/DaemonSet":
        return _daemon_set(live, nodes())
    check = _CHECKS.get(kind)
    return check(live) if check else ""


def is_awaited(manifest: Live) -> bool:
    """Return whether the engine waits until this object is ready."""
    if annotation(manifest, SKIP_ANNOTATION) == "true":
        return False
    kind = f"{manifest['apiVersion'].rpartition('/')[0]}/{manifest['kind']}"
    return kind in _CHECKS or kind == "apps/DaemonSet" or bool(annotation(manifest, WAIT_FOR_ANNOTATION))


# -- by kind ----------------------------------------------------------------------------------------------


def _namespace(live: Live) -> str:
    phase = _status(live).get("phase")
    return "" if phase == "Active" else f"phase {phase}"


def _node(live: Live) -> str:
    return _condition(live, "Ready")


def _resource_quota(live: Live) -> str:
    missing = mapping_at(live, "spec", "hard").keys() - mapping_at(live, "status", "hard").keys()
    return f"no status yet for {', '.join(sorted(missing))}" if missing else ""


def _definition(live: Live) -> str:
    return _condition(live, "Established")


def _deployment(live: Live) -> str:
    wanted, status = live["spec"].get("replicas", 1), _status(live)
    if not _is_observed(live):
        return "its controller has not processed the last change yet"
    for condition in items_at(live, "status", "conditions"):
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            return str(condition.get("message") or condition.get("reason"))
    return _replicas(wanted, status.get("updatedReplicas", 0), status.get("availableReplicas", 0))


def _stateful_set(live: Live) -> str:
    wanted, status = live["spec"].get("replicas", 1), _status(live)
    if not _is_observed(live):
        return "its controller has not processed the last change yet"
    return _replicas(wanted, status.get("updatedReplicas", 0), status.get("readyReplicas", 0))


def _daemon_set(live: Live, nodes: Sequence[Live]) -> str:
    status = _status(live)
    template = mapping_at(live, "spec", "template", "spec")
    matching = sorted(node["metadata"]["name"] for node in nodes if runs_on(template, node))
    desired = status.get("desiredNumberScheduled", 0)
    if not _is_observed(live) or desired < len(matching):
        return f"its controller has placed it on {desired} of {counted(len(matching), 'node')} ({_few(matching)})"
    return _replicas(desired, status.get("updatedNumberScheduled", 0), status.get("numberReady", 0))


def _replicas(wanted: int, updated: int, ready: int) -> str:
    if updated < wanted:
        return f"{updated} of {counted(wanted, 'pod')} updated"
    return "" if ready >= wanted else f"{ready} of {counted(wanted, 'pod')} ready"


_CHECKS: Final[Mapping[str, Callable[[Live], str]]] = {
    "/Namespace": _namespace,
    "/Node": _node,
    "/ResourceQuota": _resource_quota,
    "apiextensions.k8s.io/CustomResourceDefinition": _definition,
    "apps/Deployment": _deployment,
    "apps/StatefulSet": _stateful_set,
}


def _status(live: Live) -> Mapping[str, Any]:
    return mapping_at(live, "status")


def _is_observed(live: Live) -> bool:
    return int(_status(live).get("observedGeneration", 0)) >= int(live["metadata"].get("generation", 0))


def _condition(live: Live, type_: str, wanted: str = "True") -> str:
    for condition in items_at(live, "status", "conditions"):
        if condition["type"] == type_:
            if condition["status"].casefold() == wanted.casefold():
                return ""
            reason = condition.get("message") or condition.get("reason") or f"its status is {condition['status']}"
            return f"not {type_}: {reason}"
    return f"no condition {type_} yet"


def _few(names: Sequence[str], limit: int = 3) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


# -- conditions in the annotation waitFor -----------------------------------------------------------------


def wait_for_problems(name: str, manifest: Live) -> list[Problem]:
    """Return the expressions of an object's `pulumi.com/waitFor` that this engine does not support."""
    return [
        Problem(
            f"resource {name!r}, annotation {WAIT_FOR_ANNOTATION}",
            expression,
            "condition=<type>[=<status>] or jsonpath={.field.field}=<value>",
        )
        for expression in _expressions(annotation(manifest, WAIT_FOR_ANNOTATION) or "[]")
        if not _EXPRESSION.fullmatch(expression)
    ]


_EXPRESSION: Final = re.compile(
    r"condition=(?P<condition>\w+)(?:=(?P<status>\w+))?|jsonpath=\{(?P<path>(?:\.[\w-]+)+)\}=(?P<value>.+)"
)


def _expressions(text: str) -> Sequence[str]:
    try:
        value: object = json.loads(text)
    except ValueError:
        return [text]
    return [str(item) for item in cast("list[object]", value)] if isinstance(value, list) else [text]


def _unmet(live: Live, wanted: str) -> str:
    for expression in _expressions(wanted):
        if (match := _EXPRESSION.fullmatch(expression)) is None:
            raise BadInput("the program", wait_for_problems(live["metadata"]["name"], live))
        if match["condition"]:
            if reason := _condition(live, match["condition"], match["status"] or "True"):
                return reason
            continue
        *parents, last = match["path"].split(".")[1:]
        value = mapping_at(live, *parents).get(last)
        if str(value) != match["value"]:
            return f"{match['path'][1:]} is {value}, not yet {match['value']}"
    return ""


# -- where a pod of a DaemonSet runs ----------------------------------------------------------------------


def runs_on(template: Mapping[str, Any], node: Live) -> bool:
    """Return whether a DaemonSet with this pod spec runs on a node when the node is ready.

    The rules are those of the DaemonSet controller (pkg/controller/daemon in kubernetes/kubernetes). Kubernetes'
    own taints are ignored, because they are temporary while a node starts.
    """
    labels = mapping_at(node, "metadata", "labels")
    if not mapping_at(template, "nodeSelector").items() <= labels.items():
        return False
    required = mapping_at(template, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if required and not any(_term_matches(term, node) for term in items_at(required, "nodeSelectorTerms")):
        return False
    tolerations = items_at(template, "tolerations")
    return all(
        Taint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"]).tolerated_by(tolerations)
        for taint in items_at(node, "spec", "taints")
        if taint["effect"] in ("NoSchedule", "NoExecute") and not taint["key"].startswith("node.kubernetes.io/")
    )


def _term_matches(term: Mapping[str, Any], node: Live) -> bool:
    by_label, by_field = items_at(term, "matchExpressions"), items_at(term, "matchFields")
    if not by_label and not by_field:
        return False  # an empty term selects nothing
    names = {"metadata.name": str(node["metadata"]["name"])}
    return _all_match(by_label, mapping_at(node, "metadata", "labels")) and _all_match(by_field, names)


def _all_match(expressions: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> bool:
    return all(_matches(expression, labels.get(expression["key"])) for expression in expressions)


def _matches(expression: Mapping[str, Any], value: str | None) -> bool:
    values: list[str] = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:  # Gt or Lt
            if value is None or not value.lstrip("-").isdigit():
                return False
            return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def pod_trouble(pod: Mapping[str, Any]) -> str:
    """Return why a pod is not ready, or an empty string."""
    conditions = {condition["type"]: condition for condition in items_at(pod, "status", "conditions")}
    scheduled, ready = conditions.get("PodScheduled"), conditions.get("Ready")
    if scheduled and scheduled["status"] == "False":
        return f"not scheduled: {scheduled.get('message') or scheduled.get('reason')}"
    if ready and ready["status"] == "True":
        return ""
    containers = (*items_at(pod, "status", "initContainerStatuses"), *items_at(pod, "status", "containerStatuses"))
    for container in containers:
        waiting = mapping_at(container, "state", "waiting")
        if waiting and waiting.get("reason") != "PodInitializing":
            return (
                f"container {container['name']}: {waiting.get('reason')} {waiting.get('message') or ''}".rstrip()
            )
    if ready and (reason := ready.get("message") or ready.get("reason")):
        return f"not ready: {reason}"
    return f"phase {mapping_at(pod, 'status').get('phase') or 'unknown'}, not ready"
