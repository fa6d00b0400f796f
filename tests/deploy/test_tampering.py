"""Objects of others, and changes that others make to a stack's objects, do not stop a run in a sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.deploy.changes import Action, Change, Changes, ObjectsSkipped
from gpu_platform.deploy.embedded import apply as apply_module
from gpu_platform.deploy.embedded.applyset import ApplySet, stack_outputs
from gpu_platform.live.client import KubernetesClient
from tests.deploy.conftest import Objects, Stack, config_map, namespace

# A separate group, so that these tests run in parallel with the other tests of the folder.
pytestmark = pytest.mark.xdist_group("sandbox-engine-drift")

PART_OF = "applyset.kubernetes.io/part-of"
PARTS: Objects = [
    namespace("engine-a"),
    config_map("one", "engine-a"),
    config_map("two", "engine-a"),
    config_map("three", "engine-a"),
]


def live(client: KubernetesClient, name: str, place: str = "engine-a", kind: str = "ConfigMap") -> dict[str, Any]:
    api_version = "rbac.authorization.k8s.io/v1" if kind == "RoleBinding" else "v1"
    found = client.get(api_version, kind, name, place)
    assert found is not None
    return found


def as_member(client: KubernetesClient, manifest: dict[str, Any]) -> None:
    """Create an object in the same way as a team member, without the engine's field manager."""
    client.apply(manifest, manager="kubectl")


def relabel(client: KubernetesClient, name: str, value: str | None) -> None:
    metadata = {"name": name, "namespace": "engine-a", "labels": {PART_OF: value}}
    client.merge({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def recreate(client: KubernetesClient, manifest: dict[str, Any]) -> None:
    metadata = manifest["metadata"]
    client.delete(live(client, metadata["name"], metadata["namespace"], manifest["kind"]))
    as_member(client, manifest)


def change_of(changes: Changes, name: str) -> Change:
    (found,) = (change for change in changes.changes if change.key.name == name)
    return found


def test_a_label_that_somebody_removed_comes_back(stack: Stack) -> None:
    stack.up(PARTS)
    relabel(stack.client, "one", None)

    changes = stack.up(PARTS[:3])

    assert change_of(changes, "one").action is Action.UPDATE
    assert live(stack.client, "one")["metadata"]["labels"][PART_OF] == ApplySet(stack.client, stack.name).id
    assert change_of(changes, "three").action is Action.DELETE
    assert stack.up(PARTS[:3]).is_empty


def test_an_object_that_others_recreated_is_skipped(stack: Stack) -> None:
    stack.up(PARTS)
    recreate(stack.client, config_map("one", "engine-a", {"a": "mine"})["manifest"])

    for run in (stack.preview, stack.up):
        with pytest.raises(ObjectsSkipped, match=r"ConfigMap one .*already exists .* Delete it"):
            run([*PARTS[:3], config_map("four", "engine-a")])
    assert live(stack.client, "one")["data"]["a"] == "mine"
    assert live(stack.client, "four")["data"]["a"] == "1"
    assert stack.client.get("v1", "ConfigMap", "three", "engine-a") is None

    stack.client.delete(live(stack.client, "one"))
    assert change_of(stack.up(PARTS), "one").action is Action.CREATE


def test_a_foreign_object_is_skipped_and_the_rest_is_applied(stack: Stack) -> None:
    stack.up(PARTS, {"gpus": 8})
    as_member(stack.client, config_map("new", "engine-a", {"a": "mine"})["manifest"])
    labelled = config_map("labelled", "engine-a", {"a": "mine"})["manifest"]
    labelled["metadata"]["labels"] = {PART_OF: ApplySet(stack.client, stack.name).id}
    as_member(stack.client, labelled)
    wanted = [*PARTS[:3], config_map("new", "engine-a"), config_map("labelled", "engine-a")]
    wanted.append(config_map("four", "engine-a"))

    for _ in range(2):
        with pytest.raises(ObjectsSkipped) as caught:
            stack.up(wanted, {"gpus": 16})
        assert "ConfigMap new in namespace engine-a already exists and is not managed" in str(caught.value)
        assert "ConfigMap labelled in namespace engine-a already exists and has the label" in str(caught.value)
    assert {name: live(stack.client, name)["data"]["a"] for name in ("new", "labelled", "four")} == {
        "new": "mine",
        "labelled": "mine",
        "four": "1",
    }
    assert stack.client.get("v1", "ConfigMap", "three", "engine-a") is None
    assert stack_outputs(stack.client, stack.name) == {"gpus": 16}


def test_nothing_is_applied_in_a_namespace_of_somebody_else(stack: Stack) -> None:
    as_member(stack.client, namespace("engine-theirs")["manifest"])
    try:
        with pytest.raises(ObjectsSkipped, match="Namespace engine-theirs already exists"):
            stack.up(
                [namespace("engine-theirs"), config_map("one", "engine-theirs"), config_map("two", "default")]
            )
        assert stack.client.get("v1", "ConfigMap", "one", "engine-theirs") is None
        assert stack.client.get("v1", "ConfigMap", "two", "default") is not None
    finally:
        stack.client.delete(live(stack.client, "engine-theirs", "", "Namespace"))


def test_an_object_that_a_finalizer_holds_is_skipped(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    stack.up(PARTS)
    held = {"name": "one", "namespace": "engine-a", "finalizers": ["engine.example.com/held"]}
    stack.client.merge({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    stack.client.delete(live(stack.client, "one"))
    monkeypatch.setattr(apply_module, "_HELD_SECONDS", 0.5)
    try:
        with pytest.raises(ObjectsSkipped, match=r"ConfigMap one .*engine.example.com/held") as caught:
            stack.up([*PARTS, config_map("four", "engine-a")])
        assert change_of(caught.value.changes, "four").action is Action.CREATE
    finally:
        held["finalizers"] = []
        stack.client.merge({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})


def test_a_teams_own_object_with_the_label_of_the_stack_is_not_pruned(stack: Stack) -> None:
    stack.up(PARTS)
    own = config_map("own", "engine-a", {"a": "mine"})["manifest"]
    own["metadata"]["labels"] = {PART_OF: ApplySet(stack.client, stack.name).id}
    as_member(stack.client, own)

    assert {change.key.name for change in stack.preview(PARTS).changes} == {"engine-a", "one", "two", "three"}
    assert stack.up(PARTS).is_empty
    assert live(stack.client, "own")["data"]["a"] == "mine"


def test_a_recreated_undeclared_object_is_not_pruned(stack: Stack) -> None:
    stack.up(PARTS)
    recreate(stack.client, config_map("one", "engine-a", {"a": "mine"})["manifest"])

    changes = stack.up([PARTS[0], *PARTS[2:]])

    assert changes.is_empty
    assert live(stack.client, "one")["data"]["a"] == "mine"


def test_after_the_parent_was_deleted_labels_and_field_manager_find_the_members(stack: Stack) -> None:
    stack.up(PARTS)
    ApplySet(stack.client, stack.name).delete_parent()

    changes = stack.up(PARTS[:3])

    assert changes.by_kind(Action.DELETE) == {"ConfigMap": 1}
    assert changes.count(Action.UNCHANGED) == 3
