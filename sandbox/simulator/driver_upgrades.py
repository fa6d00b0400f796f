"""Upgrades the driver node by node: sets labels, cordons nodes, evicts pods, and changes drivers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_platform.base import names
from sandbox.simulator.driver_upgrade import (
    INITIALLY_CORDONED_ANNOTATION,
    Claims,
    Eviction,
    ManagedDriver,
    NodeState,
    PodsToEvict,
    State,
    UpgradePolicy,
    after_idle,
    is_waited_for,
    pods_to_delete,
    pods_to_drain,
    starting_nodes,
    state_of,
)
from sandbox.simulator.kube import Api, ApiError, Informer, Object, key_of, log

_IDLE_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 1.0  # shorter than the 5 s after which kubectl's drain helper retries a refused eviction
_CONFLICT: Final = 409
_TOO_MANY_REQUESTS: Final = 429  # a disruption budget does not allow the eviction now


class DriverUpgrades:
    """The upgrade controller for all simulated nodes. `driver_seconds` is the duration of a driver restart."""

    def __init__(self, api: Api, nodes: Informer, *, driver_seconds: float) -> None:
        self._api = api
        self._nodes = nodes
        self._driver_seconds = driver_seconds
        self._since: dict[tuple[str, State], float] = {}
        """Start of each node's current state (monotonic seconds)."""
        self._reported: dict[str, str] = {}
        self._claims: Claims = {}

    def reconcile(
        self,
        nodes: Sequence[Object],
        pods: Mapping[str, Sequence[Object]],
        claims: Claims,
        driver: ManagedDriver | None,
    ) -> float:
        """Move each node forward by at most one state, and return the seconds until the next reconciliation.

        `pods` maps nodes to all pods that are bound to them.
        """
        if driver is None or not driver.version:
            return _IDLE_SECONDS
        if driver.upgrades is None:
            for node in nodes:
                if state_of(_labels(node)) is not State.UNKNOWN:
                    self._patch(node, state=State.UNKNOWN)
            return _IDLE_SECONDS
        self._claims = claims
        target = driver.version
        states = [_node_state(node, target) for node in nodes]
        self._since = {
            (one.name, one.state): self._since.get((one.name, one.state), time.monotonic()) for one in states
        }
        starting = starting_nodes(states, driver.upgrades)
        waits = [
            self._advance(node, state, driver, driver.upgrades, pods.get(state.name, ()), starting)
            for node, state in zip(nodes, states, strict=True)
        ]
        return min(waits, default=_IDLE_SECONDS)

    def _advance(
        self,
        node: Object,
        now: NodeState,
        driver: ManagedDriver,
        policy: UpgradePolicy,
        pods: Sequence[Object],
        starting: Sequence[str],
    ) -> float:
        match now.state:
            case State.UNKNOWN | State.DONE:
                if (following := after_idle(now)) is not now.state:
                    cordoned = following is State.UPGRADE_REQUIRED and now.unschedulable
                    annotations = {INITIALLY_CORDONED_ANNOTATION: "true"} if cordoned else {}
                    self._patch(node, state=following, annotations=annotations)
            case State.UPGRADE_REQUIRED:
                if now.name in starting:
                    self._patch(node, state=State.CORDON_REQUIRED)
            case State.CORDON_REQUIRED:
                self._patch(node, state=State.WAIT_FOR_JOBS_REQUIRED, unschedulable=True)
            case State.WAIT_FOR_JOBS_REQUIRED:
                if any(is_waited_for(pod, policy) for pod in pods) and not self._late(now, policy.wait_seconds):
                    return _AGAIN_SECONDS
                self._patch(node, state=State.POD_DELETION_REQUIRED)
            case State.POD_DELETION_REQUIRED:
                otherwise = State.DRAIN_REQUIRED if policy.drain is not None else State.FAILED
                found = pods_to_delete(pods, policy.pod_deletion, self._claims)
                return self._evict(node, now, policy.pod_deletion, found, otherwise)
            case State.DRAIN_REQUIRED:
                if policy.drain is None:
                    self._patch(node, state=State.POD_RESTART_REQUIRED)
                else:
                    found = pods_to_drain(pods, policy.drain)
                    return self._evict(node, now, policy.drain, found, State.FAILED)
            case State.POD_RESTART_REQUIRED:
                if (left := self._driver_seconds - self._spent(now)) > 0:
                    return left
                log(f"node {now.name}: driver {driver.version} is loaded")
                running = {names.SANDBOX_RUNNING_DRIVER_ANNOTATION: driver.version}
                self._patch(node, state=State.VALIDATION_REQUIRED, annotations=running)
            case State.VALIDATION_REQUIRED:
                if not driver.device_plugin or _offers_gpus(node):
                    self._patch(node, **_uncordoned(node))
            case State.UNCORDON_REQUIRED:
                self._patch(node, state=State.DONE, unschedulable=False)
            case State.FAILED:
                if not now.outdated:
                    self._patch(node, **_uncordoned(node))
        return _IDLE_SECONDS

    def _evict(
        self, node: Object, now: NodeState, eviction: Eviction, found: PodsToEvict, otherwise: State
    ) -> float:
        """Evict pods until none remains, then restart the driver. A refusal or a timeout stops the eviction."""
        if found.refused:
            self._report(now.name, f"{otherwise}: {found.refused}")
            self._patch(node, state=otherwise)
            return _IDLE_SECONDS
        if not found.pods:
            self._patch(node, state=State.POD_RESTART_REQUIRED)
            return _IDLE_SECONDS
        if self._late(now, eviction.seconds):
            named = ", ".join(key_of(pod) for pod in found.pods)
            self._report(now.name, f"{otherwise}: not evicted within {eviction.seconds:g} s: {named}")
            self._patch(node, state=otherwise)
            return _IDLE_SECONDS
        for pod in found.pods:
            if "deletionTimestamp" not in pod["metadata"]:
                self._evict_pod(now.name, pod)
        return _AGAIN_SECONDS

    def _evict_pod(self, node: str, pod: Object) -> None:
        metadata = pod["metadata"]
        named = {"name": metadata["name"], "namespace": metadata["namespace"]}
        path = f"/api/v1/namespaces/{named['namespace']}/pods/{named['name']}/eviction"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": named,
            "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
        }
        try:
            self._api.create(path, body)
        except ApiError as error:
            if error.status == _TOO_MANY_REQUESTS:
                self._report(node, f"a disruption budget prevents the eviction of pod {key_of(pod)}")
            elif error.status not in (404, 409):
                raise

    def _spent(self, now: NodeState) -> float:
        return time.monotonic() - self._since[now.name, now.state]

    def _late(self, now: NodeState, seconds: float) -> bool:
        return seconds > 0 and self._spent(now) > seconds

    def _patch(
        self,
        node: Object,
        *,
        state: State,
        unschedulable: bool | None = None,
        annotations: Mapping[str, str | None] | None = None,
    ) -> None:
        label = {names.DRIVER_UPGRADE_STATE_LABEL: state.value or None}
        body: dict[str, Any] = {"metadata": {"labels": label, "annotations": dict(annotations or {})}}
        if unschedulable is not None:
            body["spec"] = {"unschedulable": unschedulable or None}
        try:
            # The state depends on the whole node, including a cordon that was added in the meantime.
            self._nodes.patch(node, "", body, only_unchanged=True)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            return  # the change triggers the control loop
        if state not in (State.UNKNOWN, State.DONE):
            log(f"node {node['metadata']['name']}: driver upgrade: {state.value}")

    def _report(self, node: str, text: str) -> None:
        if self._reported.get(node) != text:
            log(f"node {node}: driver upgrade: {text}")
            self._reported[node] = text


def _uncordoned(node: Object) -> dict[str, Any]:
    """Return the last patch to a node in an upgrade. A node that was cordoned before the upgrade stays cordoned
    (updateNodeToUncordonOrDoneState).
    """
    if INITIALLY_CORDONED_ANNOTATION in _annotations(node):
        return {"state": State.DONE, "annotations": {INITIALLY_CORDONED_ANNOTATION: None}}
    return {"state": State.UNCORDON_REQUIRED}


def _node_state(node: Object, target: str) -> NodeState:
    labels = _labels(node)
    spec: Mapping[str, Any] = node.get("spec") or {}
    conditions: Sequence[Mapping[str, Any]] = node["status"].get("conditions") or ()
    running = _annotations(node).get(names.SANDBOX_RUNNING_DRIVER_ANNOTATION)
    return NodeState(
        name=node["metadata"]["name"],
        state=state_of(labels),
        outdated=running is not None and running != target,
        unschedulable=bool(spec.get("unschedulable")),
        ready=all(one["status"] == "True" for one in conditions if one["type"] == "Ready"),
        skipped=labels.get(names.DRIVER_UPGRADE_SKIP_LABEL) == "true",
    )


def _offers_gpus(node: Object) -> bool:
    """Return whether the device plugin advertises GPUs again. The validator's pod would then be ready."""
    allocatable: Mapping[str, str] = node["status"].get("allocatable") or {}
    return any(name.startswith("nvidia.com/") and count != "0" for name, count in allocatable.items())


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _annotations(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("annotations") or {}
