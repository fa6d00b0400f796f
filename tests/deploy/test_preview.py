"""`preview` reports what `up` would do, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu_platform.base.errors import Finding
from gpu_platform.deploy.changes import Action
from gpu_platform.deploy.embedded.diff import preview
from gpu_platform.deploy.recorded.record import RecordedProgram
from gpu_platform.live.client import KubernetesClient, Refused
from tests.deploy.conftest import Record, Stack, config_map, namespace, workload


def test_a_preview_names_every_change_and_makes_none(stack: Stack) -> None:
    stack.up(
        [
            config_map("changed", "default", {"replicas": "4", "gone": "x"}),
            config_map("same", "default"),
            config_map("removed", "default"),
        ]
    )
    before = {
        live["metadata"]["name"]: live for live in stack.client.objects("v1", "ConfigMap", namespace="default")
    }

    changes = stack.preview(
        [
            config_map("changed", "default", {"replicas": "2"}),
            config_map("same", "default"),
            config_map("new", "default"),
        ]
    )

    assert {change.key.name: change.action.value for change in changes.changes} == {
        "changed": "update",
        "same": "unchanged",
        "new": "create",
        "removed": "delete",
    }
    assert [str(field) for field in changes.changes[0].fields] == [
        'data.replicas: "4" → "2"',
        'data.gone: "x" → (not set)',
    ]
    after = {
        live["metadata"]["name"]: live for live in stack.client.objects("v1", "ConfigMap", namespace="default")
    }
    assert after == before


def test_a_preview_names_a_container_by_its_name(stack: Stack) -> None:
    quiet = {"pulumi.com/skipAwait": "true"}
    first, second = workload("Deployment", "web", "default"), workload("Deployment", "web", "default")
    for web in (first, second):
        web["manifest"]["metadata"]["annotations"] = quiet
    second["manifest"]["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2"
    stack.up([first])

    (change,) = stack.preview([second]).changes

    assert [str(field) for field in change.fields] == [
        'spec.template.spec.containers[main].image: "app:1" → "app:2"'
    ]


def test_an_object_in_a_namespace_of_the_same_stack_is_a_create(stack: Stack) -> None:
    changes = stack.preview([config_map("one", "engine-new"), namespace("engine-new")])

    assert [change.action for change in changes.changes] == [Action.CREATE, Action.CREATE]


def test_an_object_in_a_namespace_that_nobody_makes_is_refused(stack: Stack) -> None:
    with pytest.raises(Refused, match='namespaces "engine-nowhere" not found'):
        stack.preview([config_map("one", "engine-nowhere")])


def test_a_replacement_is_announced_with_its_reason(stack: Stack) -> None:
    stack.up([config_map("fixed", "default", {"a": "1"}, immutable=True)])

    (change,) = stack.preview([config_map("fixed", "default", {"a": "2"}, immutable=True)]).changes

    assert (change.action, change.reason) == (
        Action.REPLACE,
        "data: Forbidden: field is immutable when `immutable` is set",
    )
    assert [str(field) for field in change.fields] == ['data.a: "1" → "2"']


def test_a_wrong_object_is_found_before_anything_is_applied(stack: Stack) -> None:
    with pytest.raises(Refused, match="nonsense"):
        stack.preview([config_map("one", "default"), config_map("two", "default", nonsense=True)])


def test_an_object_of_another_stack_is_found_before_anything_is_applied(
    stack: Stack, stacks: Callable[[str], Stack]
) -> None:
    stacks("engine-other").up([config_map("one", "default")])

    with pytest.raises(Finding, match="belongs to another stack"):
        stack.preview([config_map("one", "default")])


def test_values_that_are_not_known_yet_are_shown_as_unknown(
    client: KubernetesClient, record: Record, stacks: Callable[[str], Stack]
) -> None:
    team = stacks("engine-team")

    def recorded(gpus: int | None) -> RecordedProgram:
        outputs = None if gpus is None else {"gpus": gpus}
        return record("reads_environment", stack=team.name, resolve_stack=lambda _name: outputs)

    (created,) = preview(client, recorded(None)).changes
    team.up([config_map("share", "default", {"gpus": "16"})])
    (updated,) = preview(client, recorded(None)).changes

    assert created.action is Action.CREATE
    assert [str(field) for field in updated.fields] == ['data.gpus: "16" → (unknown)']
