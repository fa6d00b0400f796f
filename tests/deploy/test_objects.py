"""The objects that the embedded engine reads from a program, the resources that it refuses, and its diffs."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.deploy.changes import Action, Change, Changes, field_changes
from gpu_platform.deploy.embedded.applyset import ApplySet, Inventory
from gpu_platform.deploy.recorded.objects import only_pulumi_can_deploy
from gpu_platform.deploy.recorded.record import ResourceRecord
from gpu_platform.live.objects import ObjectKey, object_key


def registered(type_: str, inputs: dict[str, Any] | None = None, **fields: Any) -> ResourceRecord:
    fields = {"custom": True, "name": "it", **fields}
    urn = f"urn:pulumi:s::p::{type_}::{fields['name']}"
    return ResourceRecord(urn=urn, type=type_, inputs=inputs or {}, **fields)


def config_map(object_name: str, **fields: Any) -> ResourceRecord:
    inputs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": object_name, "namespace": "default"}}
    return registered("kubernetes:core/v1:ConfigMap", inputs, **fields)


@pytest.mark.parametrize(
    "record",
    [
        registered("aws:eks/cluster:Cluster"),
        registered("pulumi:providers:aws"),
        registered("kubernetes:helm.sh/v3:Release", {"chart": "gpu-operator"}),
        registered("kubernetes:helm.sh/v4:Chart", custom=False),
        registered("kubernetes:yaml/v2:ConfigFile", custom=False),
        registered("kubernetes:yaml:ConfigFile", custom=False),
        registered("kubernetes:core/v1:NodePatch", {"apiVersion": "v1", "kind": "Node"}),
        config_map("read", external=True),
    ],
    ids=lambda record: record.type,
)
def test_other_resources_are_refused_with_a_hint_at_the_pulumi_cli(record: ResourceRecord) -> None:
    (problem,) = only_pulumi_can_deploy([record])

    assert problem.found == record.type
    assert "Pulumi CLI" in problem.fix


@pytest.mark.parametrize(
    "record",
    [
        config_map("a"),
        registered("pulumi:pulumi:Stack", custom=False),
        registered("pulumi:pulumi:StackReference", external=True),
        registered("pulumi:providers:kubernetes"),
        registered("gpu-platform:index:NodePool", custom=False),
    ],
    ids=lambda record: record.type,
)
def test_objects_and_what_exists_in_pulumi_only_are_accepted(record: ResourceRecord) -> None:
    assert only_pulumi_can_deploy([record]) == ()


def test_the_resources_of_each_cloud_are_one_problem() -> None:
    kinds = ("ec2/vpc:Vpc", "ec2/subnet:Subnet", "eks/cluster:Cluster", "iam/role:Role", "kms/key:Key")
    cloud = [registered(f"aws:{kind}", name=f"{kind}-{index}") for kind in kinds for index in range(9)]

    aws, gcp = only_pulumi_can_deploy(
        [registered("pulumi:providers:aws"), *cloud, registered("gcp:compute/network:Network")]
    )
    assert aws.path == "46 resources of aws"
    assert aws.found == (
        "aws:ec2/subnet:Subnet, aws:ec2/vpc:Vpc, aws:eks/cluster:Cluster, aws:iam/role:Role and 1 more"
    )
    assert "Pulumi CLI" in aws.fix
    assert gcp.found == "gcp:compute/network:Network"


def test_an_object_without_a_name_is_refused() -> None:
    inputs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default"}}

    (problem,) = only_pulumi_can_deploy([registered("kubernetes:core/v1:ConfigMap", inputs)])
    assert problem.found == "a ConfigMap without metadata.name"


def test_two_resources_that_are_one_object_are_refused() -> None:
    (problem,) = only_pulumi_can_deploy([config_map("a", name="first"), config_map("a", name="second")])

    assert (problem.path, "resource 'first'" in problem.found) == ("resource 'second'", True)


def test_a_key_leaves_the_version_out() -> None:
    metadata = {"name": "a", "namespace": "b"}
    keys = {
        object_key({"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "LocalQueue", "metadata": metadata})
        for version in ("v1beta1", "v1beta2")
    }

    assert keys == {ObjectKey("kueue.x-k8s.io", "LocalQueue", "b", "a")}


def test_the_id_of_an_apply_set_follows_its_specification() -> None:
    # id: printf PARENT.kube-system.ConfigMap. | openssl dgst -sha256 -binary | basenc --base64url | tr -d =
    members = ApplySet(None, "local")  # pyrefly: ignore[bad-argument-type]  # the test sends no requests

    assert members.id == "applyset-_lsSl2ritDv8Nlz8lMSbuYa157oDGaN-wzcfJXgCQms-v1"


def test_stacks_whose_names_dns_cannot_tell_apart_are_different_sets() -> None:
    names = ("Local", "local", "local_1", "local-1")

    assert len({ApplySet(None, name).id for name in names}) == len(names)  # pyrefly: ignore[bad-argument-type]


def test_an_inventory_names_kinds_with_their_groups_and_all_namespaces() -> None:
    keys = [
        ObjectKey("apps", "DaemonSet", "a", "x"),
        ObjectKey("", "Node", "", "n"),
        ObjectKey("", "Pod", "b", "p"),
    ]

    assert Inventory.of(keys) == Inventory(frozenset({"DaemonSet.apps", "Node", "Pod"}), frozenset({"a", "b"}))
    assert Inventory().with_kinds_of(keys) == Inventory.of(keys)


# -- comparing --------------------------------------------------------------------------------------------


def held(fields: dict[str, Any], **content: Any) -> dict[str, Any]:
    entry = {"manager": "gpu-platform", "operation": "Apply", "fieldsV1": fields}
    return {"metadata": {"managedFields": [entry]}, **content}


def paths(declared: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [str(change) for change in field_changes(declared, before, after)]


def test_only_declared_fields_count() -> None:
    declared = {"spec": {"a": 1}}

    assert paths(declared, held({}, spec={"a": 1, "b": 1}), held({}, spec={"a": 1, "b": 2})) == []
    assert paths(declared, held({}, spec={"a": 1}), held({}, spec={"a": 2})) == ["spec.a: 1 → 2"]


def test_a_key_with_dots_is_written_in_brackets() -> None:
    declared = {"labels": {"nvidia.com/gpu": "x"}}

    assert paths(declared, held({}, labels={}), held({}, labels={"nvidia.com/gpu": "x"})) == [
        'labels[nvidia.com/gpu]: (not set) → "x"'
    ]


def test_items_with_names_are_compared_by_name_and_others_as_a_whole() -> None:
    declared = {"env": [{"name": "A", "value": "2"}, {"name": "B", "value": "1"}], "args": ["x", "y"]}
    before = held({}, env=[{"name": "B", "value": "1"}, {"name": "A", "value": "1"}], args=["x"])

    assert paths(declared, before, held({}, **declared)) == ['env[A].value: "1" → "2"', 'args: ["x"] → ["x", "y"]']


def test_a_field_that_was_owned_and_no_longer_is_is_a_removal() -> None:
    before = held(
        {
            "f:data": {"f:kept": {}, "f:gone": {}},
            "f:items": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:value": {}}, 'k:{"name":"b"}': {".": {}}},
            "f:set": {'v:"x"': {}, 'v:"y"': {}},
        },
        data={"kept": "1", "gone": "2", "theirs": "3"},
        items=[{"name": "a", "value": 1}, {"name": "b"}],
        set=["x", "y"],
    )
    after = held(
        {"f:data": {"f:kept": {}}, "f:items": {'k:{"name":"b"}': {".": {}}}, "f:set": {'v:"x"': {}}},
        data={"kept": "1", "theirs": "3"},
        items=[{"name": "b"}],
        set=["x"],
    )

    assert paths({}, before, after) == [
        'data.gone: "2" → (not set)',
        'items[a]: {"name": "a", "value": 1} → (not set)',
        'set["y"]: "y" → (not set)',
    ]


def test_a_released_field_that_another_manager_owns_is_no_change() -> None:
    before = held({"f:data": {"f:shared": {}}}, data={"shared": "1"})

    assert paths({}, before, held({}, data={"shared": "1"})) == []


def test_the_values_of_secrets_are_hidden_but_not_their_paths() -> None:
    before, after = held({}, data={"t": "old"}), held({}, data={"t": "new"})

    (change,) = field_changes({"data": {"t": "new"}}, before, after, secret=True)
    assert str(change) == 'data.t: "[secret]" → "[secret]"'


def test_changes_are_counted_by_action_and_kind() -> None:
    def key(name: str) -> ObjectKey:
        return ObjectKey("", "Node", "", name)

    changes = Changes("local", (Change(Action.CREATE, key("a")), Change(Action.UNCHANGED, key("b"))))

    assert not changes.is_empty
    report = changes.to_json()
    assert report["counts"] == {
        "create": 1,
        "update": 0,
        "replace": 0,
        "delete": 0,
        "retain": 0,
        "skip": 0,
        "unchanged": 1,
    }
    assert report["kinds"]["create"] == {"Node": 1}
    assert [change["name"] for change in report["changes"]] == ["a"]
