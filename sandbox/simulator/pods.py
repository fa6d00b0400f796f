"""Pods on simulated nodes: admission as a kubelet with device plugins does it, and the end of orphans."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from gpu_platform import names
from sandbox.simulator.device_plugin import Advertised
from sandbox.simulator.kube import Informer, Object, key_of, log
from sandbox.simulator.kubelet import REJECTED, rejection
from sandbox.simulator.nodes import Nodes
from sandbox.simulator.validation import ValidationPods

_IDLE_SECONDS: Final = 60.0
_ORPHAN_SECONDS: Final = 2.0


class Pods:
    """All pods that are bound to a node. KWOK has them run; this refuses, removes and validates."""

    def __init__(self, informer: Informer, nodes: Nodes, validation: ValidationPods) -> None:
        self._informer = informer
        self._nodes = nodes
        self._validation = validation
        self._reasons: dict[str, str | None] = {}
        """By uid: why a pod was refused, None for one that was admitted."""
        self._alone_since: dict[str, float] = {}
        """By uid: since when a pod's node is missing (monotonic seconds)."""

    def forget_all_but(self, pods: Sequence[Object]) -> None:
        """Drop what is known of pods that are gone."""
        uids = {pod["metadata"]["uid"] for pod in pods}
        self._reasons = {uid: reason for uid, reason in self._reasons.items() if uid in uids}
        self._alone_since = {uid: since for uid, since in self._alone_since.items() if uid in uids}
        self._validation.forget_all_but(uids)

    def look(self, pod: Object, nodes: Mapping[str, Object], *, first: bool) -> float:
        """Do what a pod needs; return after how many seconds to look again without a change.

        `first`: this is the simulator's first look at anything.
        """
        node = pod["spec"]["nodeName"]
        if node not in nodes:
            return self._remove_orphan(pod)
        self._alone_since.pop(pod["metadata"]["uid"], None)
        record = self._nodes.record(node)
        if record is None or record.profile is None or "deletionTimestamp" in pod["metadata"]:
            return _IDLE_SECONDS
        labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
        if labels.get(names.NAME_LABEL) == names.VALIDATION_APP:
            return self._validation.look(pod, record.profile, self._patch_status)
        self._admit(pod, record.advertised, ran_before=first and pod["status"].get("phase") != "Pending")
        return _IDLE_SECONDS

    def _admit(self, pod: Object, advertised: Mapping[str, Advertised], *, ran_before: bool) -> None:
        """Refuse a pod that a device plugin refuses, once, when it is first seen on its node.

        KWOK needs about as long as this to have it running, and does not know of the refusal. So the pod may
        run for an instant, and is patched until it is seen failed. One that ran before the simulator was
        started had been admitted.
        """
        uid = pod["metadata"]["uid"]
        if uid not in self._reasons:
            self._reasons[uid] = None if ran_before else rejection(pod, advertised)
            if self._reasons[uid]:
                log(f"pod {key_of(pod)}: {self._reasons[uid]}")
        reason = self._reasons[uid]
        if reason is None or pod["status"].get("phase") == "Failed":
            return
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

    def _remove_orphan(self, pod: Object) -> float:
        """Remove a pod whose node is gone, as a cloud's node removal does; Kubernetes itself waits 40 s."""
        now = time.monotonic()
        left = self._alone_since.setdefault(pod["metadata"]["uid"], now) + _ORPHAN_SECONDS - now
        if left > 0:
            return left
        self._informer.delete_now(pod)
        return _IDLE_SECONDS

    def _patch_status(self, pod: Object, status: Object) -> None:
        self._informer.patch(pod, "status", {"status": status})
