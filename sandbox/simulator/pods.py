"""Pods on simulated nodes: admission by the kubelet and device plugins, termination, and removal of orphans."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from sandbox.simulator.admission import Rejection
from sandbox.simulator.burn_in import burn_in_message
from sandbox.simulator.kube import Api, Informer, Object, key_of, log
from sandbox.simulator.kubelet import rejection
from sandbox.simulator.nodes import NodeRecord, Nodes
from sandbox.simulator.resource_managers import AlignedNode, Held, admit, aligned_node
from sandbox.simulator.run_time import ended_status, ending_of, seconds_left
from sandbox.simulator.validation import ValidationPods

_IDLE_SECONDS: Final = 60.0
_ORPHAN_SECONDS: Final = 2.0


class Pods:
    """All pods that are bound to a node. KWOK sets them to running, and this class rejects, terminates and checks
    them.
    """

    def __init__(
        self, api: Api, informer: Informer, nodes: Nodes, validation: ValidationPods, catalog: Catalog
    ) -> None:
        self._api = api
        self._informer = informer
        self._catalog = catalog
        self._nodes = nodes
        self._validation = validation
        self._rejections: dict[str, Rejection | None] = {}
        """Why each pod was rejected, by UID. None for an admitted pod."""
        self._held: dict[str, dict[str, Held]] = {}
        """Units that are allocated to pods on each NUMA node, by node and UID, if the kubelet aligns pods."""
        self._alone_since: dict[str, float] = {}
        """Time (monotonic seconds) at which a pod's node was first found to be missing, by UID."""

    def forget_all_but(self, pods: Sequence[Object]) -> None:
        """Drop the state of deleted pods, and the resources of terminated pods."""
        uids = {pod["metadata"]["uid"] for pod in pods}
        self._rejections = {uid: found for uid, found in self._rejections.items() if uid in uids}
        active = {pod["metadata"]["uid"] for pod in pods if not _ended(pod)}
        self._held = {
            node: {uid: held for uid, held in of_node.items() if uid in active}
            for node, of_node in self._held.items()
        }
        self._alone_since = {uid: since for uid, since in self._alone_since.items() if uid in uids}
        self._validation.forget_all_but(uids)

    def reconcile(self, pod: Object, nodes: Mapping[str, Object], *, first: bool) -> float:
        """Admit, reject, validate or remove a pod, and return the seconds until the next reconciliation.

        `first` is true in the first reconciliation after the simulator has started.
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
            if not self._admit(pod, nodes[node], record, ran_before=ran_before):
                return _IDLE_SECONDS
            if names.BURN_IN_LABEL in labels:
                measured = burn_in_message(pod, record.profile, self._catalog)
        return self._end(pod, measured)

    def _end(self, pod: Object, message: str) -> float:
        """End the containers of a running pod when their run time has passed, and return the seconds until the
        next check.

        `message` is the termination message of the first container.
        """
        ending = ending_of(pod) if pod["status"].get("phase") == "Running" else None
        if ending is None:
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
        return _IDLE_SECONDS  # the patch triggers another reconciliation

    def _admit(self, pod: Object, node: Object, record: NodeRecord, *, ran_before: bool) -> bool:
        """Reject a new pod on a node if its kubelet refuses it, and return whether the pod may run.

        KWOK does not know about the rejection and sets the pod to running at about the same time. The pod may
        therefore run for a moment, and is patched until its phase is Failed. A pod that ran before the simulator
        started counts as admitted.
        """
        uid = pod["metadata"]["uid"]
        if uid not in self._rejections:
            found = self._decide(pod, node, record, ran_before=ran_before)
            self._rejections[uid] = found
            if found is not None:
                log(f"pod {key_of(pod)}: {found.reason}: {found.message}")
                namespace = pod["metadata"]["namespace"]
                self._api.create(f"/api/v1/namespaces/{namespace}/events", found.event(pod))
        rejected = self._rejections[uid]
        if rejected is None:
            return True
        if pod["status"].get("phase") != "Failed":
            self._patch_status(pod, rejected.status())
        return False

    def _decide(self, pod: Object, node: Object, record: NodeRecord, *, ran_before: bool) -> Rejection | None:
        """Return why the kubelet rejects a new pod, or None if it admits the pod and allocates its resources."""
        if _ended(pod):
            return None
        aligned = self._aligned(node, record)
        if aligned is not None:
            held = self._held.setdefault(node["metadata"]["name"], {})
            got = admit(pod, aligned, held.values())
            if ran_before and isinstance(got, Rejection):
                # A kubelet reads the allocation of a running pod from a checkpoint.
                # The simulator has no checkpoint, so it repeats the allocation.
                got = admit(pod, replace(aligned, policy="best-effort"), held.values())
            if not isinstance(got, Rejection):
                held[pod["metadata"]["uid"]] = got
            elif not ran_before:
                return got
        return None if ran_before else rejection(pod, record.advertised)

    def _aligned(self, node: Object, record: NodeRecord) -> AlignedNode | None:
        if record.profile is None:
            return None
        metadata = node["metadata"]
        machine = self._catalog.machine_types[record.profile.machine_type]
        return aligned_node(metadata.get("labels") or {}, metadata["annotations"], machine, record.advertised)

    def _remove_orphan(self, pod: Object) -> float:
        """Remove a pod whose node was deleted, as a cloud does. Kubernetes itself waits 40 s."""
        now = time.monotonic()
        left = self._alone_since.setdefault(pod["metadata"]["uid"], now) + _ORPHAN_SECONDS - now
        if left > 0:
            return left
        self._informer.delete_now(pod)
        return _IDLE_SECONDS

    def _patch_status(self, pod: Object, status: Object) -> None:
        self._informer.patch(pod, "status", {"status": status})


def _ended(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")
