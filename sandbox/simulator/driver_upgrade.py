"""The driver upgrade controller. It decides the next state of each node, and which pods to evict before the driver
restarts.

All functions are pure. States, limits and filters follow NVIDIA/k8s-operator-libs (pkg/upgrade: upgrade_state.go,
upgrade_inplace.go, common_manager.go, pod_manager.go; api/upgrade/v1alpha1) and NVIDIA/gpu-operator
(cmd/gpu-operator/main.go, gpuPodSpecFilter), read 2026-11-22. Each function names its source. Driver pods, safe
driver load, requestor mode and several NVIDIADrivers are not simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from gpu_platform.base import names
from sandbox.simulator.kube import Object

INITIALLY_CORDONED_ANNOTATION: Final = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
DRAIN_SKIP_LABEL: Final = "nvidia.com/gpu-driver-upgrade-drain.skip"
_GPU_RESOURCES: Final = ("nvidia.com/gpu", "nvidia.com/mig-")


class State(StrEnum):
    """Value of the node label `nvidia.com/gpu-driver-upgrade-state` (consts.go)."""

    UNKNOWN = ""
    UPGRADE_REQUIRED = "upgrade-required"
    CORDON_REQUIRED = "cordon-required"
    WAIT_FOR_JOBS_REQUIRED = "wait-for-jobs-required"
    POD_DELETION_REQUIRED = "pod-deletion-required"
    DRAIN_REQUIRED = "drain-required"
    POD_RESTART_REQUIRED = "pod-restart-required"
    VALIDATION_REQUIRED = "validation-required"
    UNCORDON_REQUIRED = "uncordon-required"
    DONE = "upgrade-done"
    FAILED = "upgrade-failed"


@dataclass(frozen=True, slots=True)
class Eviction:
    """How pods are evicted. If `seconds` is 0, there is no time limit. `selector` selects the pods by label."""

    force: bool = False
    seconds: float = 300.0
    delete_empty_dir: bool = False
    selector: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class UpgradePolicy:
    """`driver.upgradePolicy` of a ClusterPolicy with `autoUpgrade`. The defaults match the CRD."""

    parallel: int = 1
    max_unavailable: int | str = "25%"
    wait_selector: Mapping[str, str] | None = None
    wait_seconds: float = 0.0
    pod_deletion: Eviction = Eviction()
    drain: Eviction | None = None


@dataclass(frozen=True, slots=True)
class ManagedDriver:
    """The driver that the operator installs, from its ClusterPolicy or, with DRA, from its NVIDIADriver.

    `version` is empty if the operator installs no driver or its default version, which is not simulated.
    `upgrades` is None if drivers of running nodes are not upgraded. `device_plugin` is true if the device plugin's
    resources show that a node works again.
    """

    version: str = ""
    upgrades: UpgradePolicy | None = None
    device_plugin: bool = True


def read_nvidia_driver(spec: Mapping[str, Any]) -> ManagedDriver:
    """Return the driver of an NVIDIADriver (controllers/upgrade_controller.go, reconcileNVIDIADriverUpgrades)."""
    return ManagedDriver(
        version=str(spec.get("version") or ""),
        upgrades=read_upgrade_policy(_section(spec, "upgradePolicy")),
        device_plugin=False,
    )


def read_upgrade_policy(section: Mapping[str, Any]) -> UpgradePolicy | None:
    """Return the upgrade policy of a spec, or None if drivers are not upgraded automatically."""
    if section.get("autoUpgrade") is not True:
        return None
    waits = _section(section, "waitForCompletion")
    drain = _section(section, "drain")
    return UpgradePolicy(
        parallel=int(section.get("maxParallelUpgrades", 1)),
        max_unavailable=section.get("maxUnavailable", "25%"),
        wait_selector=_selector(waits),
        wait_seconds=float(waits.get("timeoutSeconds", 0)),
        pod_deletion=_eviction(_section(section, "podDeletion")),
        drain=_eviction(drain) if drain.get("enable") is True else None,
    )


def _eviction(section: Mapping[str, Any]) -> Eviction:
    return Eviction(
        force=section.get("force") is True,
        seconds=float(section.get("timeoutSeconds", 300)),
        delete_empty_dir=section.get("deleteEmptyDir") is True,
        selector=_selector(section),
    )


def _section(section: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = section.get(name)
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _selector(section: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Parse an equality-based label selector such as `app=train,tier=gpu`. Return None for an empty selector."""
    text = str(section.get("podSelector") or "")
    return dict(part.strip().split("=", 1) for part in text.split(",") if "=" in part) or None


# -- which nodes start ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeState:
    """The properties of one node that determine the upgrade controller's decisions."""

    name: str
    state: State
    outdated: bool
    """Whether the node's driver differs from the driver that the operator installs."""
    unschedulable: bool = False
    ready: bool = True
    skipped: bool = False


def available_slots(nodes: Sequence[NodeState], policy: UpgradePolicy) -> int:
    """Return the number of additional nodes that may start their upgrade (common_manager.go,
    GetUpgradesAvailable).
    """
    waiting = sum(node.state is State.UPGRADE_REQUIRED for node in nodes)
    idle = waiting + sum(node.state in (State.UNKNOWN, State.DONE) for node in nodes)
    slots = waiting if policy.parallel == 0 else policy.parallel - (len(nodes) - idle)
    most = scaled(policy.max_unavailable, len(nodes))
    unavailable = sum(node.unschedulable or not node.ready for node in nodes)
    unavailable += sum(node.state is State.CORDON_REQUIRED for node in nodes)
    if unavailable >= most:
        return 0
    slots = min(slots, most)
    return min(slots, most - unavailable) if most < len(nodes) else slots


def scaled(value: int | str, total: int) -> int:
    """Return a number unchanged, or a percentage of `total` rounded up (intstr.GetScaledValueFromIntOrPercent)."""
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(total * int(value.removesuffix("%")) / 100)
    return int(value)


def starting_nodes(nodes: Sequence[NodeState], policy: UpgradePolicy) -> tuple[str, ...]:
    """Return the nodes that now change from `upgrade-required` to `cordon-required`.

    A node that somebody has already cordoned proceeds without a free slot (upgrade_inplace.go).
    """
    slots = available_slots(nodes, policy)
    found: list[str] = []
    for node in nodes:
        if node.state is not State.UPGRADE_REQUIRED or node.skipped:
            continue
        if slots > 0 or node.unschedulable:
            found.append(node.name)
            slots -= 1
    return tuple(found)


def after_idle(node: NodeState) -> State:
    """Return the next state of a node that is not being upgraded (ProcessDoneOrUnknownNodes)."""
    if node.outdated:
        return State.UPGRADE_REQUIRED
    return State.DONE


# -- which pods are evicted --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodsToEvict:
    """The pods that an eviction removes from a node. `refused` is the reason why it cannot remove all required
    pods.
    """

    pods: tuple[Object, ...] = ()
    refused: str = ""


Claims = Mapping[tuple[str, str], Object]
"""ResourceClaims by namespace and name."""


def uses_gpu(pod: Object, claims: Claims) -> bool:
    """Return whether the operator deletes a pod before the driver restarts (main.go, gpuPodSpecFilter)."""
    if pod["status"].get("phase") not in ("Running", "Pending"):
        return False
    for container in pod["spec"]["containers"]:
        for part in ("limits", "requests"):
            amounts: Mapping[str, str] = container.get("resources", {}).get(part) or {}
            if any(name.startswith(_GPU_RESOURCES) for name in amounts):
                return True
    return any(_holds_gpu(claims.get(name)) for name in _claim_names(pod))


def _claim_names(pod: Object) -> Iterator[tuple[str, str]]:
    """Yield the names of a pod's existing claims. The pod's status names the claims made from templates."""
    statuses: Sequence[Mapping[str, str]] = pod["status"].get("resourceClaimStatuses") or ()
    generated = {status["name"]: status.get("resourceClaimName") for status in statuses}
    for entry in pod["spec"].get("resourceClaims") or ():
        if name := entry.get("resourceClaimName") or generated.get(entry["name"]):
            yield pod["metadata"]["namespace"], name


def _holds_gpu(claim: Object | None) -> bool:
    """Return whether a GPU is allocated to a claim. A claim that cannot be read counts as a claim with a GPU
    (nodelabeling_controller.go).
    """
    if claim is None:
        return True
    status: Mapping[str, Any] = claim.get("status") or {}
    allocation: Mapping[str, Any] = status.get("allocation") or {}
    devices: Mapping[str, Any] = allocation.get("devices") or {}
    results: Sequence[Mapping[str, Any]] = devices.get("results") or ()
    return any(one.get("driver") == names.DRA_DRIVER and not one.get("adminAccess") for one in results)


def pods_to_delete(pods: Iterable[Object], eviction: Eviction, claims: Claims) -> PodsToEvict:
    """Return a node's GPU pods, or a refusal if one of them cannot be deleted (pod_manager.go,
    SchedulePodEviction).
    """
    wanted = [pod for pod in pods if uses_gpu(pod, claims)]
    for pod in wanted:
        if reason := _undeletable(pod, eviction, daemon_sets=False):
            return PodsToEvict(refused=f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}: {reason}")
    return PodsToEvict(tuple(wanted))


def pods_to_drain(pods: Iterable[Object], eviction: Eviction) -> PodsToEvict:
    """Return the pods of a node that `kubectl drain` evicts. DaemonSet pods stay (drain_manager.go)."""
    found: list[Object] = []
    for pod in pods:
        labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
        selected = eviction.selector is None or eviction.selector.items() <= labels.items()
        if not selected or labels.get(DRAIN_SKIP_LABEL) == "true" or _controller(pod) == "DaemonSet":
            continue
        if reason := _undeletable(pod, eviction, daemon_sets=True):
            return PodsToEvict(refused=f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}: {reason}")
        found.append(pod)
    return PodsToEvict(tuple(found))


def is_waited_for(pod: Object, policy: UpgradePolicy) -> bool:
    """Return whether an upgrade waits for a pod to end (waitForCompletion.podSelector)."""
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    running = pod["status"].get("phase") in ("Running", "Pending")
    return running and policy.wait_selector is not None and policy.wait_selector.items() <= labels.items()


def _undeletable(pod: Object, eviction: Eviction, *, daemon_sets: bool) -> str:
    """Return why kubectl's drain helper does not delete a pod, or an empty string if it does."""
    controller = _controller(pod)
    if controller == "DaemonSet" and not daemon_sets:
        return "it belongs to a DaemonSet, which would start it again"
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    if controller is None and not eviction.force and not ended:
        return "no controller would start it again (upgradePolicy.podDeletion.force)"
    volumes: Sequence[Mapping[str, Any]] = pod["spec"].get("volumes") or ()
    if not eviction.delete_empty_dir and not ended and any("emptyDir" in volume for volume in volumes):
        return "it has an emptyDir volume (upgradePolicy.podDeletion.deleteEmptyDir)"
    return ""


def _controller(pod: Object) -> str | None:
    owners: Sequence[Mapping[str, Any]] = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner["kind"]) for owner in owners if owner.get("controller")), None)


# -- the driver of a node -----------------------------------------------------------------------------------------


def running_driver(annotations: Mapping[str, str], installed_by_operator: str, default: str) -> str:
    """Return a node's driver version: the version that the operator installed, or else the version at boot."""
    own = annotations.get(names.SANDBOX_DRIVER_ANNOTATION) or default
    if not installed_by_operator:
        return own
    return annotations.get(names.SANDBOX_RUNNING_DRIVER_ANNOTATION) or own


def state_of(labels: Mapping[str, str]) -> State:
    """Return the upgrade state of a node. An unknown state counts as no state."""
    try:
        return State(labels.get(names.DRIVER_UPGRADE_STATE_LABEL, ""))
    except ValueError:
        return State.UNKNOWN
