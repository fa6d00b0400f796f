"""From the CLI's events, the Pulumi engine derives the same changes that the embedded engine reports."""

from __future__ import annotations

from typing import Any

from pulumi.automation import EngineEvent

from gpu_platform.deploy.changes import Action, Change
from gpu_platform.deploy.pulumi.pulumi_engine import Steps, failed_operations
from gpu_platform.live.objects import ObjectKey


def event(op: str, type_: str, *, custom: bool = True, retain: bool = False, **states: Any) -> EngineEvent:
    def state(inputs: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": type_,
            "urn": "",
            "custom": custom,
            "id": "",
            "parent": "",
            "inputs": inputs,
            "outputs": {},
            "retainOnDelete": retain,
        }

    metadata = {
        "op": op,
        "urn": f"urn:pulumi:local::gpu-platform::gpu-platform:index:TeamNamespace${type_}::it",
        "type": type_,
        "provider": "",
        **{side: state(states[side]) for side in ("old", "new") if side in states},
        "detailedDiff": {path: {"diffKind": "update", "inputDiff": True} for path in states.get("paths", ())},
    }
    return EngineEvent.from_json({"sequence": 1, "timestamp": 1, "resOutputsEvent": {"metadata": metadata}})


def changes(*events: EngineEvent) -> list[Change]:
    steps = Steps()
    for item in events:
        steps(item)
    return steps.changes


def quota(**hard: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpu-quota", "namespace": "vision"},
        "spec": {"hard": hard, "items": [{"a": 1}]},
    }


def test_an_object_has_the_key_that_it_has_in_the_cluster() -> None:
    (change,) = changes(event("create", "kubernetes:core/v1:ResourceQuota", new=quota()))

    assert change == Change(Action.CREATE, ObjectKey("", "ResourceQuota", "vision", "gpu-quota"))


def test_an_object_that_pulumi_leaves_in_the_cluster_is_retained_not_deleted() -> None:
    left = changes(event("delete", "kubernetes:core/v1:ResourceQuota", old=quota(), retain=True))
    gone = changes(event("delete", "kubernetes:core/v1:ResourceQuota", old=quota()))

    assert [change.action for change in (*left, *gone)] == [Action.RETAIN, Action.DELETE]


def test_a_resource_of_a_cloud_has_its_type_and_name() -> None:
    (change,) = changes(event("same", "aws:eks/cluster:Cluster", new={}, old={}))

    assert change == Change(Action.UNCHANGED, ObjectKey("", "aws:eks/cluster:Cluster", "", "it"))


def test_what_exists_in_pulumi_only_is_not_counted() -> None:
    assert not changes(
        event("create", "pulumi:pulumi:Stack", custom=False, new={}),
        event("create", "gpu-platform:index:TeamNamespace", custom=False, new={}),
        event("create", "pulumi:providers:kubernetes", new={}),
        event("read", "pulumi:pulumi:StackReference", new={}),
    )


def test_objects_are_replaced_on_one_cluster_if_the_state_lacks_its_identity() -> None:
    type_ = "pulumi:providers:kubernetes"

    def replaced(old: dict[str, Any], new: dict[str, Any], op: str = "replace", type_: str = type_) -> bool:
        steps = Steps()
        steps(event(op, type_, old=old, new=new))
        return steps.replaces_objects_of_one_cluster

    first, second = {"clusterIdentifier": "a"}, {"clusterIdentifier": "b"}
    assert replaced({"context": "dev"}, {"context": "dev-2", **first})
    assert not replaced(first, second)  # another cluster
    assert not replaced({"context": "dev"}, {"context": "dev-2"})  # the provider that reads the cluster's identity
    assert not replaced({"context": "dev"}, {"context": "dev", **first}, "update")
    assert not replaced({}, first, type_="pulumi:providers:aws")


def test_a_replacement_is_one_change_and_not_three() -> None:
    old, new = quota(pods="1"), quota(pods="2")
    type_ = "kubernetes:core/v1:ResourceQuota"

    found = changes(
        event("create-replacement", type_, new=new, old=old),
        event("replace", type_, new=new, old=old),
        event("delete-replaced", type_, old=old),
    )
    assert [change.action for change in found] == [Action.REPLACE]


def test_a_deleted_object_is_described_by_its_old_state() -> None:
    (change,) = changes(event("delete", "kubernetes:core/v1:ResourceQuota", old=quota()))

    assert (change.action, change.key.name) == (Action.DELETE, "gpu-quota")


def test_changed_fields_are_read_by_their_paths() -> None:
    old = quota(**{"requests.nvidia.com/gpu": "8", "pods": "1"})
    new = quota(**{"requests.nvidia.com/gpu": "4"})
    paths = ['spec.hard["requests.nvidia.com/gpu"]', "spec.hard.pods", "spec.items[0].a", "spec.items[7].a"]

    (change,) = changes(event("update", "kubernetes:core/v1:ResourceQuota", old=old, new=new, paths=paths))

    assert [str(field) for field in change.fields] == [
        'spec.hard["requests.nvidia.com/gpu"]: "8" → "4"',
        'spec.hard.pods: "1" → (not set)',
        "spec.items[0].a: 1 → 1",
        "spec.items[7].a: (not set) → (not set)",
    ]


def test_only_creations_that_failed_for_good_are_repeated() -> None:
    def failed(type_: str, *errors: str) -> tuple[str, ...]:
        operations = failed_operations([{"type": type_, "urn": "it", "initErrors": list(errors)}])
        return (*operations.releases, *operations.creations)

    group, pool, release = "aws:eks/nodeGroup:NodeGroup", "gcp:container/nodePool:NodePool", "helm.sh/v3:Release"
    assert failed(group, "unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'") == ("it",)
    assert failed(pool, 'NodePool train was created in the error state "ERROR"') == ("it",)
    assert failed(f"kubernetes:{release}", "failed") == ("it",)
    assert not failed(pool, 'NodePool train was created in the error state "RUNNING_WITH_ERROR"')
    assert not failed(group, "timeout while waiting for state to become 'ACTIVE' (last state: 'CREATING')")
    assert not failed("aws:ec2/instance:Instance", "unexpected state 'CREATE_FAILED'")
    assert not failed(group)


def test_only_agent_pools_whose_creation_azure_ended_are_repeated() -> None:
    def failed(error: str) -> tuple[str, ...]:
        type_ = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
        return failed_operations([{"type": type_, "urn": "it", "initErrors": [error]}]).creations

    pool = 'Agent Pool (Subscription: "s"\nResource Group Name: "ml"\nAgent Pool Name: "train")'
    polling = f"{pool}: polling after CreateOrUpdate"
    assert failed(f"creating {polling}: polling failed: the Azure API returned AllocationFailed") == ("it",)
    assert not failed(f"creating {polling}: context deadline exceeded")
    assert not failed(f"updating Node Pool {polling}: polling failed: the Azure API returned PodDrainFailure")
