"""In one run, `preview` and `up` can raise a limit of a policy or quota and add objects that need the higher
limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpu_platform.deploy.changes import Action, Change
from gpu_platform.deploy.embedded.judges import is_judge, refused_by
from gpu_platform.live.client import Refused
from gpu_platform.live.objects import ObjectKey
from tests.deploy.conftest import Objects, Stack, config_map, namespace
from tests.support.eventually import eventually

PLACE = "engine-judged"
POLICIES = "admissionregistration.k8s.io"


def policy(most: int) -> Objects:
    """Return a policy that limits the number of keys of each ConfigMap in the namespace, and its binding."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps"],
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": PLACE}},
        },
        "validations": [{"expression": f"size(object.data) <= {most}", "message": "too many keys"}],
    }
    return [
        _cluster_wide("ValidatingAdmissionPolicy", spec),
        _cluster_wide(
            "ValidatingAdmissionPolicyBinding", {"policyName": "engine-judge", "validationActions": ["Deny"]}
        ),
    ]


def _cluster_wide(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "engine-judge"}
    return {"manifest": {"apiVersion": f"{POLICIES}/v1", "kind": kind, "metadata": metadata, "spec": spec}}


def quota(most: int) -> dict[str, Any]:
    metadata = {"name": "few", "namespace": PLACE}
    spec = {"hard": {"configmaps": str(most)}}
    return {"manifest": {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}}


def limited(most: int) -> Objects:
    return [namespace(PLACE), *policy(most)]


def counted(most: int) -> Objects:
    return [namespace(PLACE), quota(most)]


def used(name: str, *keys: str) -> dict[str, Any]:
    return config_map(name, PLACE, dict.fromkeys(keys, "1"))


@pytest.mark.parametrize(
    ("judges", "less", "more", "first", "wanted", "judge"),
    [
        (limited, 1, 2, [used("one", "a")], [used("one", "a", "b"), used("two", "a", "b")], "engine-judge"),
        # The quota also counts the ConfigMap `kube-root-ca.crt`, which every namespace has.
        (counted, 2, 3, [used("one", "a")], [used("one", "a"), used("two", "a")], "few"),
    ],
    ids=["policy", "quota"],
)
def test_a_widened_rule_and_its_use_are_applied_in_one_run(
    stack: Stack,
    judges: Callable[[int], Objects],
    less: int,
    more: int,
    first: Objects,
    wanted: Objects,
    judge: str,
) -> None:
    stack.up([*judges(less), *first])
    if judges is counted:  # the quota controller counts the objects a moment later
        eventually(lambda: _used(stack), "2")
    with pytest.raises(Refused):
        stack.preview([*judges(less), *wanted])
    found = _of(stack.preview([*judges(more), *wanted]).changes)
    assert found["two"].action is Action.CREATE
    assert any(
        f"{judge} refuses the object now, but is changed before the object is applied" in one
        for one in found["two"].notices
    )
    stack.up([*judges(more), *wanted])
    live = {one["metadata"]["name"] for one in stack.client.objects("v1", "ConfigMap", namespace=PLACE)}
    assert {"one", "two"} <= live
    assert {one.action for one in stack.preview([*judges(more), *wanted]).changes} == {Action.UNCHANGED}


def test_a_use_before_its_rule_is_widened_is_refused_by_the_preview(stack: Stack) -> None:
    stack.up([*limited(1), used("one", "a")])
    with pytest.raises(Refused, match="too many keys"):
        stack.preview([namespace(PLACE), used("two", "a", "b"), *policy(2), used("one", "a")])


def _used(stack: Stack) -> str:
    live = stack.client.get("v1", "ResourceQuota", "few", PLACE)
    assert live is not None
    return live.get("status", {}).get("used", {}).get("configmaps", "")


def _of(changes: tuple[Change, ...]) -> dict[str, Change]:
    return {change.key.name: change for change in changes if change.key.kind == "ConfigMap"}


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        (
            ObjectKey(POLICIES, "ValidatingAdmissionPolicy", "", "pods-of-a"),
            "ValidatingAdmissionPolicy 'pods-of-a' with binding 'pods-of-a' denied request: no",
        ),
        (ObjectKey("", "ResourceQuota", "a", "gpu"), "exceeded quota: gpu, requested: pods=1, used: pods=1"),
        (ObjectKey("", "ResourceQuota", "a", "gpu"), "failed quota: gpu: must specify limits.cpu"),
        (ObjectKey("", "LimitRange", "a", "sizes"), "maximum cpu usage per Container is 2, but limit is 3"),
        (
            ObjectKey("scheduling.k8s.io", "PriorityClass", "", "training"),
            "no PriorityClass with name training was found",
        ),
        (ObjectKey("", "Namespace", "", "a"), 'violates PodSecurity "restricted:latest": host namespaces'),
    ],
    ids=lambda value: value.kind if isinstance(value, ObjectKey) else "",
)
def test_a_refusal_is_attributed_only_to_the_policy_or_quota_that_it_names(judge: ObjectKey, message: str) -> None:
    refusal = Refused("Pod x", 403, "Forbidden", message)
    assert is_judge(judge)
    assert refused_by(refusal, "a", judge)
    named = judge.kind in ("LimitRange",)
    other = ObjectKey(judge.group, judge.kind, "b" if judge.namespace else "", judge.name if named else "other")
    assert not refused_by(refusal, "a", other)
    assert not refused_by(Refused("Pod x", 403, "Forbidden", "no rights"), "a", judge)


def queued(queue: str) -> Objects:
    """Return a Job with a queue label, and a policy that refuses the same changes as Kueue 0.19.2."""
    label = "kueue.x-k8s.io/queue-name"
    rule = {
        "apiGroups": ["batch"],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["jobs"],
    }
    webhook = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": PLACE}},
        },
        "validations": [
            {
                "expression": f"object.metadata.labels['{label}'] == oldObject.metadata.labels['{label}']",
                "message": f'metadata.labels[{label}]: Invalid value: "{queue}": field is immutable',
                "reason": "Forbidden",
            }
        ],
    }
    pod = {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "once",
            "namespace": PLACE,
            "labels": {label: queue},
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {"template": {"spec": pod}},
    }
    binding = {"policyName": "engine-judge", "validationActions": ["Deny"]}
    return [
        namespace(PLACE),
        _cluster_wide("ValidatingAdmissionPolicy", webhook),
        _cluster_wide("ValidatingAdmissionPolicyBinding", binding),
        {"manifest": job},
    ]


def test_a_job_whose_queue_a_webhook_calls_immutable_is_replaced(stack: Stack) -> None:
    stack.up(queued("default"))
    declared = [*queued("default")[:-1], queued("vision")[-1]]
    eventually(lambda: stack.preview(declared).changes[-1].action, Action.REPLACE)
    assert stack.up(declared).changes[-1].action is Action.REPLACE
    live = stack.client.get("batch/v1", "Job", "once", PLACE)
    assert live is not None
    assert live["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "vision"
