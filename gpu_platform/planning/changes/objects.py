"""Classify a change to one object by the object's kind, the action and the changed fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from gpu_platform.catalog.template_kinds import TEMPLATE_KINDS
from gpu_platform.planning.changes.effects import Effect

# Deleting an object of these kinds deletes members' data.
# Cluster kinds are included, because deleting a cluster also deletes its volumes and namespaces.
DATA_KINDS = {
    "Namespace",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StatefulSet.apps",
    "CustomResourceDefinition.apiextensions.k8s.io",
    "aws:eks/cluster:Cluster",
    "aws:ebs/volume:Volume",
    "aws:efs/fileSystem:FileSystem",
    "aws:fsx/lustreFileSystem:LustreFileSystem",
    "aws:s3/bucket:Bucket",
    "aws:kms/key:Key",
    "gcp:container/cluster:Cluster",
    "gcp:compute/disk:Disk",
    "gcp:filestore/instance:Instance",
    "gcp:storage/bucket:Bucket",
}
_ACCESS_KINDS = {
    "Role.rbac.authorization.k8s.io",
    "RoleBinding.rbac.authorization.k8s.io",
    "ClusterRole.rbac.authorization.k8s.io",
    "ClusterRoleBinding.rbac.authorization.k8s.io",
    "ServiceAccount",
    "aws:eks/accessEntry:AccessEntry",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
}
CAPACITY_KINDS = {
    "Node",
    "aws:eks/nodeGroup:NodeGroup",
    "gcp:container/nodePool:NodePool",
    "NodePool.karpenter.sh",
}
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    f"{one.kind}.{one.group}": tuple(place.items or place.path for place in one.places) for one in TEMPLATE_KINDS
} | {"DaemonSet.apps": ("spec.template",)}
# The pod templates of a TrainJob come from its runtime.
_CONTROLLERS = {*_TEMPLATES, "TrainJob.trainer.kubeflow.org"}
# For these kinds, a changed template affects only future pods, and running pods stay unchanged.
_LATER_PODS = {"CronJob.batch", "ReplicaSet.apps", "ScaledJob.keda.sh", "TrainingRuntime.trainer.kubeflow.org"}
_ACCESS_FIELDS = ("subjects", "rules", "roleRef")


@dataclass(frozen=True, slots=True)
class ChangedField:
    """A changed field of an object. The old and new values are plain JSON, or None if unset."""

    path: str
    old: object
    new: object


def object_effect(action: str, kind: str, fields: Iterable[ChangedField] = ()) -> Effect:
    """Return the effect of changing one object.

    `action` is create, update, replace, delete or unchanged. `kind` has the form `Kind.group`, or is the Pulumi
    type of a cloud resource.
    """
    match action:
        case "delete" | "replace":
            return _effect_of_deletion(kind, recreated=action == "replace")
        case "update":
            templates = () if kind in _LATER_PODS else _TEMPLATES.get(kind, ())
            if templates and any(field.path.startswith(templates) for field in fields):
                return Effect.RESTARTS_PODS
            if kind in _ACCESS_KINDS and any(_cuts_access(field) for field in fields):
                return Effect.CUTS_ACCESS
            return Effect.IN_PLACE
        case _:
            return Effect.IN_PLACE


def _effect_of_deletion(kind: str, *, recreated: bool) -> Effect:
    if kind in DATA_KINDS:
        return Effect.DELETES_DATA
    # Recreating a Kubernetes object, such as an immutable ConfigMap, replaces no node and no cloud resource.
    # The types of cloud resources contain a colon.
    if recreated and (kind in CAPACITY_KINDS or ":" in kind):
        return Effect.REPLACES
    if kind in _ACCESS_KINDS:
        return Effect.CUTS_ACCESS
    if kind in CAPACITY_KINDS:
        return Effect.REMOVES_CAPACITY
    return Effect.RESTARTS_PODS if kind in _CONTROLLERS else Effect.IN_PLACE


def _cuts_access(field: ChangedField) -> bool:
    """Return whether a changed field removes subjects or rules. Adding subjects or rules removes no access."""
    if not field.path.startswith(_ACCESS_FIELDS) or field.old is None:
        return False
    old, new = _items(field.old), _items(field.new)
    if old is None or new is None:
        return field.old != field.new
    return any(item not in new for item in old)


def _items(value: object) -> list[object] | None:
    return cast("list[object]", value) if isinstance(value, list) else None
