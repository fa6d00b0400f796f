"""Notes about anything that keeps new pods off a node, such as a cordon or taints that are not part of the stack.

Notes do not fail a check, because people, autoscalers and Kubernetes itself set and remove cordons and taints. All
functions are pure.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.planning.expectations.section import NodeExpectation
from validators.cluster import driver_upgrade_state

_CORDON_TAINT: Final = "node.kubernetes.io/unschedulable"

# Keys or key prefixes of taints, and who sets them. Read 2026-11-22.
# Sources: Kubernetes, "Well-Known Labels, Annotations and Taints"; Karpenter, "Disruption".
# More sources: kubernetes/autoscaler, utils/taints/taints.go; aws-node-termination-handler, README.
_OWNERS: Final[Mapping[str, str]] = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler, which is removing the node",
    "DeletionCandidateOfClusterAutoscaler": "the cluster autoscaler, which may remove the node",
    "karpenter.sh/disrupted": "Karpenter, which is replacing or removing the node",
    "aws-node-termination-handler/": "the AWS node termination handler",
    "node.cloudprovider.kubernetes.io/": "the cloud's controller",
    "node.kubernetes.io/": "Kubernetes, because of a condition of the node",
}


_HELD: Final[Mapping[str, str]] = {
    names.STARTUP_TAINT_KEY: "held back: the node has not passed validation yet (gate_nodes)",
    names.READINESS_TAINT_KEY: "held back: the node has not passed validation yet (gate_nodes)",
    names.FAILED_TAINT_KEY: "held back: a check fails (gate_nodes: always)",
}


def notes(
    node: Mapping[str, Any], expectation: NodeExpectation, added: Iterable[tuple[str, str]] = ()
) -> tuple[str, ...]:
    """Return notes on who cordoned or tainted a node and, if known, when.

    `added` contains the key and effect of the taints that the cloud adds to every node of the pool.
    """
    ours = {(taint["key"], taint["effect"]) for taint in expectation.taints}
    return (*_cordon(node), *_foreign_taints(node, {*ours, *added}))


def _cordon(node: Mapping[str, Any]) -> Iterator[str]:
    if not node.get("spec", {}).get("unschedulable"):
        return
    manager, since = _writer(node, "f:unschedulable")
    if names.MIG_ROLLOUT_ANNOTATION in (node["metadata"].get("annotations") or {}):
        yield (
            f"cordoned by `gpu-platform up`{_since(since)}, which is changing its MIG layout; if no run is "
            "in progress, the next run finishes the change"
        )
        return
    if state := driver_upgrade_state(node):
        yield f"cordoned by the operator{_since(since)}, which is replacing its driver: {state}"
        return
    added = next((str(one.get("timeAdded") or "") for one in _taints(node) if one["key"] == _CORDON_TAINT), "")
    yield "cordoned" + _by(manager) + _since(added or since)


def _foreign_taints(node: Mapping[str, Any], ours: Container[tuple[str, str]]) -> Iterator[str]:
    for taint in _taints(node):
        key, effect = str(taint["key"]), str(taint["effect"])
        if (key, effect) in ours or key == _CORDON_TAINT:
            continue
        if key in _HELD:
            yield _HELD[key] + _since(str(taint.get("timeAdded") or ""))
            continue
        value = f"={taint['value']}" if taint.get("value") else ""
        owner = next((who for beginning, who in _OWNERS.items() if key.startswith(beginning)), "")
        # The taints are one field, so only the manager that last wrote the whole list is known.
        manager, changed = _writer(node, "f:taints")
        since = _since(str(taint.get("timeAdded") or _autoscalers_time(taint)))
        who = f": set by {owner}" if owner else f": the taints were last changed by {manager}" if manager else ""
        when = f", {_time_text(changed)}" if manager and not owner and _time_text(changed) else ""
        yield f"taint {key}{value}:{effect}{since} is not part of the stack{who}{when}"


def _taints(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return node.get("spec", {}).get("taints") or ()


def _spec_fields(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields in `spec` that an entry of managedFields owns."""
    fields: Mapping[str, Any] = entry.get("fieldsV1") or {}
    return fields.get("f:spec") or {}


def _writer(node: Mapping[str, Any], field: str) -> tuple[str, str]:
    """Return the field manager of a field in `spec`, and the time at which it last changed the field.

    Both are empty if they are unknown.
    """
    entries: Sequence[Mapping[str, Any]] = node["metadata"].get("managedFields") or ()
    found = [one for one in entries if field in _spec_fields(one)]
    nobody: Mapping[str, Any] = {}
    last = max(found, key=lambda one: str(one.get("time") or ""), default=nobody)
    return str(last.get("manager") or ""), str(last.get("time") or "")


def _autoscalers_time(taint: Mapping[str, Any]) -> str:
    """Return the time at which the cluster autoscaler set a taint. The taint's value is this Unix time."""
    value = str(taint.get("value") or "")
    if "ClusterAutoscaler" not in taint["key"] or not value.isdigit():
        return ""
    return datetime.fromtimestamp(int(value), UTC).isoformat()


def _by(manager: str) -> str:
    return f" by {manager}" if manager else ""


def _since(time: str) -> str:
    text = _time_text(time)
    return f" since {text}" if text else ""


def _time_text(time: str) -> str:
    """Return a time from the API as text such as `2026-11-22 19:00 UTC`, or "" if it is not a time."""
    try:
        return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return ""
