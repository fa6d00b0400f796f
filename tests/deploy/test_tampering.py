"""What members of a team do to platform objects in the own namespace does not stop a run (R1, R16)."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import Finding
from gpu_platform.deploy.changes import Action, Change, Changes
from gpu_platform.deploy.embedded import apply as apply_module
from gpu_platform.deploy.embedded.applyset import ApplySet, Inventory, stack_outputs
from gpu_platform.deploy.embedded.members import ObjectsSkipped
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import mapping_at
from tests.deploy.conftest import Objects, Stack, config_map, namespace

# A group of their own, so that they run beside the other tests of the folder.
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
    """Create an object as a member of a team does: without the engine's field manager."""
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


@pytest.mark.parametrize("value", [None, "applyset-of-mine-v1"])
def test_a_member_object_that_lost_its_label_is_taken_back(stack: Stack, value: str | None) -> None:
    stack.up(PARTS)
    relabel(stack.client, "one", value)

    announced = stack.preview(PARTS[:3])
    changes = stack.up(PARTS[:3])

    for found in (announced, changes):
        (notice,) = change_of(found, "one").notices
        assert notice.startswith(f"taken back: its label {PART_OF} was ")
        assert PART_OF in notice
        assert change_of(found, "one").action is Action.UPDATE
    assert change_of(changes, "three").action is Action.DELETE
    assert stack.up(PARTS[:3]).is_empty


def test_a_member_object_that_was_created_again_is_taken_back(stack: Stack) -> None:
    stack.up(PARTS)
    recreate(stack.client, config_map("one", "engine-a", {"a": "mine"})["manifest"])

    changes = stack.up(PARTS)

    assert change_of(changes, "one").notices == ("taken back: it was deleted and created again",)
    assert live(stack.client, "one")["data"]["a"] == "1"
    assert stack.up(PARTS).is_empty


def test_an_object_created_again_with_another_immutable_field_is_replaced(stack: Stack) -> None:
    def binding(role: str) -> dict[str, Any]:
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "members", "namespace": "engine-a"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        }

    objects: Objects = [namespace("engine-a"), {"manifest": binding("edit")}]
    stack.up(objects)
    recreate(stack.client, binding("view"))

    announced = stack.preview(objects)
    changes = stack.up(objects)

    assert [change_of(found, "members").action for found in (announced, changes)] == [Action.REPLACE] * 2
    assert "taken back" in str(change_of(changes, "members").notices)
    assert live(stack.client, "members", kind="RoleBinding")["roleRef"]["name"] == "edit"


def test_a_secret_that_was_created_again_is_never_deleted_and_all_else_is_applied(stack: Stack) -> None:
    def secret(type_: str, text: str) -> dict[str, Any]:
        metadata = {"name": "token", "namespace": "engine-a"}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "type": type_,
            "data": {"t": text},
        }

    objects: Objects = [namespace("engine-a"), {"manifest": secret("Opaque", "YQ==")}]
    stack.up([*objects, config_map("old", "engine-a")])
    recreate(stack.client, secret("example.com/mine", "Yg=="))
    before = live(stack.client, "token", kind="Secret")

    with pytest.raises(ObjectsSkipped, match=r"Secret token .*may hold data"):
        stack.preview(objects)
    with pytest.raises(ObjectsSkipped, match=r"Secret token .*may hold data") as caught:
        stack.up([*objects, config_map("new", "engine-a")])

    assert live(stack.client, "token", kind="Secret") == before
    assert change_of(caught.value.changes, "new").action is Action.CREATE
    assert change_of(caught.value.changes, "old").action is Action.DELETE
    stack.client.delete(before)
    assert change_of(stack.up(objects), "token").action is Action.CREATE


def test_an_object_of_somebody_else_is_skipped_and_all_else_is_applied_and_pruned(stack: Stack) -> None:
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


def test_a_tenants_own_object_with_the_label_of_the_stack_is_not_pruned(stack: Stack) -> None:
    stack.up(PARTS)
    own = config_map("own", "engine-a", {"a": "mine"})["manifest"]
    own["metadata"]["labels"] = {PART_OF: ApplySet(stack.client, stack.name).id}
    as_member(stack.client, own)

    assert {change.key.name for change in stack.preview(PARTS).changes} == {"engine-a", "one", "two", "three"}
    assert stack.up(PARTS).is_empty
    assert live(stack.client, "own")["data"]["a"] == "mine"


def test_an_object_that_was_created_again_and_is_no_longer_declared_is_not_pruned(stack: Stack) -> None:
    stack.up(PARTS)
    recreate(stack.client, config_map("one", "engine-a", {"a": "mine"})["manifest"])

    changes = stack.up([PARTS[0], *PARTS[2:]])

    assert changes.is_empty
    assert live(stack.client, "one")["data"]["a"] == "mine"


def _forget_the_record(stack: Stack) -> None:
    """Write the parent as a release before records wrote it."""
    members = ApplySet(stack.client, stack.name)
    parent = members.read_parent()
    old = Inventory(parent.inventory.group_kinds, parent.inventory.namespaces)
    members.write_parent(old, parent.outputs)


def test_a_deployment_without_a_record_gets_one_and_loses_no_object(stack: Stack) -> None:
    stack.up(PARTS)
    _forget_the_record(stack)
    own = config_map("own", "engine-a", {"a": "mine"})["manifest"]
    own["metadata"]["labels"] = {PART_OF: ApplySet(stack.client, stack.name).id}
    as_member(stack.client, own)
    relabel(stack.client, "one", None)

    changes = stack.up(PARTS[:3])

    assert change_of(changes, "three").action is Action.DELETE
    assert change_of(changes, "one").notices == (f"taken back: its label {PART_OF} was removed",)
    assert live(stack.client, "own")["data"]["a"] == "mine"
    recorded = ApplySet(stack.client, stack.name).read_parent().inventory.recorded
    assert recorded is not None
    assert {key.name: uid for key, uid in recorded.items()} == {
        name: live(stack.client, name, place, kind)["metadata"]["uid"]
        for name, place, kind in (
            ("engine-a", "", "Namespace"),
            ("one", "engine-a", "ConfigMap"),
            ("two", "engine-a", "ConfigMap"),
        )
    }


def test_after_the_parent_was_deleted_labels_and_field_manager_find_the_members(stack: Stack) -> None:
    stack.up(PARTS)
    ApplySet(stack.client, stack.name).delete_parent()

    changes = stack.up(PARTS[:3])

    assert changes.by_kind(Action.DELETE) == {"ConfigMap": 1}
    assert changes.count(Action.UNCHANGED) == 3


def test_a_run_that_failed_has_recorded_what_it_applied(stack: Stack) -> None:
    with pytest.raises(Finding, match="nonsense"):
        stack.up([*PARTS, config_map("wrong", "engine-a", nonsense=True)])
    relabel(stack.client, "one", None)
    recreate(stack.client, config_map("two", "engine-a", {"a": "mine"})["manifest"])

    changes = stack.up(PARTS)

    assert all("taken back" in str(change_of(changes, name).notices) for name in ("one", "two"))


def test_a_large_record_is_split_and_replaced_as_a_whole(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_platform.deploy.embedded.applyset.MAX_RECORD_BYTES", 400)
    many = [namespace("engine-a"), *(config_map(f"part-{index:02}", "engine-a") for index in range(20))]

    def parts() -> set[str]:
        found = stack.client.objects("v1", "ConfigMap", namespace="kube-system")
        return {
            item["metadata"]["name"]
            for item in found
            if "gpu-platform.dev/record-of" in mapping_at(item, "metadata", "labels")
        }

    stack.up(many)
    first = parts()
    changes = stack.up(many[:-1])

    assert len(first) > 3
    assert changes.by_kind(Action.DELETE) == {"ConfigMap": 1}
    assert len(parts()) > 3
    assert parts() != first
    recorded = ApplySet(stack.client, stack.name).read_parent().inventory.recorded
    assert recorded is not None
    assert {key.name for key in recorded} == {"engine-a", *(f"part-{index:02}" for index in range(19))}
    stack.destroy()
    assert parts() == set()


def test_a_part_of_the_record_that_is_gone_is_a_finding_that_says_what_to_do(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_platform.deploy.embedded.applyset.MAX_RECORD_BYTES", 100)
    stack.up(PARTS)
    members = ApplySet(stack.client, stack.name)
    members._delete_parts()

    with pytest.raises(Finding, match=r"held a part of the record .*remove the key members.parts"):
        members.read_parent()

    name = f"gpu-platform-{stack.name}"
    metadata = {"name": name, "namespace": "kube-system"}
    stack.client.merge(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"members.parts": None}}
    )
