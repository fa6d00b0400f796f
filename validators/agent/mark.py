"""Writes the verdict to the Node object as taints, a condition and a label, and creates Events for failed checks.

It uses server-side apply, so that the agent needs no permission to read nodes and owns only its own fields.
"""

from __future__ import annotations

import datetime
import hashlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from validators.agent.api_server import ApiServer, Conflict, send
from validators.agent.cordon import NodeCordon, OnFailure
from validators.agent.hold import Holding, NodeTaints
from validators.agent.outcome import FAIL, PASS, UNKNOWN
from validators.agent.publish import FIELD_MANAGER
from validators.agent.report import Identity, Report

CONDITION = "GpuPlatformValidated"
VALIDATED_LABEL = "gpu-platform.dev/validated"
"""Label on a node that passes. Its value is the hash of the expectations that the node passed."""
_EVENTS_NAMESPACE = "default"  # namespace of Events about nodes
_STATUS = {PASS: "True", FAIL: "False", UNKNOWN: "Unknown"}
_REASONS = {PASS: "NodePasses", FAIL: "CheckFailed", UNKNOWN: "CheckUnknown"}
_MOST_EVENTS = 10
_MOST_CHARACTERS = 900  # maximum length of a message; an Event allows 1024 characters


class NodeMarks:
    """Marks the agent's node. The time of the condition's last change is read from the node, not stored."""

    def __init__(
        self, identity: Identity, server: ApiServer, holding: Holding, on_failure: OnFailure | None = None
    ) -> None:
        self._identity = identity
        self._server = server
        self._taints = NodeTaints(identity, server, holding)
        self._cordon = NodeCordon(identity, server, on_failure or OnFailure())

    def set(self, report: Report) -> None:
        """Apply the label, taints and condition, and create Events for failed checks. Raises ApiError if a request
        fails.
        """
        node, now = self._identity.node, _now()
        status = _STATUS[report["verdict"]]
        labels = {VALIDATED_LABEL: report["expectations_hash"]} if report["verdict"] == PASS else {}
        live = self._apply(f"/api/v1/nodes/{node}", {"metadata": {"name": node, "labels": labels}})
        not_held = self._taints.set(report, live, now)
        done = self._cordon.set(report, live, now)
        if done:
            print(f"node {node}: {done}", file=sys.stderr, flush=True)
        condition = {
            "type": CONDITION,
            "status": status,
            "reason": _REASONS[report["verdict"]],
            "message": _limited(f"not held back: {not_held}; {summary(report)}" if not_held else summary(report)),
            "lastHeartbeatTime": now,
            "lastTransitionTime": _since(live, status) or now,
        }
        self._apply(
            f"/api/v1/nodes/{node}/status", {"metadata": {"name": node}, "status": {"conditions": [condition]}}
        )
        for entry in [each for each in report["checks"] if each["verdict"] == FAIL][:_MOST_EVENTS]:
            self._create_event(entry, now)

    def _apply(self, path: str, fields: dict[str, Any]) -> dict[str, Any]:
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return send(self._server, "PATCH", path, {"apiVersion": "v1", "kind": "Node", **fields}, query)

    def _create_event(self, entry: dict[str, Any], now: str) -> None:
        """Create an Event for a failed check, unless this pod has already created it."""
        text = _text(entry)
        content = "\n".join((self._identity.pod_uid, entry["id"], str(entry["device"]), text))
        node = self._identity.node
        name = f"{node}.{hashlib.sha256(content.encode()).hexdigest()[:16]}"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": _EVENTS_NAMESPACE},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
            "type": "Warning",
            "reason": "GpuCheckFailed",
            "message": f"{text}; remedy: {entry['remediation']}"[:_MOST_CHARACTERS],
            "source": {"component": FIELD_MANAGER, "host": node},
            "reportingComponent": FIELD_MANAGER,
            "reportingInstance": self._identity.pod_name,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            send(self._server, "POST", f"/api/v1/namespaces/{_EVENTS_NAMESPACE}/events", event, {})
        except Conflict:
            return


def summary(report: Report) -> str:
    """Return the failed or unknown checks as a string for the condition's message."""
    quiet = PASS if report["verdict"] == PASS else report["verdict"]
    bad = [_text(entry) for entry in report["checks"] if entry["verdict"] == quiet != PASS]
    return _limited("; ".join(bad) or "all checks pass")


def _since(node: Mapping[str, Any], status: str) -> str:
    """Return when the node's condition changed to this status, or "" if its status is different."""
    conditions: Sequence[Mapping[str, Any]] = (node.get("status") or {}).get("conditions") or ()
    same = [one for one in conditions if (one["type"], one.get("status")) == (CONDITION, status)]
    return str(same[0].get("lastTransitionTime") or "") if same else ""


def _limited(text: str) -> str:
    return text[:_MOST_CHARACTERS]


def _text(entry: dict[str, Any]) -> str:
    device = f" {entry['device']}" if entry["device"] else ""
    return f"{entry['id']}{device}: expected {entry['expected']}, observed {entry['observed']}"


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
