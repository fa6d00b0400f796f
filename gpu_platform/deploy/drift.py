"""Finds fields that other clients added to this engine's objects.

Server-side apply restores declared fields, but keeps fields that other field managers own, such as a container, a
port or a key of a map. Such an addition changes what runs, so `preview` and `up` report it. They do not remove it,
because a person or a controller may need it. RBAC objects and NetworkPolicies are an exception: an addition to
them grants access, so `up` removes it. All lists in these objects are atomic, so a declared list is always applied
as a whole. Other clients can add only a list that is not declared, such as the subjects of a team without members.

Source: managedFields (FieldsV1), https://kubernetes.io/docs/reference/using-api/server-side-apply/.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base.names import FIELD_MANAGER
from gpu_platform.deploy.changes import child_at, owned_fields, place_of
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.objects import ObjectKey, object_key

# Additions are reported only for these fields of these kinds.
# In other kinds, such as nodes, claims and custom resources, controllers routinely own fields.
_EXAMINED: Final[Mapping[str, tuple[str, ...]]] = {
    "CronJob.batch": ("f:spec",),
    "DaemonSet.apps": ("f:spec",),
    "Deployment.apps": ("f:spec",),
    "Job.batch": ("f:spec",),
    "StatefulSet.apps": ("f:spec",),
    "LimitRange": ("f:spec",),
    "ResourceQuota": ("f:spec",),
    "Service": ("f:spec",),
    "ClusterRole.rbac.authorization.k8s.io": ("f:rules", "f:aggregationRule"),
    "ClusterRoleBinding.rbac.authorization.k8s.io": ("f:subjects",),
    "NetworkPolicy.networking.k8s.io": ("f:spec",),
    "Role.rbac.authorization.k8s.io": ("f:rules",),
    "RoleBinding.rbac.authorization.k8s.io": ("f:subjects",),
}
_GRANTS_ACCESS: Final = ("*.rbac.authorization.k8s.io", "NetworkPolicy.networking.k8s.io")

# Fields of these kinds that controllers or common operations own, so they are not reported.
# Each entry consists of a pattern for the kind, a pattern for the field, and the owner or the reason.
_OWNED_BY_OTHERS: Final = (
    ("*.apps", "spec.replicas", "HorizontalPodAutoscaler, KEDA and `kubectl scale`"),
    (
        "*.apps",
        "spec.template.metadata.annotations[[]kubectl.kubernetes.io/restartedAt]",
        "`kubectl rollout restart`, which only restarts the pods",
    ),
    ("Job.batch", "spec.suspend", "Kueue suspends and starts Jobs with this field"),
    ("Job.batch", "spec.template.spec.nodeSelector*", "set by Kueue when it admits a Job"),
    ("Job.batch", "spec.template.spec.schedulingGates*", "Kueue holds pods until it has chosen their nodes"),
    ("Job.batch", "spec.template.metadata.annotations[[]kueue.x-k8s.io/*", "Kueue records admitted resources"),
    ("Job.batch", "spec.template.metadata.labels[[]*", "the Job controller labels its pods"),
    ("Job.batch", "spec.selector*", "set by the Job controller"),
    ("Service", "spec.clusterIP*", "allocated by the API server"),
    ("Service", "spec.healthCheckNodePort", "allocated by the API server"),
    ("Service", "spec.loadBalancerClass", "cloud controllers"),
    ("ClusterRole.*", "rules", "the aggregation controller, if aggregationRule is declared"),
)


@dataclass(frozen=True, slots=True)
class Addition:
    """A field or list item that another field manager added. `keys` is its path in FieldsV1."""

    manager: str
    path: str
    keys: tuple[str, ...]
    value: object

    def __str__(self) -> str:
        return f"changed by {self.manager}: {self.path}"


def grants_access(live: Mapping[str, Any]) -> bool:
    """Return whether additions to an object of this kind grant access, so that `up` removes them."""
    return bool(access_fields(object_key(live)))


def access_fields(key: ObjectKey) -> tuple[str, ...]:
    """Return the fields of an object that grant access, or no fields if the object grants no access."""
    kind = key.group_kind
    if not any(fnmatch.fnmatchcase(kind, pattern) for pattern in _GRANTS_ACCESS):
        return ()
    return tuple(field.removeprefix("f:") for field in _EXAMINED.get(kind, ()))


def additions(
    client: KubernetesClient, live: Mapping[str, Any], manifest: Mapping[str, Any]
) -> tuple[Addition, ...]:
    """Return the fields that others added to a live object. `manifest` is what this engine applied.

    Default values that the API server sets are left out, although the person who created the object is their field
    manager.
    """
    found = tuple(_of_other_managers(live))
    if not found:
        return ()
    defaulted = with_defaults(client, manifest)
    return tuple(addition for addition in found if _value_at(defaulted, addition.keys) != addition.value)


def removal(live: Mapping[str, Any], found: tuple[Addition, ...]) -> dict[str, Any]:
    """Return a merge patch that removes the additions to an RBAC object or a NetworkPolicy."""
    metadata = {key: live["metadata"][key] for key in ("name", "namespace") if key in live["metadata"]}
    patch: dict[str, Any] = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": metadata}
    for addition in found:
        *parents, last = (key.partition(":")[2] for key in addition.keys)
        node = patch
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = None
    return patch


def _of_other_managers(live: Mapping[str, Any]) -> Iterator[Addition]:
    kind = object_key(live).group_kind
    ours = owned_fields(live)
    seen: set[str] = set()
    entries: list[Mapping[str, Any]] = live["metadata"].get("managedFields") or []
    for entry in entries:
        if "subresource" in entry or (entry["manager"] == FIELD_MANAGER and entry["operation"] == "Apply"):
            continue
        for top in _EXAMINED.get(kind, ()):
            theirs = {top: entry["fieldsV1"][top]} if top in entry.get("fieldsV1", {}) else {}
            for path, keys, value in _beside(theirs, ours, live, "", ()):
                if path not in seen and not _is_owned_by_others(kind, path):
                    seen.add(path)
                    yield Addition(str(entry["manager"]), path, keys, value)


def _beside(
    theirs: Mapping[str, Any], ours: Mapping[str, Any], live: object, path: str, keys: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], object]]:
    """Yield the path, keys and value of each field in `theirs` that is not in `ours`. A list item is one field."""
    for key, inner in theirs.items():
        if key == "." or (key in ours and not inner):
            continue
        value = child_at(live, key)
        if value is None:
            continue
        place = place_of(path, key)
        if key not in ours and (not inner or not key.startswith("f:")):
            yield place, (*keys, key), value
        else:
            yield from _beside(inner, ours.get(key) or {}, value, place, (*keys, key))


def _is_owned_by_others(kind: str, path: str) -> bool:
    return any(
        fnmatch.fnmatchcase(kind, pattern) and fnmatch.fnmatchcase(path, field)
        for pattern, field, _ in _OWNED_BY_OTHERS
    )


def with_defaults(client: KubernetesClient, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the manifest with the API server's defaults, from a dry run under an unused name."""
    metadata: Mapping[str, Any] = manifest["metadata"]
    name = "gpu-platform-defaults-" + hashlib.sha256(str(metadata["name"]).encode()).hexdigest()[:12]
    try:
        return client.apply({**manifest, "metadata": {**metadata, "name": name}}, dry_run=True)
    except Refused:  # if a quota or webhook refuses the dry run, default values are reported as additions
        return manifest


def _value_at(node: object, keys: tuple[str, ...]) -> object:
    for key in keys:
        node = child_at(node, key)
    return node
