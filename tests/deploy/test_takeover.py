"""The Pulumi CLI takes over some objects that already exist in a cluster. `gpu-platform` refuses the others before
the CLI starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.base.errors import Finding
from gpu_platform.deploy.pulumi.takeover import drop_former_limits, refuse_foreign_objects
from gpu_platform.deploy.recorded.objects import kubernetes_objects
from gpu_platform.live.client import KubernetesClient
from tests.deploy.conftest import Stack

NAMESPACE = "takeover"
PULUMI = "pulumi-kubernetes-1a2b3c4d"
DECLARED = [
    {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}}}
    for name in ("one", "two")
]


@pytest.fixture
def cluster(stack: Stack) -> Iterator[KubernetesClient]:
    stack.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield stack.client
    for live in stack.client.objects("v1", "ConfigMap", namespace=NAMESPACE):
        stack.client.delete(live)


def made(cluster: KubernetesClient, name: str, manager: str, **labels: str) -> None:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"by": manager}}, manager=manager
    )


def refused(stack: Stack, cluster: KubernetesClient, *, in_state: bool = False) -> str:
    declared = kubernetes_objects(stack.recorded(DECLARED).resources)
    state = {one.key for one in declared} if in_state else set[Any]()
    try:
        refuse_foreign_objects(cluster, "shop", declared, state)
    except Finding as refusal:
        return str(refusal)
    return ""


def test_objects_that_do_not_exist_are_nobodys(stack: Stack, cluster: KubernetesClient) -> None:
    assert refused(stack, cluster) == ""


def test_an_object_that_somebody_created_is_refused_by_name(stack: Stack, cluster: KubernetesClient) -> None:
    made(cluster, "two", "kubectl")

    text = refused(stack, cluster)

    assert "1 object exists but does not belong to the stack; nothing was changed" in text
    assert f"ConfigMap two in namespace {NAMESPACE} was not created by this stack" in text
    assert "ConfigMap one" not in text


def test_what_a_killed_run_of_the_provider_created_is_the_stacks(stack: Stack, cluster: KubernetesClient) -> None:
    made(cluster, "one", PULUMI)
    assert refused(stack, cluster) == ""


def test_what_the_provider_created_for_another_stack_is_refused(stack: Stack, cluster: KubernetesClient) -> None:
    made(cluster, "one", PULUMI, **{names.STACK_LABEL: "other"})
    assert "belongs to stack 'other'" in refused(stack, cluster)


def test_a_recreated_object_of_the_state_is_adopted(stack: Stack, cluster: KubernetesClient) -> None:
    made(cluster, "one", "kubectl")
    assert refused(stack, cluster, in_state=True) == ""


def test_a_stack_owns_only_the_namespaces_that_it_retained(stack: Stack, cluster: KubernetesClient) -> None:
    declared = {"manifest": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}}
    namespaces = kubernetes_objects(stack.recorded([declared]).resources)
    metadata = {
        "name": NAMESPACE,
        "labels": {names.RETAINED_LABEL: "true"},
        "annotations": {names.RETAINED_FROM_ANNOTATION: "shop"},
    }
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, manager="kubectl")

    refuse_foreign_objects(cluster, "shop", namespaces, ())
    with pytest.raises(Finding, match="retained from stack 'shop'"):
        refuse_foreign_objects(cluster, "other", namespaces, ())


def test_a_returning_team_loses_limits_that_its_quota_no_longer_declares(stack: Stack) -> None:
    def quota(**hard: str) -> dict[str, Any]:
        metadata = {"name": "quota", "namespace": NAMESPACE, "labels": {names.RETAINED_LABEL: "true"}}
        return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}

    stack.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    live = stack.client.apply(quota(pods="4", secrets="10"), manager=PULUMI)
    declared = kubernetes_objects(stack.recorded([{"manifest": quota(pods="8")}]).resources)

    drop_former_limits(stack.client, refuse_foreign_objects(stack.client, "shop", declared, ()))

    left = stack.client.get("v1", "ResourceQuota", "quota", NAMESPACE)
    stack.client.delete(live)
    assert left is not None
    assert left["spec"]["hard"] == {"pods": "4"}
