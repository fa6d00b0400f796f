"""Cluster checks compare a Node object with the expectations of its pool."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest
from cluster_objects import EXPECTED, TAINT, node

from gpu_platform.base import names
from gpu_platform.planning.expectations.section import NodeExpectation
from validators.cluster import LeftPod, check_node, keeps_driver_upgrade


def findings(changed, expected=EXPECTED):
    """Return the entries that need attention as (check, device, verdict, expected, observed)."""
    return [
        (check.id, check.device, check.verdict, check.expected, check.observed)
        for check in check_node(changed, expected)
        if check.needs_attention
    ]


def remedy(changed, expected=EXPECTED):
    """Return the remedy of the first check that needs attention."""
    return next(check.remediation for check in check_node(changed, expected) if check.needs_attention)


def expecting(**changes):
    return dataclasses.replace(EXPECTED, **changes)


def test_a_node_in_order_passes_every_check():
    checks = check_node(node(), EXPECTED)
    assert [(check.id, check.verdict) for check in checks] == [
        ("node-ready", "pass"),
        ("allocatable", "pass"),
        ("label", "pass"),
        ("label", "pass"),
        ("label", "pass"),
        ("taint", "pass"),
    ]


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ([{"type": "Ready", "status": "False", "reason": "Down"}], ("fail", "Ready is False: Down")),
        ([{"type": "Ready", "status": "Unknown"}], ("unknown", "Ready is Unknown")),
        ([], ("unknown", "no Ready condition")),
    ],
)
def test_a_node_that_is_not_ready_does_not_pass(conditions, found):
    [(check, _, verdict, _, observed)] = findings(node(conditions=conditions))
    assert (check, verdict, observed) == ("node-ready", *found)


def test_a_node_without_status_does_not_pass():
    new = node()
    del new["status"]
    assert [finding[:3] for finding in findings(new)] == [
        ("node-ready", None, "unknown"),
        ("allocatable", "nvidia.com/gpu.shared", "fail"),
    ]


@pytest.mark.parametrize(
    ("allocatable", "found"),
    [
        ({}, [("nvidia.com/gpu.shared", "16", "none")]),
        ({"nvidia.com/gpu.shared": "15"}, [("nvidia.com/gpu.shared", "16", "15")]),
        ({"nvidia.com/gpu.shared": "20"}, [("nvidia.com/gpu.shared", "16", "20")]),
        ({"nvidia.com/gpu.shared": "16", "nvidia.com/gpu": "4"}, [("nvidia.com/gpu", "none", "4")]),
        (
            {"nvidia.com/gpu.shared": "16", "nvidia.com/mig-1g.10gb": "7"},
            [("nvidia.com/mig-1g.10gb", "none", "7")],
        ),
        ({"nvidia.com/gpu.shared": "16", "amd.com/gpu": "4", "cpu": "1"}, []),
    ],
)
def test_every_nvidia_resource_is_compared_exactly(allocatable, found):
    assert findings(node(allocatable=allocatable)) == [
        ("allocatable", name, "fail", expected, observed) for name, expected, observed in found
    ]


@pytest.mark.parametrize("nic", ["hostdev", "rdma_shared_device_a", "sriov_ib0"])
def test_nics_of_the_network_operator_are_no_gpus(nic):
    assert findings(node(allocatable={"nvidia.com/gpu.shared": "16", f"nvidia.com/{nic}": "8"})) == []


def test_an_unexpected_resource_says_that_nobody_offers_it():
    [check] = [
        each
        for each in check_node(node(allocatable={"nvidia.com/gpu.shared": "16", "nvidia.com/gpu": "4"}), EXPECTED)
        if each.needs_attention
    ]
    assert check.source == "pool serve offers no such resource"
    assert "second device plugin" in check.remediation


def test_the_label_that_keeps_operands_off_is_named_with_its_fix():
    reset = node(labels={"nvidia.com/gpu.deploy.operands": "false"}, allocatable={"cpu": "47"})
    assert remedy(reset).endswith("kubectl label node serve-0 nvidia.com/gpu.deploy.operands-")


def test_a_missing_device_plugin_label_is_named_as_the_cause_and_with_its_fix():
    unlabelled = node(labels={"nvidia.com/device-plugin.config": None}, allocatable={"nvidia.com/gpu": "4"})
    checks = {(check.id, check.device): check for check in check_node(unlabelled, EXPECTED)}
    label = checks["label", "nvidia.com/device-plugin.config"]
    assert (label.verdict, label.observed) == ("fail", "none")
    assert "kubectl label node serve-0 --overwrite nvidia.com/device-plugin.config=serve" in label.remediation
    for resource in ("nvidia.com/gpu", "nvidia.com/gpu.shared"):
        assert checks["allocatable", resource].remediation == (
            "the node does not have the label nvidia.com/device-plugin.config=serve; see the check of this label"
        )


def test_unhealthy_gpus_are_distinguished_from_missing_gpus():
    ill = node(allocatable={"nvidia.com/gpu.shared": "12"})
    assert "unhealthy" in remedy(ill)
    gone = node(allocatable={"nvidia.com/gpu.shared": "12"}, capacity={"nvidia.com/gpu.shared": "12"})
    assert "gpu-count" in remedy(gone)
    silent = node(allocatable={}, capacity={})
    assert "nvidia-device-plugin-daemonset" in remedy(silent)


def test_wrong_mig_resources_lead_to_the_mig_manager():
    expected = expecting(allocatable={"nvidia.com/mig-1g.10gb": 56})
    assert "nvidia-mig-manager" in remedy(node(allocatable={"nvidia.com/mig-3g.40gb": "16"}), expected)


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("success", None),
        ("failed", "fail"),
        (None, "fail"),
        ("pending", "unknown"),
        ("rebooting", "unknown"),
    ],
)
def test_a_mig_state_passes_only_when_it_is_success(state, verdict):
    expected = expecting(labels={"nvidia.com/mig.config.state": "success"})
    found = findings(node(labels={"nvidia.com/mig.config.state": state}), expected)
    assert [(check, each) for check, _, each, _, _ in found] == (
        [] if verdict is None else [("mig-config-state", verdict)]
    )


@pytest.mark.parametrize("state", ["pending", "rebooting"])
@pytest.mark.parametrize(("minutes", "verdict"), [(29, "unknown"), (31, "fail")])
def test_a_mig_manager_that_reports_nothing_for_half_an_hour_is_stuck(state, minutes, verdict):
    live = node(labels={"nvidia.com/mig.config.state": state})
    owned = {"f:metadata": {"f:labels": {"f:nvidia.com/mig.config.state": {}}}}
    live["metadata"]["managedFields"] = [
        {"manager": "kubelet", "time": "2026-11-28T03:20:00Z", "fieldsV1": {"f:status": {}}},
        {"manager": "nvidia-mig-manager", "time": "2026-11-28T03:00:00Z", "fieldsV1": owned},
    ]
    now = datetime(2026, 11, 28, 3, minutes, tzinfo=UTC)
    expected = expecting(labels={"nvidia.com/mig.config.state": "success"})
    [check] = [one for one in check_node(live, expected, now) if one.id == "mig-config-state"]
    assert (check.verdict, check.observed) == (verdict, f"{state} for {minutes} min")
    assert ("run `up` again" in check.remediation) == (verdict == "fail")


def test_a_stale_discovery_label_leads_to_feature_discovery():
    stale = node(labels={"nvidia.com/gpu.product": "Tesla-T4"})
    assert findings(stale) == [("label", "nvidia.com/gpu.product", "fail", "NVIDIA-A10G", "Tesla-T4")]
    assert "gpu-feature-discovery" in remedy(stale)


@pytest.mark.parametrize(
    ("taints", "observed"),
    [
        (None, "none"),
        ([{**TAINT, "effect": "PreferNoSchedule"}], "nvidia.com/gpu=present:PreferNoSchedule"),
        ([{"key": "nvidia.com/gpu", "effect": "NoSchedule"}], "nvidia.com/gpu:NoSchedule"),
    ],
)
def test_a_missing_taint_fails_with_the_command_that_sets_it(taints, observed):
    changed = node(taints=taints)
    expected = "nvidia.com/gpu=present:NoSchedule"
    assert findings(changed) == [("taint", "nvidia.com/gpu", "fail", expected, observed)]
    assert f"kubectl taint node serve-0 {expected}" in remedy(changed)


def test_an_unexpected_taint_is_ignored():
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert findings(node(taints=[TAINT, cordon])) == []


def test_a_missing_whole_gpu_on_a_node_that_could_be_cut_is_not_blamed_on_mig() -> None:
    labels = {"nvidia.com/mig.config": "all-disabled"}
    expectation = NodeExpectation(pool="train", allocatable={"nvidia.com/gpu": 8}, labels=labels)
    live = {"metadata": {"name": "a", "labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": "7"}}}
    [check] = [each for each in check_node(live, expectation) if each.id == "allocatable"]
    assert (check.verdict, check.observed) == ("fail", "7")
    assert "MIG" not in check.remediation
    assert "gpu-count" in check.remediation


@pytest.mark.parametrize(
    ("state", "verdict"),
    [("upgrade-required", "unknown"), ("pod-deletion-required", "unknown"), ("upgrade-failed", "fail")],
)
def test_a_driver_upgrade_that_is_not_done_is_a_finding_until_it_is(state, verdict):
    upgraded = node(labels={names.DRIVER_UPGRADE_STATE_LABEL: state})
    assert findings(upgraded) == [
        ("driver-upgrade", names.DRIVER_UPGRADE_STATE_LABEL, verdict, "upgrade-done", state)
    ]


@pytest.mark.parametrize("why", ["paused-for-mig-change", "paused-for-driver-upgrade"])
def test_a_device_plugin_that_was_left_paused_is_named_with_its_label(why):
    labels = {"nvidia.com/gpu.deploy.device-plugin": why, "nvidia.com/gpu.deploy.dcgm-exporter": why}
    labels |= {"nvidia.com/gpu.deploy.driver": "true"}
    expectation = NodeExpectation(pool="train", allocatable={"nvidia.com/gpu": 8}, labels={})
    live = {"metadata": {"name": "a", "labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": "0"}}}
    [check] = [each for each in check_node(live, expectation) if each.id == "allocatable"]
    assert why in check.remediation
    assert check.remediation.endswith(
        "kubectl label node a --overwrite nvidia.com/gpu.deploy.dcgm-exporter=true "
        "nvidia.com/gpu.deploy.device-plugin=true"
    )


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"])
def test_an_unhealthy_gpu_leads_to_a_restart_of_the_device_plugin(resource: str) -> None:
    """If a node's capacity is above its allocatable number, the plugin reports some devices as unhealthy."""
    labels = {"nvidia.com/mig.config": "half"} if "mig" in resource else {}
    expectation = NodeExpectation(pool="train", allocatable={resource: 8}, labels=labels)
    status = {"capacity": {resource: "8"}, "allocatable": {resource: "7"}}
    live = {"metadata": {"name": "a", "labels": labels}, "status": status}
    [check] = [each for each in check_node(live, expectation) if each.id == "allocatable"]
    assert "unhealthy GPUs" in check.remediation
    assert "kubectl delete pod -n gpu-operator" in check.remediation
    assert check.remediation.endswith("spec.nodeName=a")


def test_a_node_whose_label_keeps_its_driver_is_not_waited_for():
    state = {names.DRIVER_UPGRADE_STATE_LABEL: "upgrade-required"}
    kept = node(labels=state | {names.DRIVER_UPGRADE_SKIP_LABEL: "true"})
    [check] = [each for each in check_node(kept, EXPECTED) if each.needs_attention]
    assert (check.verdict, check.observed) == ("unknown", "upgrade-required, and a label prevents the upgrade")
    assert f"kubectl label node serve-0 {names.DRIVER_UPGRADE_SKIP_LABEL}-" in check.remediation


def test_a_node_that_waits_behind_a_failed_upgrade_names_the_node_to_bring_back():
    waiting = node(labels={names.DRIVER_UPGRADE_STATE_LABEL: "upgrade-required"})
    [check] = [each for each in check_node(waiting, EXPECTED, behind=["train-0"]) if each.needs_attention]
    assert (check.verdict, check.observed) == ("unknown", "upgrade-required, behind train-0")
    assert "until the upgrade of train-0 ends" in check.remediation
    at_work = node(labels={names.DRIVER_UPGRADE_STATE_LABEL: "pod-deletion-required"})
    [check] = [each for each in check_node(at_work, EXPECTED, behind=["train-0"]) if each.needs_attention]
    assert "wait" in check.remediation


def test_a_cordoned_node_waits_behind_no_failed_upgrade():
    waiting = node(labels={names.DRIVER_UPGRADE_STATE_LABEL: "upgrade-required"})
    waiting["spec"]["unschedulable"] = True
    [check] = [each for each in check_node(waiting, EXPECTED, behind=["train-0"]) if each.needs_attention]
    assert (check.observed, check.remediation.endswith("wait")) == ("upgrade-required", True)


@pytest.mark.parametrize(
    ("state", "ready", "kept"),
    [
        ("upgrade-failed", "True", True),
        ("pod-restart-required", "Unknown", True),
        ("pod-restart-required", "True", False),
        ("upgrade-required", "Unknown", False),
        ("upgrade-done", "False", False),
    ],
)
def test_an_upgrade_that_does_not_end_keeps_its_place(state, ready, kept):
    upgraded = node(labels={names.DRIVER_UPGRADE_STATE_LABEL: state})
    upgraded["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    assert keeps_driver_upgrade(upgraded) == kept


def test_an_upgrade_on_a_node_that_is_not_ready_is_not_waited_for():
    dead = node(labels={names.DRIVER_UPGRADE_STATE_LABEL: "pod-restart-required"})
    dead["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    [check] = [each for each in check_node(dead, EXPECTED) if each.id == "driver-upgrade"]
    assert (check.verdict, check.observed) == ("unknown", "pod-restart-required, and the node is not ready")
    assert check.remediation.endswith("kubectl delete node serve-0")


def test_a_node_that_waits_for_its_turn_is_not_said_to_get_its_driver_now():
    waiting = node(labels={names.DRIVER_UPGRADE_STATE_LABEL: "upgrade-required"})
    [check] = [each for each in check_node(waiting, EXPECTED) if each.needs_attention]
    assert check.remediation == "the operator replaces the driver of other nodes first: wait"


def test_a_failed_driver_upgrade_names_the_daemon_set_whose_pods_have_gpus():
    failed = node(labels={names.DRIVER_UPGRADE_STATE_LABEL: "upgrade-failed"})
    left = [LeftPod("ops/gpu-probe-x", daemon_set="ops/gpu-probe")]
    [check] = [each for each in check_node(failed, EXPECTED, left=left) if each.needs_attention]
    assert check.observed == "upgrade-failed; remaining pods: ops/gpu-probe-x"
    assert check.remediation.startswith("DaemonSet ops/gpu-probe recreates its pods")
    assert "kubectl delete pod" not in check.remediation


def test_a_driver_upgrade_that_is_done_is_no_finding():
    assert not findings(node(labels={names.DRIVER_UPGRADE_STATE_LABEL: "upgrade-done"}))


def test_a_failed_driver_upgrade_names_blocking_pods_and_commands():
    failed = node(labels={names.DRIVER_UPGRADE_STATE_LABEL: "upgrade-failed"})
    [check] = [
        each for each in check_node(failed, EXPECTED, left=[LeftPod("vision/bare")]) if each.needs_attention
    ]
    assert check.observed == "upgrade-failed; remaining pods: vision/bare"
    assert "kubectl delete pod -n vision bare, then kubectl label node serve-0 --overwrite" in check.remediation
    assert check.remediation.endswith(f"{names.DRIVER_UPGRADE_STATE_LABEL}=upgrade-required")
