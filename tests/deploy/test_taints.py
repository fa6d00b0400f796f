"""Declared taints are merged into a node's live taints, because people and autoscalers also add taints."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.names import FIELD_MANAGER, TAINTS_ANNOTATION
from gpu_platform.deploy.changes import field_changes
from gpu_platform.deploy.taints import merged_taints

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
SCALER = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1795374307", "effect": "NoSchedule"}
OLD = {"key": "ours/old", "value": "x", "effect": "NoExecute"}


def live(*taints: dict[str, Any], before: str | None = "nvidia.com/gpu=present:NoSchedule") -> dict[str, Any]:
    """Return a node that the stack deployed with the taints in `before`."""
    annotations = {} if before is None else {TAINTS_ANNOTATION: before}
    return {"metadata": {"name": "lab-0", "annotations": annotations}, "spec": {"taints": list(taints)}}


@pytest.mark.parametrize("foreign", [CORDON, SCALER, {"key": "anybody/own", "effect": "NoSchedule"}])
def test_taints_of_others_stay_in_their_place(foreign: dict[str, Any]) -> None:
    assert merged_taints([GPU], live(foreign, GPU)) == [foreign, GPU]


def test_a_removed_declared_taint_is_added_again() -> None:
    assert merged_taints([GPU], live(CORDON)) == [CORDON, GPU]


def test_a_declared_taint_with_another_value_is_set_and_one_with_a_time_is_left() -> None:
    assert merged_taints([GPU], live({**GPU, "value": "no"})) == [GPU]
    timed = {**GPU, "timeAdded": "2026-11-22T19:00:00Z"}
    assert merged_taints([GPU], live(timed)) == [timed]


def test_an_undeclared_taint_is_removed_but_not_one_with_another_effect() -> None:
    other = {**OLD, "effect": "NoSchedule"}
    before = "nvidia.com/gpu=present:NoSchedule,ours/old=x:NoExecute"
    assert merged_taints([GPU], live(GPU, OLD, other, before=before)) == [GPU, other]


def test_taints_of_an_earlier_release_belong_to_their_last_writer() -> None:
    node = live(GPU, OLD, before=None)
    assert merged_taints([GPU], node) == [GPU, OLD]
    mine = {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:taints": {}}}}
    node["metadata"]["managedFields"] = [mine]
    assert merged_taints([GPU], node) == [GPU]


def test_a_change_of_taints_is_shown_taint_by_taint_as_json() -> None:
    declared = {"spec": {"taints": [GPU]}}
    [change] = field_changes(declared, live(CORDON), live(CORDON, GPU))
    assert (change.path, change.old, change.new) == ("spec.taints[nvidia.com/gpu:NoSchedule]", None, GPU)
    assert str(change) == (
        'spec.taints[nvidia.com/gpu:NoSchedule]: (not set) → {"key": "nvidia.com/gpu", "value": "present", '
        '"effect": "NoSchedule"}'
    )
