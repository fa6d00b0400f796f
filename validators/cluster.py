"""Cluster checks, which compare a `v1/Node` object with the expectations of its pool. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.quantity import duration_text, parse_quantity
from gpu_platform.planning.expectations.section import NodeExpectation
from gpu_platform.planning.mig.progress import CHANGE_SECONDS, is_in_progress, is_stuck, seconds_in_state
from validators.agent.outcome import FAIL, PASS, UNKNOWN
from validators.result import CheckResult, Verdict

_NOTHING: Final = "none"
_MIG_MANAGER_LOG: Final = "kubectl logs -n gpu-operator -l app=nvidia-mig-manager --all-pods"
DEAD_ENDS: Final = ("driver-upgrade", "mig-config-state")
"""Checks that never pass just by waiting: a controller has given up on the node, and a person has to act."""
# Prefix of the label value that remains if the MIG manager or the driver's pod ends during a change.
# Sources: NVIDIA/gpu-operator#2833 and #316; read 2026-11-29.
_PAUSED: Final = "paused-for-"
_REQUIRED: Final = "upgrade-required"
_UPGRADED: Final = "upgrade-done"
UPGRADE_FAILED: Final = "upgrade-failed"
# Source: k8s-device-plugin v0.20.0, internal/plugin/server.go: "no way to recover from the Unhealthy state".
# Issue 1014 of k8s-device-plugin describes the same; read 2026-11-30.
_UNHEALTHY: Final = (
    "the device plugin reports unhealthy GPUs: see its log for Xid errors, and the node agent's checks. It never "
    "reports them as healthy again: when these checks pass, restart it. For the operator's plugin: kubectl delete "
    "pod -n gpu-operator -l app=nvidia-device-plugin-daemonset --field-selector spec.nodeName={node}"
)
_STUCK_REMEDY: Final = (
    "the MIG manager has stopped without a result: run `up` again, which drains the node, restarts the manager "
    f"and requests the layout again; its log: {_MIG_MANAGER_LOG}"
)

_LABEL_REMEDIES: Final = {
    names.POOL_LABEL: "the node is not labelled as a node of its pool: run `up` again",
    names.DEVICE_PLUGIN_CONFIG_LABEL: (
        "without the label, the device plugin uses its default config without sharing: run `up` again, or "
        "kubectl label node {node} --overwrite " + names.DEVICE_PLUGIN_CONFIG_LABEL + "={expected}"
    ),
    names.MIG_CONFIG_LABEL: (
        "the MIG manager applies the layout that this label names: drain the node, then "
        "kubectl label node {node} --overwrite " + names.MIG_CONFIG_LABEL + "={expected}"
    ),
}
_DISCOVERY_REMEDY: Final = (
    "feature discovery sets this label: check its pod on the node (kubectl get pods -n gpu-operator -o wide "
    "-l app=gpu-feature-discovery), and restart the pod if the value is outdated"
)


@dataclass(frozen=True)
class LeftPod:
    """A GPU pod that an eviction does not remove, because it has no controller or belongs to a DaemonSet.

    Both `name` and `daemon_set` have the form `namespace/name`.
    """

    name: str
    daemon_set: str = ""


def check_node(
    node: Mapping[str, Any],
    expectation: NodeExpectation,
    now: datetime | None = None,
    left: Sequence[LeftPod] = (),
    behind: Sequence[str] = (),
) -> list[CheckResult]:
    """Return the results of all cluster checks of one node. `now` defaults to the time of the call.

    `left` contains the node's GPU pods that an eviction does not remove. They are queried only after a failed
    driver upgrade. `behind` contains the nodes whose unfinished upgrades prevent the operator from upgrading
    another node.
    """
    now = now or datetime.now(UTC)
    return [
        _ready(node),
        *_driver_upgrade(node, left, behind),
        *_allocatable(node, expectation),
        *(_label(node, key, value, expectation, now) for key, value in expectation.labels.items()),
        *(_taint(node, taint, expectation) for taint in expectation.taints),
    ]


def _ready(node: Mapping[str, Any]) -> CheckResult:
    conditions: Sequence[Mapping[str, Any]] = node.get("status", {}).get("conditions") or ()
    ready = next((each for each in conditions if each.get("type") == "Ready"), None)
    verdict: Verdict = UNKNOWN
    if ready is None:
        observed = "no Ready condition"
    elif ready.get("status") == "True":
        verdict, observed = PASS, "Ready"
    else:
        verdict = FAIL if ready.get("status") == "False" else UNKNOWN
        observed = f"Ready is {ready.get('status')}" + (f": {ready['reason']}" if ready.get("reason") else "")
    return CheckResult(
        id="node-ready",
        verdict=verdict,
        expected="Ready",
        observed=observed,
        source="always: a node that pods can run on",
        remediation=""
        if verdict == PASS
        else f"kubectl describe node {_name(node)}, then read the kubelet's log on the node",
    )


def driver_upgrade_state(node: Mapping[str, Any]) -> str:
    """Return the node's state in the operator's upgrade controller, or "" if no upgrade is due."""
    state = _labels(node).get(names.DRIVER_UPGRADE_STATE_LABEL) or ""
    return "" if state == _UPGRADED else state


def upgrade_failed(node: Mapping[str, Any]) -> bool:
    """Return whether the operator has given up replacing the driver on a node. Such a node stays cordoned."""
    return driver_upgrade_state(node) == UPGRADE_FAILED


def keeps_driver_upgrade(node: Mapping[str, Any]) -> bool:
    """Return whether a node occupies one of the slots for driver upgrades.

    A node occupies a slot if its upgrade has failed, or if it is not ready during the upgrade. The upgrade
    controller waits indefinitely for the driver's pod on a node (NVIDIA/k8s-operator-libs,
    pkg/upgrade/common_manager.go, ProcessPodRestartNodes; read 2026-11-29).
    """
    state = driver_upgrade_state(node)
    return state == UPGRADE_FAILED or (state not in ("", _REQUIRED) and _ready(node).verdict != PASS)


def _driver_upgrade(
    node: Mapping[str, Any], left: Sequence[LeftPod], behind: Sequence[str]
) -> Iterator[CheckResult]:
    """Yield the result of the check `driver-upgrade` if the node's driver upgrade is due, in progress or failed.

    A failed upgrade counts towards `maxParallelUpgrades`. The operator retries it when the node's label requests
    an upgrade. It starts no upgrade on a node with the label that skips upgrades. A cordoned node needs no slot
    (NVIDIA/k8s-operator-libs, pkg/upgrade/upgrade_state.go and upgrade_inplace.go; read 2026-11-29).
    """
    state = driver_upgrade_state(node)
    if not state:
        return
    again = f"kubectl label node {_name(node)} --overwrite {names.DRIVER_UPGRADE_STATE_LABEL}={_REQUIRED}"
    remedy, shown = "the operator is replacing the driver: wait", state
    if state == _REQUIRED and _labels(node).get(names.DRIVER_UPGRADE_SKIP_LABEL) == "true":
        shown += ", and a label prevents the upgrade"
        remedy = (
            "to allow the upgrade, remove the label: "
            f"kubectl label node {_name(node)} {names.DRIVER_UPGRADE_SKIP_LABEL}-"
        )
    elif state == _REQUIRED and (not behind or node.get("spec", {}).get("unschedulable")):
        remedy = "the operator replaces the driver of other nodes first: wait"
    elif state == _REQUIRED:
        shown += f", behind {', '.join(behind)}"
        remedy = (
            f"the operator upgrades no further uncordoned node until the upgrade of {', '.join(behind)} "
            "ends: follow the remedy of its check driver-upgrade, then this node is upgraded"
        )
    elif state != UPGRADE_FAILED and keeps_driver_upgrade(node):
        shown += ", and the node is not ready"
        remedy = (
            "the upgrade does not end until the node is ready, and other nodes may wait for it: repair the node, "
            f"or kubectl delete node {_name(node)}"
        )
    if state == UPGRADE_FAILED and left:
        remedy = f"{_left_remedy(left)}then {again}"
    elif state == UPGRADE_FAILED:
        remedy = (
            "see why: kubectl logs -n gpu-operator deploy/gpu-operator, and the driver's pod on the node "
            f"(kubectl get pods -n gpu-operator -o wide -l app=nvidia-driver-daemonset); then {again}"
        )
    yield CheckResult(
        id="driver-upgrade",
        device=names.DRIVER_UPGRADE_STATE_LABEL,
        verdict=FAIL if state == UPGRADE_FAILED else UNKNOWN,
        expected=_UPGRADED,
        observed=shown + (f"; remaining pods: {', '.join(pod.name for pod in left)}" if left else ""),
        source="the operator's upgrade controller",
        remediation=remedy,
    )


def _left_remedy(left: Sequence[LeftPod]) -> str:
    """Return how to remove the pods that an eviction does not remove."""
    daemon_sets = sorted({pod.daemon_set for pod in left if pod.daemon_set})
    bare = [pod.name for pod in left if not pod.daemon_set]
    text = ""
    if daemon_sets:
        text += (
            f"DaemonSet {', '.join(daemon_sets)} recreates its pods, so the operator does not evict them: keep it "
            "off the node with a node affinity, or delete it, "
        )
    if bare:
        text += (
            f"no controller would recreate {', '.join(bare)}, so the operator does not evict them: tell their "
            "owners, " + "".join(f"kubectl delete pod -n {pod.replace('/', ' ')}, " for pod in bare)
        )
    return text


def _allocatable(node: Mapping[str, Any], expectation: NodeExpectation) -> list[CheckResult]:
    """Compare the numbers of GPU and NIC resources with the expected numbers. Unexpected GPU resources are
    reported, too.

    A missing resource counts as 0.
    """
    status: Mapping[str, Any] = node.get("status", {})
    allocatable: Mapping[str, Any] = status.get("allocatable") or {}
    found = {
        name: int(parse_quantity(value))
        for name, value in allocatable.items()
        if names.is_gpu_resource(name) or name in expectation.allocatable
    }
    capacity: Mapping[str, Any] = status.get("capacity") or {}
    results: list[CheckResult] = []
    for name in sorted({*expectation.allocatable, *(name for name, count in found.items() if count)}):
        expected, observed = expectation.allocatable.get(name, 0), found.get(name, 0)
        results.append(
            CheckResult(
                id="allocatable",
                device=name,
                verdict=PASS if observed == expected else FAIL,
                expected=str(expected or _NOTHING),
                observed=str(observed or _NOTHING),
                source=expectation.sources.get(name, f"pool {expectation.pool} offers no such resource"),
                remediation=""
                if observed == expected
                else _allocatable_remedy(name, expected, observed, node, expectation, capacity),
            )
        )
    return results


def _allocatable_remedy(
    resource: str,
    expected: int,
    observed: int,
    node: Mapping[str, Any],
    expectation: NodeExpectation,
    capacity: Mapping[str, Any],
) -> str:
    if not names.is_gpu_resource(resource):
        return _nic_remedy(node, int(parse_quantity(capacity.get(resource, 0))), observed)
    if _labels(node).get(names.DEPLOY_OPERANDS_LABEL) == "false":
        return (
            "a label keeps the operator's pods off the node: "
            f"kubectl label node {_name(node)} {names.DEPLOY_OPERANDS_LABEL}-"
        )
    labels = _labels(node)
    paused = labels.get(names.DEPLOY_DEVICE_PLUGIN_LABEL) or ""
    if paused.startswith(_PAUSED):
        # Both changes pause all operands, such as the exporter, and set their labels back to "true".
        # Sources: mig-parted v0.15.0, pkg/mig/reconfigure/reconfigure.go; gpu-operator#316; read 2026-11-30.
        again = " ".join(f"{key}=true" for key, value in sorted(labels.items()) if value.startswith(_PAUSED))
        return (
            f"a change of the MIG layout or the driver keeps the device plugin off the node ({paused}); "
            f"if no change is in progress: kubectl label node {_name(node)} --overwrite {again}"
        )
    wanted = expectation.labels.get(names.DEVICE_PLUGIN_CONFIG_LABEL)
    if wanted is not None and _labels(node).get(names.DEVICE_PLUGIN_CONFIG_LABEL) != wanted:
        return (
            f"the node does not have the label {names.DEVICE_PLUGIN_CONFIG_LABEL}={wanted}; "
            "see the check of this label"
        )
    if expected and int(parse_quantity(capacity.get(resource, 0))) > observed:
        return _UNHEALTHY.format(node=_name(node))
    is_cut = expectation.labels.get(names.MIG_CONFIG_LABEL, names.MIG_ALL_DISABLED) != names.MIG_ALL_DISABLED
    if is_cut or resource.startswith(names.MIG_RESOURCE_PREFIX):
        return f"the GPUs' MIG instances differ from the layout: {_MIG_MANAGER_LOG}"
    if not expected:
        return "check for a second device plugin on the node, or a config that does not rename shared GPUs"
    if not observed:
        return (
            "the device plugin has not registered the resource: kubectl get pods -n gpu-operator -o wide "
            "-l app=nvidia-device-plugin-daemonset"
        )
    return "compare the number of GPUs (check gpu-count) and the replicas in the device plugin's config"


def _nic_remedy(node: Mapping[str, Any], capacity: int, observed: int) -> str:
    if capacity > observed:
        return "the NICs' device plugin reports unhealthy devices: see its log, and the node's kernel log"
    if not observed:
        return (
            "the NICs' device plugin has not registered the resource: kubectl get pods -n kube-system -o wide "
            f"--field-selector spec.nodeName={_name(node)}; if its pod is missing, check the node's labels, "
            "otherwise the network interfaces that the machine was created with"
        )
    return (
        "compare the network interfaces that the machine was created with, and the log of the NICs' device plugin"
    )


def _label(
    node: Mapping[str, Any], key: str, expected: str, expectation: NodeExpectation, now: datetime
) -> CheckResult:
    observed = _labels(node).get(key)
    verdict: Verdict = PASS if observed == expected else FAIL
    remedy = _label_remedy(key).format(node=_name(node), expected=expected)
    shown = _NOTHING if observed is None else observed
    if key == names.MIG_STATE_LABEL and is_in_progress(node):
        seconds, most = seconds_in_state(node, now), duration_text(CHANGE_SECONDS)
        shown += f" for {duration_text(max(0, seconds) // 60 * 60)}" if seconds is not None else ""
        verdict, remedy = (
            UNKNOWN,
            f"the MIG manager is still working: it is stuck if this lasts longer than {most}",
        )
        if is_stuck(node, now):
            verdict, remedy = FAIL, _STUCK_REMEDY
    return CheckResult(
        id="mig-config-state" if key == names.MIG_STATE_LABEL else "label",
        device=key,
        verdict=verdict,
        expected=expected,
        observed=shown,
        source=expectation.sources.get(key, ""),
        remediation="" if verdict == PASS else remedy,
    )


def _label_remedy(key: str) -> str:
    if key == names.MIG_STATE_LABEL:
        return (
            f"check why the MIG manager failed: {_MIG_MANAGER_LOG}; instances change only on an idle GPU: "
            "drain the node and set the label " + names.MIG_CONFIG_LABEL + " again"
        )
    if key in _LABEL_REMEDIES:
        return _LABEL_REMEDIES[key]
    return _DISCOVERY_REMEDY if key.startswith(names.NVIDIA_PREFIX) else "run `up` again, which sets the label"


def _taint(node: Mapping[str, Any], taint: Mapping[str, str], expectation: NodeExpectation) -> CheckResult:
    """Check that the node has an expected taint. Other taints (cordon, not-ready) are ignored."""
    key = taint["key"]
    taints: Sequence[Mapping[str, str]] = node.get("spec", {}).get("taints") or ()
    same = [_taint_text(each) for each in taints if each.get("key") == key]
    expected = _taint_text(taint)
    return CheckResult(
        id="taint",
        device=key,
        verdict=PASS if expected in same else FAIL,
        expected=expected,
        observed=expected if expected in same else ", ".join(same) or _NOTHING,
        source=expectation.sources.get(key, f"pool {expectation.pool}"),
        remediation=""
        if expected in same
        else "without the taint, pods that use no GPU can be scheduled on the node: run `up` again, or "
        f"kubectl taint node {_name(node)} {expected}",
    )


def _taint_text(taint: Mapping[str, str]) -> str:
    value = taint.get("value")
    return f"{taint['key']}{f'={value}' if value else ''}:{taint.get('effect', '')}"


def _name(node: Mapping[str, Any]) -> str:
    return node["metadata"]["name"]


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}
