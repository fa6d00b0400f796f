"""What a drain does to a pod, and what `up` writes to a node."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.deploy.rollout.annotations import (
    RolloutAnnotation,
    is_only_owner,
    labels_by,
    node_document,
    rollout_annotation,
)
from gpu_platform.deploy.rollout.drain import blocks_of
from gpu_platform.live.pods import eviction_action
from tests.deploy.rollout.live_objects import node, owned_by, pod

MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}


@pytest.mark.parametrize(
    ("given", "action"),
    [
        ({"metadata": owned_by("ReplicaSet")}, "evict"),
        ({"metadata": owned_by("Job")}, "evict"),
        ({"metadata": owned_by("RayCluster")}, "evict"),
        ({"metadata": owned_by("DaemonSet")}, "keep"),
        ({"metadata": owned_by("DaemonSet", version="example.com/v1")}, "evict"),
        ({"metadata": MIRROR}, "keep"),
        ({"metadata": {}}, "unmanaged"),
        ({"metadata": owned_by("ReplicaSet", controller=False)}, "unmanaged"),
        ({"metadata": {}, "phase": "Succeeded"}, "keep"),
        ({"metadata": owned_by("Job"), "phase": "Failed"}, "keep"),
    ],
)
def test_a_drain_skips_daemon_set_static_ended_and_unmanaged_pods(given: dict[str, Any], action: str) -> None:
    assert eviction_action(pod("one", on="lab-0", **given)) == action


def test_a_pod_of_a_daemon_set_that_has_gpus_keeps_its_node_from_being_changed() -> None:
    pods = [
        pod("probe", on="lab-0", metadata=owned_by("DaemonSet")),
        pod("log", on="lab-0", gpus=0, metadata=owned_by("DaemonSet")),
        pod("ended", on="lab-0", metadata=owned_by("DaemonSet"), phase="Succeeded"),
        pod("web", on="lab-0", metadata=owned_by("ReplicaSet")),
    ]
    [block] = blocks_of(pods, ())
    assert (block.pods, block.forever) == (("vision/probe",), True)
    assert "DaemonSet vision/owner would start the pod again" in block.why


def test_an_annotation_is_read_back_as_it_was_written() -> None:
    for annotation in (
        RolloutAnnotation("prod", "lab-1"),
        RolloutAnnotation("prod", "lab-1", failure='it said "no"'),
    ):
        document = node_document(node("lab-0"), {}, annotation)
        assert document["spec"] == {"unschedulable": True}
        assert rollout_annotation(document) == annotation


@pytest.mark.parametrize("text", ["", "null", "{", "[]", '"x"', '{"stack": "prod"}'])
def test_an_annotation_that_cannot_be_read_counts_as_none(text: str) -> None:
    assert rollout_annotation(node("lab-0", annotations={names.MIG_ROLLOUT_ANNOTATION: text})) is None


def test_applying_without_the_annotation_uncordons_only_that_node() -> None:
    document = node_document(node("lab-0"), {"a": "b"})
    assert "spec" not in document
    assert document["metadata"] == {"name": "lab-0", "uid": "uid-lab-0", "labels": {"a": "b"}}


def test_labels_of_a_field_manager_and_its_sole_ownership_are_found() -> None:
    live = node("lab-0", labels={"a": "1", "b": "2"})
    live["metadata"]["managedFields"] = [
        {"manager": "me", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}, "f:b": {}}}}},
        {"manager": "me", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:c": {}}}}},
        {"manager": "engine", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:b": {}}}}},
    ]
    assert labels_by("me", live) == {"a": "1", "b": "2"}
    assert is_only_owner("me", live, "a")
    assert not is_only_owner("me", live, "b")
