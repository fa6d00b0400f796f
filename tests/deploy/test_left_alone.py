"""A field in `ignore_changes` keeps its live value, so that others can change it."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.deploy.changes import Action
from tests.deploy.conftest import Objects, Stack, namespace, workload

pytestmark = pytest.mark.xdist_group("sandbox-engine-drift")

AUTOSCALER = "kube-controller-manager"


def service(replicas: int, *, autoscaled: bool, image: str = "app:1") -> Objects:
    web = workload("Deployment", "web", "engine-a", replicas=replicas)
    web["manifest"]["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
    web["manifest"]["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return [namespace("engine-a"), {**web, "ignore_changes": ["spec.replicas"] if autoscaled else []}]


def replicas(stack: Stack) -> int:
    live = stack.client.get("apps/v1", "Deployment", "web", "engine-a")
    assert live is not None
    return live["spec"]["replicas"]


def scale(stack: Stack, wanted: int) -> None:
    """Set the Deployment's replicas as an autoscaler does."""
    head: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "Deployment"}
    metadata = {"name": "web", "namespace": "engine-a"}
    stack.client.apply({**head, "metadata": metadata, "spec": {"replicas": wanted}}, manager=AUTOSCALER)


def test_a_running_service_that_gets_an_autoscaler_keeps_its_replicas(stack: Stack) -> None:
    stack.up(service(3, autoscaled=False))
    assert stack.preview(service(2, autoscaled=True)).changes[-1].action is Action.UNCHANGED
    stack.up(service(2, autoscaled=True))
    assert replicas(stack) == 3


def test_the_replicas_that_an_autoscaler_set_stay_at_every_later_change(stack: Stack) -> None:
    stack.up(service(3, autoscaled=True))
    scale(stack, 5)
    (change,) = (one for one in stack.preview(service(3, autoscaled=True, image="app:2")).changes if one.fields)
    assert [field.path for field in change.fields] == ["spec.template.spec.containers[main].image"]
    stack.up(service(3, autoscaled=True, image="app:2"))
    assert replicas(stack) == 5


def test_a_new_service_with_an_autoscaler_begins_with_its_declared_replicas(stack: Stack) -> None:
    stack.up(service(2, autoscaled=True))
    assert replicas(stack) == 2


def test_a_service_that_loses_its_autoscaler_has_its_declared_replicas_again(stack: Stack) -> None:
    stack.up(service(2, autoscaled=True))
    scale(stack, 5)
    stack.up(service(2, autoscaled=False))
    assert replicas(stack) == 2
