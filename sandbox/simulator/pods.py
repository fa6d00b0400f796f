"""Pods on simulated nodes: admission by the kubelet and its device plugins, end, removal of orphaned pods."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from gpu_platform import names
from gpu_platform.catalog import Catalog
from sandbox.simulator.burn_in import burn_in_message
from sandbox.simulator.device_plugin import Advertised
from sandbox.simulator.kube import Informer, Object, key_of, log
from sandbox.simulator.kubelet import REJECTED, rejection
from sandbox.simulator.nodes import Nodes
from sandbox.simulator.run_time import ended_status, ending_of, seconds_left
from sandbox.simulator.validation import ValidationPods

_IDLE_SECONDS: Final = 60.0
_ORPHAN_SECONDS: Final = 2.0


class Pods:
    """All pods that are bound to a node. KWOK sets them running; this class rejects, ends and checks them."""

    def __init__(self, informer: Informer, nodes: Nodes, validation: ValidationPods, catalog: Catalog) -> None:
        self._informer = informer
        self._catalog = catalog
        self._nodes = nodes
        self._validation = validation
        self._reasons: dict[str, str | None] = {}
        """By uid: why a pod was rejected, None for an admitted pod."""
        self._alone_since: dict[str, float] = {}
        """By uid: since when the node of a pod is missing (monotonic seconds)."""

    def forget_all_but(self, pods: Sequence[Object]) -> None:
        """Drop the state of deleted pods."""
        uids = {pod["metadata"]["uid"] for pod in pods}
        self._reasons = {uid: reason for uid, reason in self._reasons.items() if uid in uids}
        self._alone_since = {uid: since for uid, since in self._alone_since.items() if uid in uids}
        self._validation.forget_all_but(uids)

    def reconcile(self, pod: Object, nodes: Mapping[str, Object], *, first: bool) -> float:
        """Admit, reject, validate or remove a pod; return after how many seconds to do so again.

        `first`: this is the first reconciliation after the start of the simulator.
        """
        node = pod["spec"]["nodeName"]
        if node not in nodes:
            return self._remove_orphan(pod)
        self._alone_since.pop(pod["metadata"]["uid"], None)
        if "deletionTimestamp" in pod["metadata"]:
            return _IDLE_SECONDS
        record = self._nodes.record(node)
        measured = ""
        if record is not None and record.profile is not None:
            labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
            if labels.get(names.NAME_LABEL) == names.VALIDATION_APP:
                return self._validation.reconcile(pod, record.profile, self._patch_status)
            ran_before = first and pod["status"].get("phase") != "Pending"
            if not self._admit(pod, record.advertised, ran_before=ran_before):
                return _IDLE_SECONDS
            if names.BURN_IN_LABEL in labels:
                measured = burn_in_message(pod, record.profile, self._catalog)
        return self._end(pod, measured)

    def _end(self, pod: Object, message: str) -> float:
        """End the containers of a running pod when their time is over; return after how many seconds to look.

        `message`: what the first container writes as its last message.
        """
        if pod["status"].get("phase") != "Running" or (ending := ending_of(pod)) is None:
            return _IDLE_SECONDS
        now = datetime.now(UTC)
        left = seconds_left(pod, ending, now)
        if left > 0:
            return min(left, _IDLE_SECONDS)
        if message and not ending.exit_code:
            ending = replace(ending, message=message)
        self._patch_status(pod, ended_status(pod, ending, now))
        if ending.exit_code:
            log(f"pod {key_of(pod)}: exit code {ending.exit_code}, {ending.reason} {ending.message}".rstrip())
        return _IDLE_SECONDS  # a restart is a change, which comes back here

    def _admit(self, pod: Object, advertised: Mapping[str, Advertised], *, ran_before: bool) -> bool:
        """Reject a pod that a device plugin refuses, when it is first seen on its node; return whether it may run.

        KWOK does not know of the rejection and sets the pod running at about the same time. So the pod may run for
        an instant, and is patched until its phase is Failed. A pod that ran before the simulator started was
        admitted.
        """
        uid = pod["metadata"]["uid"]
        if uid not in self._reasons:
            self._reasons[uid] = None if ran_before else rejection(pod, advertised)
            if self._reasons[uid]:
                log(f"pod {key_of(pod)}: {self._reasons[uid]}")
        reason = self._reasons[uid]
        if reason is None:
            return True
        if pod["status"].get("phase") == "Failed":
            return False
        unready = [
            {"type": kind, "status": "False", "reason": "PodFailed"} for kind in ("Ready", "ContainersReady")
        ]
        status = {
            "phase": "Failed",
            "reason": REJECTED,
            "message": reason,
            "conditions": unready,
            "containerStatuses": None,
            "initContainerStatuses": None,
        }
        self._patch_status(pod, status)
        return False

    def _remove_orphan(self, pod: Object) -> float:
        """Remove a pod whose node was deleted, as the removal of a cloud's node does; Kubernetes waits 40 s."""
        now = time.monotonic()
        left = self._alone_since.setdefault(pod["metadata"]["uid"], now) + _ORPHAN_SECONDS - now
        if left > 0:
            return left
        self._informer.delete_now(pod)
        return _IDLE_SECONDS

    def _patch_status(self, pod: Object, status: Object) -> None:
        self._informer.patch(pod, "status", {"status": status})
