"""Tries to change each declared field of a deployed stack on the API server. The table of immutable fields must
list every field whose change the API server refuses.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from components._immutable_fields import IMMUTABLE_FIELDS
from gpu_platform.deploy.recorded.objects import KubernetesObject, kubernetes_objects
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack
from tests.e2e.conftest import Platform

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-base")]

_SAME = ("apiVersion", "kind", "metadata", "status")
Path = tuple[str | int, ...]
# A change to one of these fields gives the ConfigMap a new name.
# Pods switch to the ConfigMap with the new name before the old ConfigMap is deleted.
NAMED_BY_CONTENT = {"core/ConfigMap": ("data", "binaryData", "immutable")}


def leaves(value: object, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each string, number and boolean of a manifest, with its path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path, value


def others(value: Any) -> tuple[Any, ...]:
    """Return other values of the same type, which the API server may allow for the same field."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int | float):
        return (value + 1,)
    return tuple(text for text in (f"{value}x", f"{value}1", _ENUMS.get(str(value), "")) if text)


_ENUMS = {
    "Delete": "Retain",
    "Retain": "Delete",
    "Never": "PreemptLowerPriority",
    "Exists": "Equal",
    "get": "list",
}
_ENUMS |= {"Immediate": "WaitForFirstConsumer", "ClusterRole": "Role", "Group": "User", "Ignore": "Fail"}


def changed(manifest: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return a copy of a manifest with one value changed."""
    copied: Any = copy.deepcopy(dict(manifest))
    here = copied
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    return copied


def refused(client: KubernetesClient, manifest: Mapping[str, Any]) -> str:
    try:
        client.apply(manifest, dry_run=True)
    except Refused as refusal:
        return refusal.message
    return ""


def is_immutable(client: KubernetesClient, item: KubernetesObject, path: Path, value: Any) -> bool:
    """Return whether the API server accepts a field's value in a new object but refuses to change the field."""
    for other in others(value):
        manifest = changed(item.manifest, path, other)
        new = changed(manifest, ("metadata", "name"), f"{item.key.name}-changed"[-60:].lstrip("-."))
        if not refused(client, new):
            return bool(refused(client, manifest))
    return False


def kind_of(item: KubernetesObject) -> str:
    return f"{item.key.group or 'core'}/{item.key.kind}"


def general(path: Path) -> str:
    return ".".join("*" if isinstance(part, int) else part for part in path)


def test_what_the_api_server_does_not_let_change_is_in_the_table(deployed: Platform, base: dict[str, Any]) -> None:
    recorded = record_stack(load_stack(str(deployed.write(base))))
    tried: set[tuple[str, str]] = set()
    found: set[tuple[str, str]] = set()
    for item in kubernetes_objects(recorded.resources):
        for path, value in leaves({key: inner for key, inner in item.manifest.items() if key not in _SAME}):
            case = (kind_of(item), general(path))
            if case not in tried:
                tried.add(case)
                if is_immutable(deployed.client, item, path, value):
                    found.add(case)
    known = {**IMMUTABLE_FIELDS, **NAMED_BY_CONTENT}
    missing = {
        (kind, path)
        for kind, path in found
        if not any(path == field or path.startswith(f"{field}.") for field in known.get(kind, ()))
    }
    assert not missing
    assert ("rbac.authorization.k8s.io/RoleBinding", "roleRef.name") in found, (
        "the roleRef of a RoleBinding is known to be immutable"
    )
    assert len({kind for kind, _ in tried}) > 15
