"""Checks the Kubernetes objects of a recorded program, and returns them in the order in which they are applied."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.deploy.recorded.objects import KubernetesObject, kubernetes_objects, only_pulumi_can_deploy
from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.deploy.recorded.record import RecordedProgram
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import ObjectKey
from gpu_platform.live.readiness import wait_for_problems

# Other objects need objects of these kinds.
_FIRST_KINDS: Final = ("Namespace", "CustomResourceDefinition.apiextensions.k8s.io")
_DEFAULT_NAMESPACE: Final = "default"


def declared_objects(recorded: RecordedProgram, *, allow_unknown: bool = False) -> tuple[KubernetesObject, ...]:
    """Return the objects of a program: Namespaces and CustomResourceDefinitions first, then in registration order.

    Raises one BadInput that lists everything that the embedded engine cannot deploy.
    """
    objects = kubernetes_objects(recorded.resources)
    problems = [*only_pulumi_can_deploy(recorded.resources)]
    for declared in objects:
        name = declared.record.name
        problems.extend(wait_for_problems(name, declared.manifest))
        if not allow_unknown and is_unknown(declared.manifest):
            allowed = "values that are known before the deployment"
            problems.append(Problem(f"resource {name!r}", "an unknown value", allowed))
    if problems:
        raise BadInput(f"stack {recorded.stack} with the embedded engine", problems)
    return _in_order(objects)


def is_unknown(manifest: Mapping[str, Any]) -> bool:
    """Return whether a manifest contains an unknown value."""
    return UNKNOWN in json.dumps(manifest)


def is_first(key: ObjectKey) -> bool:
    """Return whether the object is a Namespace or a CustomResourceDefinition, which other objects need."""
    return key.group_kind in _FIRST_KINDS


def placed(client: KubernetesClient, declared: KubernetesObject) -> KubernetesObject:
    """Return the object with its namespace. A namespaced object without a namespace is in `default`."""
    key = declared.key
    resource = client.find_resource(declared.api_version, key.kind)
    if resource is None or not resource.namespaced or key.namespace:
        return declared
    metadata = {**declared.manifest["metadata"], "namespace": _DEFAULT_NAMESPACE}
    return replace(
        declared,
        key=replace(key, namespace=_DEFAULT_NAMESPACE),
        manifest={**declared.manifest, "metadata": metadata},
    )


def defines_kind(objects: Iterable[KubernetesObject], api_version: str, kind: str) -> bool:
    """Return whether the objects include the CustomResourceDefinition of a kind."""
    group = api_version.rpartition("/")[0]
    return any(
        (spec := declared.manifest.get("spec", {})).get("group") == group and spec["names"]["kind"] == kind
        for declared in objects
        if declared.key.kind == "CustomResourceDefinition"
    )


def _in_order(objects: tuple[KubernetesObject, ...]) -> tuple[KubernetesObject, ...]:
    """Move Namespaces and CRDs to the front, unless they depend on an object of another kind."""
    urns = {declared.record.urn for declared in objects}
    first: dict[str, KubernetesObject] = {}
    for declared in objects:
        if is_first(declared.key) and urns.intersection(declared.record.dependencies) <= first.keys():
            first[declared.record.urn] = declared
    return (*first.values(), *(declared for declared in objects if declared.record.urn not in first))
