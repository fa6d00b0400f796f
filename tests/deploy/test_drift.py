"""Fields that others add to declared objects are reported. They are removed if they grant access."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.deploy.changes import Action, Change
from tests.deploy.conftest import Objects, Stack, namespace, workload

# A separate group, so that these tests run in parallel with the other tests of the folder.
pytestmark = pytest.mark.xdist_group("sandbox-engine-drift")

RBAC = "rbac.authorization.k8s.io"


def deployment() -> dict[str, Any]:
    web = workload("Deployment", "web", "engine-a")
    web["manifest"]["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
    return web


def service() -> dict[str, Any]:
    ports = [{"name": "http", "port": 80}]
    return plain("v1", "Service", "web", spec={"selector": {"app": "web"}, "ports": ports})


def quota() -> dict[str, Any]:
    return plain("v1", "ResourceQuota", "quota", spec={"hard": {"requests.nvidia.com/gpu": "4"}})


def policy() -> dict[str, Any]:
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    return plain("networking.k8s.io/v1", "NetworkPolicy", "closed", spec=spec)


def binding() -> dict[str, Any]:
    return plain(
        f"{RBAC}/v1", "RoleBinding", "members", roleRef={"apiGroup": RBAC, "kind": "Role", "name": "edit"}
    )


def plain(api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "engine-a"}
    return {"manifest": {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}}


def edited(stack: Stack, declared: dict[str, Any], **fields: Any) -> None:
    """Apply fields in the same way as a person who runs `kubectl apply --server-side`."""
    manifest = declared["manifest"]
    head = {key: manifest[key] for key in ("apiVersion", "kind")}
    metadata = {key: manifest["metadata"][key] for key in ("name", "namespace")}
    stack.client.apply({**head, "metadata": metadata, **fields}, manager="kubectl")


def notices(stack: Stack, objects: Objects) -> tuple[Change, tuple[str, ...]]:
    """Deploy the objects. Return the change to the last object and its notices, which `preview` reports too."""
    announced, made = stack.preview(objects).changes[-1], stack.up(objects).changes[-1]
    assert (announced.action, announced.notices) == (made.action, made.notices)
    return made, made.notices


EXTRA = [{"name": "extra", "image": "miner:1"}]


@pytest.mark.parametrize(
    ("declared", "fields", "place"),
    [
        (deployment(), {"containers": EXTRA}, "spec.template.spec.containers[extra]"),
        (deployment(), {"initContainers": EXTRA}, "spec.template.spec.initContainers[extra]"),
        (
            deployment(),
            {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
            "spec.template.spec.volumes[host]",
        ),
        (deployment(), {"hostNetwork": True}, "spec.template.spec.hostNetwork"),
        (
            deployment(),
            {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]},
            "spec.template.spec.containers[main].env[A]",
        ),
        (service(), {"spec": {"ports": [{"name": "more", "port": 81}]}}, "spec.ports[81,TCP]"),
        (quota(), {"spec": {"hard": {"pods": "1"}}}, "spec.hard.pods"),
    ],
)
def test_what_somebody_added_is_reported_by_its_path_and_stays(
    stack: Stack, declared: dict[str, Any], fields: dict[str, Any], place: str
) -> None:
    objects = [namespace("engine-a"), declared]
    stack.up(objects)
    manifest = declared["manifest"]
    pod = fields if "spec" in fields else {"spec": {"template": {"spec": fields}}}
    edited(stack, declared, **pod)

    for _ in range(2):
        change, said = notices(stack, objects)
        assert (change.action, said) == (Action.UNCHANGED, (f"changed by kubectl: {place}",))
    assert stack.preview(objects).to_json()["changes"][0]["notices"] == [f"changed by kubectl: {place}"]
    edited(stack, declared)  # removes the field that kubectl added
    assert notices(stack, objects)[1] == ()
    assert manifest == declared["manifest"]


@pytest.mark.parametrize(
    ("declared", "fields", "place"),
    [
        (binding(), {"subjects": [{"kind": "User", "name": "eve", "apiGroup": RBAC}]}, "subjects"),
        (policy(), {"spec": {"egress": [{}]}}, "spec.egress"),
    ],
)
def test_an_addition_that_grants_access_is_reported_and_removed(
    stack: Stack, declared: dict[str, Any], fields: dict[str, Any], place: str
) -> None:
    if declared["manifest"]["kind"] == "RoleBinding":
        edited_fields = {**fields, "roleRef": declared["manifest"]["roleRef"]}
    else:
        edited_fields = {"spec": {"podSelector": {}, **fields["spec"]}}
    objects = [namespace("engine-a"), declared]
    stack.up(objects)
    edited(stack, declared, **edited_fields)

    change, said = notices(stack, objects)

    (notice,) = said
    assert change.action is Action.UPDATE
    assert notice == f"changed by kubectl: {place}; `up` removes it, because it grants access"
    change, said = notices(stack, objects)
    assert (change.action, said) == (Action.UNCHANGED, ())
    manifest = declared["manifest"]
    live = stack.client.get(manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"], "engine-a")
    assert live is not None
    assert not live.get("subjects")
    assert not live.get("spec", {}).get("egress")


def test_scaling_restarting_and_defaults_are_no_drift(stack: Stack) -> None:
    objects = [namespace("engine-a"), deployment()]
    stack.up(objects)
    restarted = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    edited(stack, objects[1], spec={"replicas": 3, "template": {"metadata": {"annotations": restarted}}})

    change, said = notices(stack, objects)

    assert (change.action, said) == (Action.UNCHANGED, ())
