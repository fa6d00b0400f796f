"""`destroy` deletes every object of its stack, and no object of another stack."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu_platform.deploy.embedded import deletion
from gpu_platform.deploy.embedded.deletion import delete_all
from gpu_platform.deploy.embedded.wait import NotReady
from tests.deploy.conftest import Objects, Stack, config_map, namespace, node, workload


def leftovers(stack: Stack) -> list[str]:
    return [
        f"{kind} {live['metadata']['name']}"
        for api_version, kind in (
            ("v1", "Namespace"),
            ("v1", "ConfigMap"),
            ("v1", "Node"),
            ("apps/v1", "Deployment"),
        )
        for live in stack.client.objects(api_version, kind)
        if live["metadata"]["name"].startswith(("engine-", "gpu-platform-engine-"))
    ]


def test_nothing_is_left_of_a_stack_and_everything_of_the_others(
    stack: Stack, stacks: Callable[[str], Stack]
) -> None:
    other = stacks("engine-other")
    other.up([config_map("engine-theirs", "default")])
    objects: Objects = [
        node("engine-n1"),
        namespace("engine-a"),
        workload("Deployment", "engine-web", "engine-a"),
        config_map("engine-one", "engine-a"),
    ]
    stack.up(objects)

    changes = stack.destroy()

    assert [change.key.name for change in changes.changes] == ["engine-web", "engine-one", "engine-a", "engine-n1"]
    assert sorted(leftovers(stack)) == ["ConfigMap engine-theirs", "ConfigMap gpu-platform-engine-other"]
    assert not list(stack.client.objects("v1", "Pod", label_selector="app=engine-web"))


def test_destroying_twice_is_no_error(stack: Stack) -> None:
    stack.up([config_map("one", "default")])

    assert len(stack.destroy().changes) == 1
    assert stack.destroy().changes == ()


def test_a_destroy_that_stopped_in_the_middle_is_finished_by_the_next(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.up([node("engine-n1"), config_map("engine-one", "default")])
    with monkeypatch.context() as patch:
        patch.setattr(type(stack.client), "delete", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            stack.destroy()

    assert len(stack.destroy().changes) == 2
    assert leftovers(stack) == []


def _interrupt(*_args: object) -> None:
    raise KeyboardInterrupt


def test_an_object_that_is_not_deleted_is_reported_with_its_finalizers(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.up([config_map("one", "default")])
    held = {"name": "one", "namespace": "default", "finalizers": ["engine.example.com/held"]}
    stack.client.merge({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    monkeypatch.setattr(deletion, "DEFAULT_TIMEOUT_SECONDS", 0.5)

    with pytest.raises(NotReady, match=r"ConfigMap one .*: finalizers engine.example.com/held"):
        stack.destroy()

    held["finalizers"] = []
    stack.client.merge({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})


def test_deletion_order_is_workloads_namespaces_nodes_and_newest_first() -> None:
    def live(api_version: str, kind: str, name: str, second: int) -> dict[str, object]:
        created = f"2026-01-01T00:00:{second:02}Z"
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "creationTimestamp": created}}

    deleted: list[str] = []

    class Client:
        def delete(self, item: dict[str, dict[str, str]]) -> None:
            deleted.append(item["metadata"]["name"])

    class Waiter:
        def until_deleted(self, lives: object, timeout: float) -> None:
            deleted.append("-")

    delete_all(
        Client(),  # pyrefly: ignore[bad-argument-type]
        Waiter(),  # pyrefly: ignore[bad-argument-type]
        [
            live("apiextensions.k8s.io/v1", "CustomResourceDefinition", "definition", 0),
            live("v1", "Node", "node", 1),
            live("v1", "Namespace", "namespace", 2),
            live("v1", "ConfigMap", "older", 3),
            live("nvidia.com/v1", "ClusterPolicy", "younger", 4),
            live("apps/v1", "DaemonSet", "agent", 5),
        ],
    )

    assert deleted == ["agent", "-", "younger", "older", "-", "namespace", "-", "node", "-", "definition", "-"]
