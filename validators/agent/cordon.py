"""Cordons the agent's own node when it keeps failing, and replaces it if the stack requests this.

Only a node with the taint for failing nodes is cordoned. Such a node has one of the pool's Leases (`hold.py`), so
the agents never cordon more nodes of a pool than allowed. An annotation marks the agent's own cordon. The agent
undoes only this cordon, even after cordoning is removed from the stack. If somebody else has cordoned a node, the
agent neither changes nor replaces it, because somebody may be working on it.

With Karpenter, a NodeClaim owns each Node object. When the NodeClaim is deleted, Karpenter drains the node and
terminates its instance. Source: karpenter.sh docs, Disruption, "Manual Methods"; karpenter 1.9,
pkg/utils/nodeclaim, UpdateNodeOwnerReferences; read 2026-11-25.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from validators.agent.api_server import MERGE, ApiServer, Conflict, NotFound, send
from validators.agent.hold import FAILED_TAINT
from validators.agent.outcome import FAIL, PASS
from validators.agent.publish import FIELD_MANAGER
from validators.agent.report import Identity, Report

CORDON_ANNOTATION = "gpu-platform.dev/cordoned"  # time at which the agent cordoned the node
CORDON, REPLACE = "cordon", "replace"
ACTION_VARIABLE = "GPU_PLATFORM_ON_FAILURE"
FAILING_VARIABLE = "GPU_PLATFORM_FAILING_SECONDS"
_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims/"


@dataclass(frozen=True)
class OnFailure:
    """Action for a node that has been tainted as failing for `failing_seconds`. An empty `action` does nothing."""

    action: str = ""
    failing_seconds: int = 0

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> OnFailure:
        """Return the action that the pod's environment variables configure, or no action without them."""
        seconds = environment.get(FAILING_VARIABLE, "")
        action = environment.get(ACTION_VARIABLE, "")
        return cls(action, int(seconds)) if action in (CORDON, REPLACE) and seconds.isdigit() else cls()


class NodeCordon:
    """Cordons and replaces the agent's node."""

    def __init__(self, identity: Identity, server: ApiServer, on_failure: OnFailure) -> None:
        self._path = f"/api/v1/nodes/{identity.node}"
        self._server = server
        self._on_failure = on_failure

    def set(self, report: Report, node: Mapping[str, Any], now: str) -> str:
        """Cordon, uncordon or replace the node according to its report, after its taints are set.

        Return what was done, or "". `node` is the node as the API server last returned it. Raises ApiError if a
        request fails.
        """
        ends = report["verdict"] == PASS or not self._on_failure.action
        if CORDON_ANNOTATION not in _annotations(node) if ends else report["verdict"] != FAIL:
            return ""
        node = self._patch({})  # a patch without changes returns the node
        cordoned, ours = bool(node["spec"].get("unschedulable")), CORDON_ANNOTATION in _annotations(node)
        if ends:
            return "uncordoned" if ours and self._change(node, annotation=None, unschedulable=None) else ""
        if cordoned and not ours:
            return ""
        if self.seconds_left(node, now) > 0:
            return ""
        done = "" if cordoned or not self._change(node, annotation=now, unschedulable=True) else "cordoned"
        if (
            self._on_failure.action == REPLACE
            and (cordoned or done)
            and not node["metadata"].get("deletionTimestamp")
        ):
            return self._replace(node) or done
        return done

    def seconds_left(self, node: Mapping[str, Any], now: str) -> float:
        """Return the seconds until a failing node is cordoned, or infinity if the node has no taint for failing
        nodes.
        """
        taints = node["spec"].get("taints") or ()
        since = next((str(one.get("timeAdded") or now) for one in taints if one["key"] == FAILED_TAINT), None)
        return float("inf") if since is None else self._on_failure.failing_seconds - (_time(now) - _time(since))

    def _change(self, node: Mapping[str, Any], *, annotation: str | None, unschedulable: bool | None) -> bool:
        """Change the node. Return False if somebody else has changed it since the agent read it."""
        metadata = {
            "resourceVersion": node["metadata"]["resourceVersion"],
            "annotations": {CORDON_ANNOTATION: annotation},
        }
        try:
            self._patch({"metadata": metadata, "spec": {"unschedulable": unschedulable}})
        except Conflict:
            return False
        return True

    def _replace(self, node: Mapping[str, Any]) -> str:
        owners = node["metadata"].get("ownerReferences") or ()
        claim = next((owner for owner in owners if owner.get("kind") == "NodeClaim"), None)
        if claim is None:
            return ""
        body = {"preconditions": {"uid": claim["uid"]}}
        with contextlib.suppress(NotFound, Conflict):
            send(self._server, "DELETE", _CLAIMS + claim["name"], body, {})
        return f"replaced: NodeClaim {claim['name']} is deleted"

    def _patch(self, patch: Mapping[str, Any]) -> dict[str, Any]:
        return send(self._server, "PATCH", self._path, patch, {"fieldManager": FIELD_MANAGER}, patch=MERGE)


def _annotations(node: Mapping[str, Any]) -> Mapping[str, str]:
    return node["metadata"].get("annotations") or {}


def _time(text: str) -> float:
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc).timestamp()
