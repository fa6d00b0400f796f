"""Permissions that somebody changed manually are detected and restored. Pulumi itself does not restore them."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.deploy.pulumi.access import changed_access, restore_access
from gpu_platform.deploy.recorded.objects import KubernetesObject
from gpu_platform.deploy.recorded.record import ResourceRecord
from gpu_platform.live.objects import ObjectKey, object_key
from tests.deploy.conftest import Objects, Stack, namespace

pytestmark = pytest.mark.xdist_group("sandbox-engine-drift")

RBAC = "rbac.authorization.k8s.io"
PLACE = "engine-a"
GROUP = {"kind": "Group", "name": "vision", "apiGroup": RBAC}
EVIL = {"kind": "User", "name": "eve", "apiGroup": RBAC}
ROLE = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "members", "namespace": PLACE}}
BINDING = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "members", "namespace": PLACE},
    "roleRef": {"kind": "Role", "name": "members", "apiGroup": RBAC},
}
POLICY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "closed", "namespace": PLACE},
}
READ = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
CLOSED = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": [{"ports": [{"port": 53}]}]}
# Each case contains the object, the declared permissions, and the permissions that somebody sets.
CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (BINDING, {"subjects": [GROUP]}, {"subjects": [GROUP, EVIL]}),
    (BINDING, {}, {"subjects": [EVIL]}),
    (ROLE, {"rules": [READ]}, {"rules": [READ, ALL]}),
    (POLICY, {"spec": CLOSED}, {"spec": {**CLOSED, "ingress": [{}]}}),
    (POLICY, {"spec": CLOSED}, {"spec": {**CLOSED, "egress": [{}]}}),
]


def declared(manifest: dict[str, Any]) -> KubernetesObject:
    record = ResourceRecord(urn="a", type="kubernetes:a:A", name="a", custom=True, inputs=manifest)
    return KubernetesObject(object_key(manifest), manifest["apiVersion"], manifest, record)


def kinds(case: tuple[dict[str, Any], Any, Any]) -> str:
    return f"{case[0]['kind']}-{'-'.join(case[1])}"


@pytest.mark.parametrize("case", CASES, ids=kinds)
def test_access_that_somebody_added_is_named_and_taken_back(
    stack: Stack, case: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
) -> None:
    base, ours, theirs = case
    manifest = {**base, **ours}
    objects: Objects = [namespace(PLACE), {"manifest": manifest}]
    stack.up(objects)
    assert changed_access(stack.client, [declared(manifest)]) == ()

    stack.client.merge({**base, **theirs})
    [found] = changed_access(stack.client, [declared(manifest)])
    assert (found.key, [field.path for field in found.fields]) == (object_key(manifest), list(theirs))

    assert restore_access(stack.client, [declared(manifest)]) == (found,)
    assert changed_access(stack.client, [declared(manifest)]) == ()


def test_rules_of_an_aggregated_role_are_not_reported_as_changes(stack: Stack) -> None:
    manifest = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "engine-gathered"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"engine-gathered": "true"}}]},
    }
    part = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "engine-part", "labels": {"engine-gathered": "true"}},
        "rules": [READ],
    }
    stack.up([{"manifest": part}, {"manifest": manifest}])
    assert changed_access(stack.client, [declared(manifest)]) == ()


def test_objects_without_access_or_not_existing_are_skipped(stack: Stack) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a", "namespace": PLACE}}
    assert changed_access(stack.client, [declared(quota), declared({**BINDING, "subjects": [GROUP]})]) == ()
    assert declared(quota).key == ObjectKey("", "ResourceQuota", PLACE, "a")
