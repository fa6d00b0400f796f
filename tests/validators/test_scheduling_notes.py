"""Cordons and taints that are not part of the stack are reported with their author and time, and fail no node."""

from __future__ import annotations

import io

import pytest
from cluster_objects import EXPECTED, POOL, TAINT, agent_report, node
from rich.console import Console

from validators.render import print_report
from validators.report import build_report
from validators.scheduling import notes

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def written_by(manager, field, time="2026-11-22T19:05:07Z"):
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": {"f:spec": {field: {}}}}


def cordoned(*managers, **metadata):
    found = node(taints=[TAINT, CORDON])
    found["spec"]["unschedulable"] = True
    found["metadata"] |= {"managedFields": list(managers), **metadata}
    return found


def test_a_node_in_order_has_no_note():
    assert notes(node(), EXPECTED) == ()


def test_a_cordon_is_noted_once_with_the_field_manager_and_its_time():
    assert notes(cordoned(written_by("kubectl-cordon", "f:unschedulable")), EXPECTED) == (
        "cordoned by kubectl-cordon since 2026-11-22 19:05 UTC",
    )


def test_a_cordon_of_unknown_origin_says_no_more_than_is_known():
    assert notes(cordoned(), EXPECTED) == ("cordoned",)


def test_the_cordon_of_a_driver_upgrade_names_the_operator_and_the_state():
    live = cordoned(written_by("python-urllib3", "f:unschedulable"))
    live["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"] = "upgrade-failed"
    assert notes(live, EXPECTED) == (
        "cordoned by the operator since 2026-11-22 19:05 UTC, which is replacing its driver: upgrade-failed",
    )


def test_the_cordon_of_a_rollout_has_its_age_and_a_way_on():
    annotations = {"gpu-platform.dev/mig-rollout": "{}"}
    live = cordoned(written_by("gpu-platform-mig-prod", "f:unschedulable"), annotations=annotations)
    assert notes(live, EXPECTED) == (
        "cordoned by `gpu-platform up` since 2026-11-22 19:05 UTC, which is changing its MIG layout; if no run "
        "is in progress, the next run finishes the change",
    )


@pytest.mark.parametrize(
    ("taint", "note"),
    [
        (
            {"key": "ToBeDeletedByClusterAutoscaler", "value": "1795374307", "effect": "NoSchedule"},
            "taint ToBeDeletedByClusterAutoscaler=1795374307:NoSchedule since 2026-11-22 19:05 UTC is not part "
            "of the stack: set by the cluster autoscaler, which is removing the node",
        ),
        (
            {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"},
            "taint karpenter.sh/disrupted:NoSchedule is not part of the stack: set by Karpenter, which is "
            "replacing or removing the node",
        ),
        (
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-11-22T19:05:07Z"},
            "taint node.kubernetes.io/unreachable:NoExecute since 2026-11-22 19:05 UTC is not part of the stack: "
            "set by Kubernetes, because of a condition of the node",
        ),
        (
            {"key": "ours/repair", "value": "yes", "effect": "NoSchedule"},
            "taint ours/repair=yes:NoSchedule is not part of the stack: the taints were last changed by "
            "kubectl-taint, 2026-11-22 19:05 UTC",
        ),
    ],
)
def test_a_taint_of_others_is_noted_with_who_and_since_when(taint, note):
    found = node(taints=[TAINT, taint])
    found["metadata"]["managedFields"] = [
        written_by("kube-controller-manager", "f:taints", "2026-11-22T18:00:00Z"),
        written_by("kubectl-taint", "f:taints"),
    ]
    assert notes(found, EXPECTED) == (note,)


def test_a_taint_that_the_cloud_adds_to_every_node_is_no_note():
    added = {"key": "cloud/gpu", "value": "present", "effect": "NoSchedule"}
    assert notes(node(taints=[TAINT, added]), EXPECTED, [("cloud/gpu", "NoSchedule")]) == ()


@pytest.mark.parametrize("width", [80, 160])
def test_the_report_shows_notes_and_still_passes(width):
    report = build_report([POOL], [cordoned()], {"serve-0": agent_report()})
    text = io.StringIO()
    print_report(report, Console(file=text, width=width))
    assert report.verdict == "pass"
    assert "serve-0: cordoned\n" in text.getvalue()
    assert report.to_json()["nodes"][0]["notes"] == ["cordoned"]
