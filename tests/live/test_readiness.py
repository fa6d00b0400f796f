"""When an object counts as ready, tested with statuses in the form that the API server returns."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.deploy.embedded.wait import parse_duration
from gpu_platform.live.readiness import is_awaited, pod_trouble, runs_on, unready_reason, wait_for_problems


def live(api_version: str, kind: str, status: dict[str, Any], **fields: Any) -> dict[str, Any]:
    metadata = {"name": "a", "generation": 2, **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": status, **fields}


def condition(type_: str, status: str, message: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "message": message}


def node(
    name: str, labels: dict[str, str] | None = None, taints: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": taints or []}}


DEPLOYMENT: dict[str, Any] = {"observedGeneration": 2, "updatedReplicas": 3, "availableReplicas": 3}
DAEMON_SET: dict[str, Any] = {
    "observedGeneration": 2,
    "desiredNumberScheduled": 2,
    "updatedNumberScheduled": 2,
    "numberReady": 2,
}


def queue(kind: str, reason: str, **spec: str) -> dict[str, Any]:
    inactive = {**condition("Active", "False", "not now"), "reason": reason}
    wanted = {"annotations": {"pulumi.com/waitFor": "condition=Active"}}
    return live("kueue.x-k8s.io/v1beta2", kind, {"conditions": [inactive]}, spec=spec, metadata=wanted)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (queue("ClusterQueue", "Stopped", stopPolicy="Hold"), ""),
        (queue("ClusterQueue", "Stopped", stopPolicy="HoldAndDrain"), ""),
        (queue("ClusterQueue", "FlavorNotFound", stopPolicy="None"), "not Active: not now"),
        (queue("LocalQueue", "Stopped", stopPolicy="Hold"), ""),
        (queue("LocalQueue", "ClusterQueueIsInactive"), ""),
        (queue("LocalQueue", "ClusterQueueDoesNotExist"), "not Active: not now"),
    ],
)
def test_held_queues_are_not_waited_for_but_inactive_ones_are(item: dict[str, Any], reason: str) -> None:
    assert unready_reason(item, list) == reason


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (live("v1", "ConfigMap", {}), ""),
        (live("v1", "Namespace", {"phase": "Active"}), ""),
        (live("v1", "Namespace", {"phase": "Terminating"}), "phase Terminating"),
        (live("v1", "Node", {"conditions": [condition("Ready", "True")]}), ""),
        (live("v1", "Node", {}), "no condition Ready yet"),
        (live("v1", "Node", {"conditions": [condition("Ready", "False", "no CNI")]}), "not Ready: no CNI"),
        (live("v1", "ResourceQuota", {"hard": {"pods": "1"}}, spec={"hard": {"pods": "1"}}), ""),
        (live("v1", "ResourceQuota", {}, spec={"hard": {"pods": "1"}}), "no status yet for pods"),
        (live("apps/v1", "Deployment", DEPLOYMENT, spec={"replicas": 3}), ""),
        (live("apps/v1", "Deployment", {**DEPLOYMENT, "updatedReplicas": 1, "availableReplicas": 1}, spec={}), ""),
        (
            live("apps/v1", "Deployment", {**DEPLOYMENT, "observedGeneration": 1}, spec={"replicas": 3}),
            "its controller has not processed the last change yet",
        ),
        (
            live("apps/v1", "Deployment", {**DEPLOYMENT, "updatedReplicas": 1}, spec={"replicas": 3}),
            "1 of 3 pods updated",
        ),
        (
            live("apps/v1", "Deployment", {**DEPLOYMENT, "availableReplicas": 2}, spec={"replicas": 3}),
            "2 of 3 pods ready",
        ),
        (
            live(
                "apps/v1",
                "Deployment",
                {**DEPLOYMENT, "conditions": [condition("ReplicaFailure", "True", "exceeded quota")]},
                spec={"replicas": 3},
            ),
            "exceeded quota",
        ),
        (live("apps/v1", "Deployment", {"observedGeneration": 2}, spec={"replicas": 0}), ""),
        (
            live("apps/v1", "StatefulSet", {"observedGeneration": 2, "updatedReplicas": 1}, spec={}),
            "0 of 1 pod ready",
        ),
        (
            live("apiextensions.k8s.io/v1", "CustomResourceDefinition", {}),
            "no condition Established yet",
        ),
    ],
)
def test_an_object_is_ready_when_its_status_says_so(item: dict[str, Any], reason: str) -> None:
    assert unready_reason(item, list) == reason


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (DAEMON_SET, ""),
        ({**DAEMON_SET, "desiredNumberScheduled": 1}, "its controller has placed it on 1 of 2 nodes (n0, n1)"),
        ({**DAEMON_SET, "numberReady": 1}, "1 of 2 pods ready"),
        ({**DAEMON_SET, "updatedNumberScheduled": 0}, "0 of 2 pods updated"),
        ({}, "its controller has placed it on 0 of 2 nodes (n0, n1)"),
    ],
)
def test_a_daemon_set_is_compared_with_the_nodes_that_it_belongs_on(status: dict[str, Any], reason: str) -> None:
    template = {"spec": {"nodeSelector": {"pool": "train"}}}
    agent = live("apps/v1", "DaemonSet", status, spec={"template": template})
    nodes = [node("n1", {"pool": "train"}), node("n0", {"pool": "train"}), node("n2", {"pool": "serve"})]

    assert unready_reason(agent, lambda: nodes) == reason


GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("template", "taints", "belongs"),
    [
        ({}, [], True),
        ({}, [GPU_TAINT], False),
        ({"tolerations": [{"operator": "Exists"}]}, [GPU_TAINT], True),
        ({"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}, [GPU_TAINT], True),
        ({"tolerations": [{"key": "nvidia.com/gpu", "value": "present"}]}, [GPU_TAINT], True),
        ({"tolerations": [{"key": "nvidia.com/gpu", "value": "absent"}]}, [GPU_TAINT], False),
        ({"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}, [GPU_TAINT], False),
        ({}, [{**GPU_TAINT, "effect": "PreferNoSchedule"}], True),
        ({}, [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}], True),
        ({"nodeSelector": {"pool": "serve"}}, [], False),
    ],
)
def test_a_daemon_set_belongs_on_a_node_by_selector_and_taints(
    template: dict[str, Any], taints: list[dict[str, str]], belongs: bool
) -> None:
    assert runs_on(template, node("n0", {"pool": "train"}, taints)) is belongs


@pytest.mark.parametrize(
    ("expression", "belongs"),
    [
        ({"key": "pool", "operator": "In", "values": ["train", "serve"]}, True),
        ({"key": "pool", "operator": "NotIn", "values": ["train"]}, False),
        ({"key": "gone", "operator": "NotIn", "values": ["train"]}, True),
        ({"key": "pool", "operator": "Exists"}, True),
        ({"key": "pool", "operator": "DoesNotExist"}, False),
        ({"key": "gpus", "operator": "Gt", "values": ["7"]}, True),
        ({"key": "gpus", "operator": "Lt", "values": ["8"]}, False),
        ({"key": "pool", "operator": "Gt", "values": ["7"]}, False),
    ],
)
def test_a_daemon_set_belongs_on_a_node_by_affinity(expression: dict[str, Any], belongs: bool) -> None:
    def template(*terms: dict[str, Any]) -> dict[str, Any]:
        required = {"nodeSelectorTerms": list(terms)}
        return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}

    where = node("n0", {"pool": "train", "gpus": "8"})
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}

    assert runs_on(template({"matchExpressions": [expression]}), where) is belongs
    assert runs_on(template({"matchExpressions": [expression]}, by_name), where), "terms are ORed"
    assert not runs_on(template({}), where), "an empty term selects nothing"


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("condition=Ready", ""),
        ("condition=Ready=False", "not Ready: its status is True"),
        ("condition=Painted", "no condition Painted yet"),
        ("jsonpath={.status.state}=ready", ""),
        ("jsonpath={.status.state}=idle", "status.state is ready, not yet idle"),
        ("jsonpath={.status.conditions.x}=1", "status.conditions.x is None, not yet 1"),
        ('["condition=Ready", "jsonpath={.status.state}=idle"]', "status.state is ready, not yet idle"),
    ],
)
def test_an_object_can_ask_for_its_own_condition(wanted: str, reason: str) -> None:
    item = live(
        "nvidia.com/v1",
        "ClusterPolicy",
        {"state": "ready", "conditions": [condition("Ready", "True")]},
        metadata={"annotations": {"pulumi.com/waitFor": wanted}},
    )

    assert is_awaited(item)
    assert unready_reason(item, list) == reason


def test_an_unsupported_wait_condition_is_refused_before_any_apply() -> None:
    item = live("v1", "ConfigMap", {}, metadata={"annotations": {"pulumi.com/waitFor": "jsonpath={.a[0]}=1"}})

    (problem,) = wait_for_problems("a", item)
    assert problem.found == "jsonpath={.a[0]}=1"


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("1h30m", 5400), ("90s", 90), ("1.5s", 1.5), ("500ms", 0.5)]
)
def test_timeouts_are_go_durations(text: str, seconds: float) -> None:
    assert parse_duration(text, "here") == seconds


@pytest.mark.parametrize("text", ["", "15", "15 m", "soon", "1d"])
def test_a_timeout_of_another_form_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match="resource 'a'"):
        parse_duration(text, "resource 'a'")


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        ({"conditions": [condition("PodScheduled", "True"), condition("Ready", "True")]}, ""),
        (
            {"conditions": [condition("PodScheduled", "False", "Insufficient nvidia.com/gpu")]},
            "not scheduled: Insufficient nvidia.com/gpu",
        ),
        (
            {
                "conditions": [condition("Ready", "False")],
                "containerStatuses": [
                    {
                        "name": "main",
                        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
                    }
                ],
            },
            "container main: ImagePullBackOff no such image",
        ),
        ({"conditions": [condition("Ready", "False", "gpu-count failed")]}, "not ready: gpu-count failed"),
        ({"phase": "Pending"}, "phase Pending, not ready"),
    ],
)
def test_a_pod_says_what_keeps_it_from_being_ready(status: dict[str, Any], trouble: str) -> None:
    assert pod_trouble({"metadata": {"name": "a"}, "status": status}) == trouble
