"""The table of immutable fields agrees with the API server."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from components._immutable_fields import IMMUTABLE_FIELDS
from gpu_platform.live.client import KubernetesClient, Refused
from sandbox.control_plane import Status

# These tests are in a separate xdist group, because other tests create the same namespaces.
pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-built-in")]

POD = {
    "metadata": {"labels": {"app": "one"}},
    "spec": {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Always"},
}
CLAIM = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}]}}
TWO_DEVICES = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]}
}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
CLASS = {
    "provisioner": "example.com/disk",
    "parameters": {"type": "fast"},
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
}
VOLUME = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteMany"],
    "nfs": {"server": "192.0.2.1", "path": "/"},
}
BUCKET = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteMany"],
    "csi": {"driver": "s3.csi.aws.com", "volumeHandle": "one", "volumeAttributes": {"prefix": "corpus/"}},
}
ONCE = {**POD, "spec": {**POD["spec"], "restartPolicy": "Never"}}

# Each case has the API version, the kind, the object's other fields, and the changed field's path and new value.
Case = tuple[str, str, Mapping[str, Any], Mapping[str, Any]]
REFUSED: list[Case] = [
    ("apps/v1", "DaemonSet", {"spec": {"selector": {"matchLabels": {"app": "one"}}, "template": POD}},
     {"spec.selector": {"matchLabels": {"app": "one", "more": "labels"}}}),
    ("apps/v1", "Deployment", {"spec": {"selector": {"matchLabels": {"app": "one"}}, "template": POD}},
     {"spec.selector": {"matchLabels": {"app": "one", "more": "labels"}}}),
    ("batch/v1", "Job", {"spec": {"template": ONCE}}, {"spec.template.spec.containers": [
        {"name": "main", "image": "other"}]}),
    ("v1", "PersistentVolume", {"spec": VOLUME}, {"spec.nfs.path": "/other"}),
    ("v1", "PersistentVolume", {"spec": BUCKET}, {"spec.csi.volumeAttributes": {"prefix": "other/"}}),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", {"roleRef": ROLE}, {"roleRef.name": "edit"}),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", {"roleRef": ROLE}, {"roleRef.name": "edit"}),
    ("resource.k8s.io/v1", "ResourceClaimTemplate", {"spec": {"spec": CLAIM}}, {"spec.spec": TWO_DEVICES}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1}, {"value": 2}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1, "preemptionPolicy": "PreemptLowerPriority"},
     {"preemptionPolicy": "Never"}),
    ("storage.k8s.io/v1", "StorageClass", CLASS, {"parameters": {"type": "slow"}}),
    ("storage.k8s.io/v1", "StorageClass", CLASS, {"provisioner": "example.com/other"}),
    ("storage.k8s.io/v1", "StorageClass", CLASS, {"reclaimPolicy": "Retain"}),
    ("storage.k8s.io/v1", "StorageClass", CLASS, {"volumeBindingMode": "WaitForFirstConsumer"}),
]  # fmt: skip
NUMBERS = itertools.count()
TAKEN: list[Case] = [
    ("v1", "PersistentVolume", {"spec": VOLUME}, {"spec.mountOptions": ["nconnect=8"]}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1}, {"description": "other"}),
    ("storage.k8s.io/v1", "StorageClass", CLASS, {"allowVolumeExpansion": True}),
    ("storage.k8s.io/v1", "StorageClass", CLASS, {"allowedTopologies": [
        {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["a"]}]}]}),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", {"roleRef": ROLE}, {"subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "vision"}]}),
]  # fmt: skip


def path_of(case: Case) -> str:
    return f"{case[1]}.{next(iter(case[3]))}"


def refusal(sandbox: Status, case: Case) -> str:
    """Create an object and change one of its fields. Return why the API server refuses the change, or an empty
    string.
    """
    api_version, kind, fields, changes = case
    client = KubernetesClient(sandbox.kubeconfig)
    # Each object has a unique name, because a deleted volume exists until its protection finalizer is removed.
    metadata = {"name": f"immutable-fields-{next(NUMBERS)}"}
    found = client.find_resource(api_version, kind)
    assert found is not None
    if found.namespaced:
        metadata["namespace"] = "default"
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
    made = client.create(manifest)
    try:
        client.apply(with_changes(manifest, changes), dry_run=True)
    except Refused as refused:
        return refused.message
    finally:
        client.delete(made)
    return ""


def with_changes(manifest: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = {**manifest}
    for path, value in changes.items():
        *parents, last = path.split(".")
        here = changed
        for parent in parents:
            here[parent] = {**here[parent]}
            here = here[parent]
        here[last] = value
    return changed


@pytest.mark.parametrize("case", REFUSED, ids=path_of)
def test_the_api_server_refuses_to_change_a_field_of_the_table(sandbox: Status, case: Case) -> None:
    assert refusal(sandbox, case)
    group = case[0].rpartition("/")[0] or "core"
    (path,) = case[3]
    assert any(path.startswith(field) for field in IMMUTABLE_FIELDS[f"{group}/{case[1]}"])


@pytest.mark.parametrize("case", TAKEN, ids=path_of)
def test_the_api_server_takes_a_change_of_a_field_that_is_not_in_the_table(sandbox: Status, case: Case) -> None:
    assert not refusal(sandbox, case)
    group = case[0].rpartition("/")[0] or "core"
    (path,) = case[3]
    assert not any(path.startswith(field) for field in IMMUTABLE_FIELDS[f"{group}/{case[1]}"])


def test_every_built_in_kind_of_the_table_was_tried() -> None:
    tried = {
        f"{case[0].rpartition('/')[0] or 'core'}/{case[1]}.{field}" for case in REFUSED for field in _fields(case)
    }
    custom = (
        "jobset.x-k8s.io",
        "leaderworkerset.x-k8s.io",
        "ray.io",
        "readiness.node.x-k8s.io",
        "resource.nvidia.com",
        "trainer.kubeflow.org",
    )
    in_table = {
        f"{kind}.{field}"
        for kind, fields in IMMUTABLE_FIELDS.items()
        for field in fields
        # Kueue's webhooks, not the API server, refuse changes to the queue label.
        if not kind.startswith(custom) and not field.startswith("metadata.labels")
    }
    assert tried == in_table


def _fields(case: Case) -> list[str]:
    kind = f"{case[0].rpartition('/')[0] or 'core'}/{case[1]}"
    (path,) = case[3]
    return [field for field in IMMUTABLE_FIELDS[kind] if path.startswith(field)]
