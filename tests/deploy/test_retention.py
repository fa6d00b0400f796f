"""Objects of any kind that members created in a namespace are found. They decide whether the namespace is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.base.progress import Progress
from gpu_platform.deploy.changes import Action, Change, Changes
from gpu_platform.deploy.retention.kept_namespaces import (
    delete_released,
    is_of_platform,
    may_be_adopted,
    settle,
    team_namespaces,
)
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.contents import Contents, VolumeClaim, namespace_contents
from gpu_platform.live.objects import ObjectKey, object_key
from sandbox.control_plane import Status
from tests.deploy.conftest import Stack, config_map, workload
from tests.support.eventually import eventually
from tests.support.terminating import finalized_at_once

PLACE = "engine-team"
ADMISSION = "admissionregistration.k8s.io/v1"
QUIET = Progress(quiet=True)


@pytest.fixture
def team(sandbox: Status, client: KubernetesClient) -> Iterator[dict[str, Any]]:
    """A team namespace in the state that Pulumi leaves behind, with a quota and a policy."""
    labels = {names.TEAM_LABEL: PLACE, names.STACK_LABEL: "engine-pulumi"}
    live = client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE, "labels": labels}})
    hard = {"requests.nvidia.com/gpu": "4", "requests.cpu": "8", "pods": "10"}
    metadata = {"name": "gpu-quota", "namespace": PLACE}
    client.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    metadata = {"name": "default-deny", "namespace": PLACE}
    client.create(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata,
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
        }
    )
    for policy in policies():
        client.create(policy)
    yield live
    for policy in live_policies(client):
        client.delete(policy)
    with finalized_at_once(sandbox.kubeconfig):
        if (found := client.get("v1", "Namespace", PLACE)) is not None:
            client.delete(found)
        eventually(lambda: client.get("v1", "Namespace", PLACE) is None)


def policies(place: str = PLACE) -> list[dict[str, Any]]:
    """Return an admission policy of the team and its binding, which are cluster-scoped."""
    metadata = {"name": f"services-of-{place}", "labels": {names.TEAM_LABEL: place}}
    services = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": place}}
    policy = {
        "matchConstraints": {"namespaceSelector": selector, "resourceRules": [services]},
        "validations": [{"expression": "!has(object.spec.externalIPs)"}],
    }
    binding = {"policyName": f"services-of-{place}", "validationActions": ["Deny"]}
    return [
        {"apiVersion": ADMISSION, "kind": kind, "metadata": metadata, "spec": spec}
        for kind, spec in (
            ("ValidatingAdmissionPolicy", policy),
            ("ValidatingAdmissionPolicyBinding", binding),
        )
    ]


def live_policies(client: KubernetesClient, place: str = PLACE) -> list[dict[str, Any]]:
    found = [client.get(ADMISSION, one["kind"], one["metadata"]["name"]) for one in policies(place)]
    return [live for live in found if live is not None]


def made(client: KubernetesClient) -> dict[str, Any]:
    return client.create(config_map("notes", PLACE)["manifest"])


def labels(client: KubernetesClient, kind: str, name: str, namespace: str = PLACE) -> dict[str, str]:
    version = "networking.k8s.io/v1" if kind == "NetworkPolicy" else "v1"
    live = client.get(version, kind, name, "" if kind == "Namespace" else namespace)
    assert live is not None
    return live["metadata"].get("labels", {})


def test_objects_of_every_kind_but_not_their_children_are_found(
    client: KubernetesClient, team: dict[str, Any]
) -> None:
    group = "engine.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    client.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"experiments.{group}"},
            "spec": {
                "group": group,
                "names": {"kind": "Experiment", "plural": "experiments"},
                "scope": "Namespaced",
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                ],
            },
        }
    )
    try:
        eventually(lambda: client.find_resource(f"{group}/v1", "Experiment") is not None)
        experiment = {
            "apiVersion": f"{group}/v1",
            "kind": "Experiment",
            "metadata": {"name": "a", "namespace": PLACE},
        }
        client.create(experiment)
        client.create(workload("Deployment", "web", PLACE, replicas=2)["manifest"])
        eventually(lambda: len(list(client.objects("apps/v1", "ReplicaSet", namespace=PLACE))) == 1)

        found = namespace_contents(client, PLACE)

        assert dict(found.kinds) == {"Deployment.apps": 1, f"Experiment.{group}": 1}
    finally:
        definition = client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"experiments.{group}")
        assert definition is not None
        client.delete(definition)


def test_a_stateful_sets_claim_is_listed_because_it_contains_data() -> None:
    def owned(kind: str, name: str, **rest: Any) -> dict[str, Any]:
        owner = {"uid": "set", "kind": "StatefulSet", "name": "db", "controller": True}
        metadata = {"name": name, "namespace": PLACE, "uid": name, "ownerReferences": [owner]}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **rest}

    stateful_set = {"apiVersion": "v1", "kind": "StatefulSet", "metadata": {"name": "db", "uid": "set"}}
    claim = owned("PersistentVolumeClaim", "data-db-0", spec={"resources": {"requests": {"storage": "5Gi"}}})
    listed: list[dict[str, Any]] = [stateful_set, claim, owned("ConfigMap", "derived")]

    class Client:
        """A fake cluster with the objects of `listed` in the namespace."""

        def api_versions(self) -> tuple[str, ...]:
            return ("v1",)

        def namespaced_kinds(self, api_version: str) -> tuple[str, ...]:
            return tuple(one["kind"] for one in listed)

        def objects(self, api_version: str, kind: str, *, namespace: str) -> list[dict[str, Any]]:
            return [one for one in listed if one["kind"] == kind]

    found = namespace_contents(Client(), PLACE)  # pyrefly: ignore[bad-argument-type]

    assert [key["name"] for key in found.to_json()["objects"]] == ["data-db-0", "db"]
    assert [(one.name, one.size) for one in found.claims] == [("data-db-0", "5Gi")]


@pytest.mark.parametrize(
    ("driver", "fate"),
    [
        ("ebs.csi.aws.com", "volume pvc-1 is deleted with the claim)"),
        ("efs.csi.aws.com", "volume pvc-1 is deleted with the claim, but its files stay on the file system)"),
    ],
)
def test_files_of_a_deleted_efs_claim_are_listed_as_kept(driver: str, fate: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": PLACE, "uid": "claim"},
        "spec": {"resources": {"requests": {"storage": "5Gi"}}, "volumeName": "pvc-1"},
        "status": {"phase": "Bound"},
    }
    volume = {"spec": {"persistentVolumeReclaimPolicy": "Delete", "csi": {"driver": driver}}}

    class Client:
        """A fake cluster with a claim and its volume."""

        def api_versions(self) -> tuple[str, ...]:
            return ("v1",)

        def namespaced_kinds(self, api_version: str) -> tuple[str, ...]:
            return ("PersistentVolumeClaim",)

        def objects(self, api_version: str, kind: str, *, namespace: str) -> list[dict[str, Any]]:
            return [claim]

        def get(self, api_version: str, kind: str, name: str) -> dict[str, Any]:
            return volume

    found = namespace_contents(Client(), PLACE)  # pyrefly: ignore[bad-argument-type]
    assert str(found.claims[0]) == f"data (5Gi, {fate}"


def test_a_kind_that_cannot_be_listed_keeps_a_namespace() -> None:
    class Client:
        """A fake cluster with an API group whose server does not respond."""

        def api_versions(self) -> tuple[str, ...]:
            return ("broken.example.com/v1",)

        def namespaced_kinds(self, api_version: str) -> tuple[str, ...]:
            raise Refused(f"looking for {api_version}", 503, "ServiceUnavailable", "the server is unavailable")

    found = namespace_contents(Client(), PLACE)  # pyrefly: ignore[bad-argument-type]

    assert not found.is_empty
    assert str(found) == "objects that could not be listed"


def test_an_object_of_the_embedded_engine_is_the_platforms(stack: Stack) -> None:
    stack.up([config_map("engine-own", "default")])
    own = stack.client.get("v1", "ConfigMap", "engine-own", "default")
    root = stack.client.get("v1", "ConfigMap", "kube-root-ca.crt", "default")
    assert own is not None
    assert root is not None
    assert [is_of_platform(own), is_of_platform(root)] == [True, False]


def test_a_namespace_that_pulumi_left_is_marked_and_gets_no_gpu_pods(
    client: KubernetesClient, team: dict[str, Any]
) -> None:
    made(client)
    [left] = settle(client, "engine-pulumi", (), QUIET)

    assert left.name == PLACE
    [found] = [each for each in team_namespaces(client) if each.name == PLACE]
    assert found.is_retained
    assert found.retained_from == "engine-pulumi"
    quota = client.get("v1", "ResourceQuota", names.RETAINED_QUOTA, PLACE)
    assert quota is not None
    assert quota["spec"]["hard"] == {"requests.nvidia.com/gpu": "0"}
    assert names.RETAINED_LABEL in labels(client, "NetworkPolicy", "default-deny")
    assert [names.RETAINED_LABEL in live["metadata"]["labels"] for live in live_policies(client)] == [True, True]
    assert settle(client, "engine-pulumi", (), QUIET) == ()


def test_policies_are_adopted_only_with_their_retained_namespace(
    client: KubernetesClient, team: dict[str, Any]
) -> None:
    assert {may_be_adopted(client, live, "engine-pulumi") for live in live_policies(client)} == {False}
    made(client)
    settle(client, "engine-pulumi", (), QUIET)

    assert {may_be_adopted(client, live, "engine-pulumi") for live in live_policies(client)} == {True}
    for live in live_policies(client):
        assert "retained from stack 'engine-pulumi'" in str(may_be_adopted(client, live, "engine-other"))
    # The labels have no effect on an object that does not belong to the platform.
    note = config_map("mine", PLACE)["manifest"]
    note["metadata"]["labels"] = {names.RETAINED_LABEL: "true", names.TEAM_LABEL: PLACE}
    assert may_be_adopted(client, note, "engine-pulumi") is False


def test_a_returned_team_has_no_mark_left(client: KubernetesClient, team: dict[str, Any]) -> None:
    made(client)
    settle(client, "engine-pulumi", (), QUIET)

    settle(client, "engine-pulumi", [PLACE], QUIET)

    assert names.RETAINED_LABEL not in labels(client, "Namespace", PLACE)
    assert names.RETAINED_LABEL not in labels(client, "NetworkPolicy", "default-deny")
    assert client.get("v1", "ResourceQuota", names.RETAINED_QUOTA, PLACE) is None
    assert client.get("v1", "ResourceQuota", "gpu-quota", PLACE) is not None
    assert [names.RETAINED_LABEL in live["metadata"]["labels"] for live in live_policies(client)] == [False, False]


def test_what_pulumi_left_behind_of_a_team_that_stays_is_deleted(
    client: KubernetesClient, team: dict[str, Any]
) -> None:
    left = [
        ObjectKey("networking.k8s.io", "NetworkPolicy", PLACE, "default-deny"),
        ObjectKey("", "ResourceQuota", PLACE, "gpu-quota"),
        *(object_key(policy) for policy in policies()),
    ]
    namespace = Change(Action.RETAIN, object_key(team))
    changes = Changes("engine-pulumi", (namespace, *(Change(Action.RETAIN, key) for key in left)))

    assert delete_released(client, changes, ()) == changes
    deleted = delete_released(client, changes, [PLACE], dry_run=True)
    assert deleted.changes == (namespace, *(Change(Action.DELETE, key) for key in left))
    assert labels(client, "NetworkPolicy", "default-deny") == {}

    assert delete_released(client, changes, [PLACE]) == deleted
    assert client.get("networking.k8s.io/v1", "NetworkPolicy", "default-deny", PLACE) is None
    assert client.get("v1", "ResourceQuota", "gpu-quota", PLACE) is None
    assert live_policies(client) == []
    assert client.get("v1", "Namespace", PLACE) is not None


def test_an_object_that_another_resource_of_the_stack_declares_is_not_deleted(
    client: KubernetesClient, team: dict[str, Any]
) -> None:
    policy = ObjectKey("networking.k8s.io", "NetworkPolicy", PLACE, "default-deny")
    renamed = Changes("engine-pulumi", (Change(Action.CREATE, policy), Change(Action.RETAIN, policy)))

    assert delete_released(client, renamed, [PLACE]) == renamed
    assert client.get("networking.k8s.io/v1", "NetworkPolicy", "default-deny", PLACE) is not None


def test_an_empty_namespace_that_pulumi_left_is_deleted(client: KubernetesClient, team: dict[str, Any]) -> None:
    assert settle(client, "engine-pulumi", (), QUIET) == ()
    assert client.get("v1", "Namespace", PLACE) is None
    assert live_policies(client) == []


def test_the_namespaces_of_another_stack_are_not_changed(client: KubernetesClient, team: dict[str, Any]) -> None:
    settle(client, "engine-other", (), QUIET)
    assert names.RETAINED_LABEL not in labels(client, "Namespace", PLACE)


def test_a_retention_that_was_interrupted_is_finished_by_the_next_run(
    stack: Stack, client: KubernetesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = {"name": PLACE, "labels": {names.TEAM_LABEL: PLACE, names.STACK_LABEL: stack.name}}
    place: dict[str, Any] = {"manifest": {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}}
    policy: dict[str, Any] = {
        "manifest": {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "default-deny", "namespace": PLACE},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
        }
    }
    stack.up([place, policy])
    made(client)
    whole = type(client).merge

    def interrupted(self: KubernetesClient, manifest: dict[str, Any]) -> dict[str, Any]:
        if manifest["kind"] == "Namespace":
            raise KeyboardInterrupt
        return whole(self, manifest)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(type(client), "merge", interrupted)
            with pytest.raises(KeyboardInterrupt):
                stack.up([])
        assert names.RETAINED_LABEL not in labels(client, "Namespace", PLACE)

        stack.up([])

        assert names.RETAINED_LABEL in labels(client, "Namespace", PLACE)
        assert names.RETAINED_LABEL in labels(client, "NetworkPolicy", "default-deny")
        assert client.get("v1", "ConfigMap", "notes", PLACE) is not None
        stack.up([place, policy])
        assert names.RETAINED_LABEL not in labels(client, "NetworkPolicy", "default-deny")
    finally:
        if (live := client.get("v1", "Namespace", PLACE)) is not None:
            client.delete(live)
        eventually(lambda: client.get("v1", "Namespace", PLACE) is None)


def test_the_summary_counts_kinds_and_adds_up_sizes() -> None:
    def live(kind: str, name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}

    found = Contents(
        PLACE,
        objects=tuple(live("PersistentVolumeClaim", name) for name in "ab"),
        claims=(VolumeClaim("a", "1536Gi"), VolumeClaim("b", "512Gi")),
        pods=3,
        gpus={"nvidia.com/gpu": 8},
    )
    assert str(found) == "2 volume claims (2 TiB), 3 pods (8 nvidia.com/gpu)"
