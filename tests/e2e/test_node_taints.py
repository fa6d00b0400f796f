"""Cordons and taints of people, autoscalers and Kubernetes are no drift; those of the stack are repaired."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.engine.taints import repair_taints
from tests.e2e.conftest import Platform
from tests.support.eventually import eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-taints")]

NODE = "serve-0"
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
SCALER = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1795374307", "effect": "NoSchedule"}
PERSON = {"key": "ops.example.com/repair", "value": "ticket-7", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def taints(platform: Platform) -> list[dict[str, Any]]:
    node = platform.client.get("v1", "Node", NODE)
    assert node is not None
    found = node["spec"].get("taints") or []
    return [{key: value for key, value in taint.items() if key != "timeAdded"} for taint in found]


def change(platform: Platform, **spec: Any) -> None:
    """Change the node as `kubectl cordon` and `kubectl taint` do."""
    platform.client.merge({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": spec})


@pytest.fixture
def cordoned(deployed: Platform) -> Iterator[Platform]:
    """The deployed stack, with a cordoned node that also has taints of an autoscaler and a person."""
    change(deployed, unschedulable=True)
    eventually(lambda: CORDON in taints(deployed))
    change(deployed, taints=[*taints(deployed), SCALER, PERSON])
    yield deployed
    change(deployed, unschedulable=None, taints=[GPU])
    eventually(lambda: taints(deployed) == [GPU])


def preview(platform: Platform, stack: dict[str, Any], *options: str) -> Any:
    return platform.run("preview", str(platform.write(stack)), "--engine", "embedded", *options)


def test_neither_preview_nor_up_lists_or_removes_a_cordon_or_a_taint_of_others(
    cordoned: Platform, base: dict[str, Any]
) -> None:
    seen = preview(cordoned, base, "--format", "json")
    assert seen.json["changes"]["changes"] == []
    ran = cordoned.up(base)
    assert ran.code == 0, ran.err
    assert ran.json["changes"]["changes"] == []
    assert sorted(taints(cordoned), key=str) == sorted([GPU, CORDON, SCALER, PERSON], key=str)
    node = cordoned.client.get("v1", "Node", NODE)
    assert node is not None
    assert node["spec"]["unschedulable"] is True


def test_a_taint_of_the_stack_that_somebody_removed_comes_back_beside_those_of_others(
    cordoned: Platform, base: dict[str, Any]
) -> None:
    change(cordoned, taints=[taint for taint in taints(cordoned) if taint != GPU])
    seen = preview(cordoned, base, "--objects")
    shown = " ".join(seen.out.split())
    assert "spec.taints[nvidia.com/gpu:NoSchedule]: (not set)" in shown
    assert "{'" not in seen.out, "no Python dict"
    assert "ToBeDeleted" not in seen.out
    ran = cordoned.up(base)
    assert ran.code == 0, ran.err
    assert sorted(taints(cordoned), key=str) == sorted([GPU, CORDON, SCALER, PERSON], key=str)


def test_a_taint_that_leaves_the_stack_file_goes_and_those_of_others_stay(
    cordoned: Platform, base: dict[str, Any]
) -> None:
    more = copy.deepcopy(base)
    more["pools"][1]["taints"] = [{"key": "example.com/serving", "effect": "NoSchedule"}]
    assert cordoned.up(more).code == 0
    assert "example.com/serving" in {taint["key"] for taint in taints(cordoned)}
    ran = cordoned.up(base)
    assert ran.code == 0, ran.err
    assert sorted(taints(cordoned), key=str) == sorted([GPU, CORDON, SCALER, PERSON], key=str)


def test_taints_are_repaired_for_an_engine_that_leaves_them_alone(cordoned: Platform) -> None:
    change(cordoned, taints=[taint for taint in taints(cordoned) if taint != GPU])
    assert repair_taints(cordoned.client, {NODE: [GPU], "gone-0": [GPU]}) == [NODE]
    assert sorted(taints(cordoned), key=str) == sorted([GPU, CORDON, SCALER, PERSON], key=str)
    assert repair_taints(cordoned.client, {NODE: [GPU]}) == []


def test_validate_and_up_mention_them_with_who_and_since_when_and_fail_nothing(
    cordoned: Platform, base: dict[str, Any]
) -> None:
    ran = cordoned.run("validate", str(cordoned.write(base)))
    assert ran.code == 0, ran.out
    shown = " ".join(ran.out.split())
    assert f"{NODE}: cordoned by gpu-platform since " in shown, "the field manager of this test"
    scaler = "taint ToBeDeletedByClusterAutoscaler=1795374307:NoSchedule since 2026-11-22 19:05 UTC is not the"
    assert f"{scaler} stack's: set by the cluster autoscaler" in shown
    assert "taint ops.example.com/repair=ticket-7:NoSchedule is not the stack's" in shown
    up = cordoned.up(base)
    assert up.code == 0, up.err
    [node] = [one for one in up.json["validation"]["nodes"] if one["node"] == NODE]
    assert len(node["notes"]) == 3
