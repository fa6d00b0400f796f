"""Finds live objects of other owners that the Pulumi CLI would take over, before the CLI starts.

The Kubernetes provider creates objects with server-side apply, which changes an existing object. The provider is
configured to take fields over (components/_options.py). Otherwise an `up` that was killed could never be finished,
because the provider creates each object under a different field manager. Objects of other owners must therefore be
found first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from gpu_platform.base.errors import Finding
from gpu_platform.base.names import STACK_LABEL
from gpu_platform.base.quantity import counted
from gpu_platform.deploy.recorded.objects import KubernetesObject
from gpu_platform.deploy.retention import kept_namespaces
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import ObjectKey, items_at, mapping_at

# The name of the provider's field manager is this prefix and eight hex digits (v4, fieldManagerName).
_PROVIDER: Final = "pulumi-kubernetes"


def refuse_foreign_objects(
    client: KubernetesClient, stack: str, declared: Iterable[KubernetesObject], state: Collection[ObjectKey]
) -> Sequence[tuple[KubernetesObject, Mapping[str, Any]]]:
    """Return the declared objects that the CLI will take over, each with its live object. Raise Finding, before
    anything is changed, if a declared object already exists and does not belong to the stack.

    Objects belong to the stack if they are in its `state`, if a killed run of the provider created them, or if
    they were retained when the stack released them.
    """
    found: list[str] = []
    taken: list[tuple[KubernetesObject, Mapping[str, Any]]] = []
    for one in declared:
        if one.key in state:
            continue
        live = client.get(one.api_version, one.key.kind, one.key.name, one.key.namespace)
        if live is None:
            continue
        if reason := _foreign(client, live, stack):
            found.append(f"  - {one.key} {reason}")
        taken.append((one, live))
    if found:
        exist = "exists but does" if len(found) == 1 else "exist but do"
        objects = counted(len(found), "object")
        head = f"stack {stack!r}: {objects} {exist} not belong to the stack; nothing was changed:"
        raise Finding("\n".join([head, *found]))
    return taken


def drop_former_limits(
    client: KubernetesClient, taken: Iterable[tuple[KubernetesObject, Mapping[str, Any]]]
) -> None:
    """Remove the limits that a quota of a returning team no longer declares.

    The provider creates each object under a different field manager. It would therefore keep the entries of maps
    that the former creation declared, and they would stay in force.
    """
    for one, live in taken:
        former = set(mapping_at(live, "spec", "hard")) - set(mapping_at(one.manifest, "spec", "hard"))
        if one.key.kind == "ResourceQuota" and former:
            metadata = {"name": one.key.name, "namespace": one.key.namespace}
            hard = dict.fromkeys(sorted(former))
            quota = {"apiVersion": one.api_version, "kind": one.key.kind, "metadata": metadata}
            client.merge({**quota, "spec": {"hard": hard}})


def _foreign(client: KubernetesClient, live: Mapping[str, Any], stack: str) -> str:
    adopted = kept_namespaces.may_be_adopted(client, live, stack)
    if adopted:
        return adopted if isinstance(adopted, str) else ""
    other = mapping_at(live, "metadata", "labels").get(STACK_LABEL, stack)
    if other != stack:
        return f"belongs to stack {other!r}. Rename one of the two objects"
    entries = items_at(live, "metadata", "managedFields")
    if any(one["operation"] == "Apply" and str(one["manager"]).startswith(_PROVIDER) for one in entries):
        return ""
    return "was not created by this stack. Delete it, or rename one of the two objects"
