"""Extracts the Kubernetes objects of a recorded program, and finds resources that only Pulumi can deploy."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base.errors import Problem
from gpu_platform.deploy.recorded.properties import REDACTED, UNKNOWN
from gpu_platform.deploy.recorded.record import (
    KUBERNETES_PREFIX,
    KUBERNETES_PROVIDER_TYPE,
    PROVIDER_PREFIX,
    STACK_REFERENCE_TYPE,
    STACK_TYPE,
    STASH_TYPE,
    ResourceRecord,
)
from gpu_platform.live.objects import ObjectKey, object_key

_EMBEDDED_DEPLOYS: Final = "plain Kubernetes objects"
ONLY_PULUMI: Final = "use the Pulumi CLI for this stack (https://www.pulumi.com/docs/install/)"
_MAX_LISTED_TYPES: Final = 4
_CLIENT_SIDE_PREFIXES: Final = ("kubernetes:helm.sh/", "kubernetes:yaml", "kubernetes:kustomize")


@dataclass(frozen=True, slots=True)
class KubernetesObject:
    """A declared object: its key, the manifest for the API server, and the Pulumi resource that declares it."""

    key: ObjectKey
    api_version: str
    manifest: Mapping[str, Any]
    record: ResourceRecord


def is_plain_object(record: ResourceRecord) -> bool:
    """Return whether a resource is a Kubernetes object whose inputs are its manifest."""
    return (
        record.custom
        and not record.external
        and record.type.startswith(KUBERNETES_PREFIX)
        and not record.type.startswith(_CLIENT_SIDE_PREFIXES)
        and not record.type.endswith("Patch")
        and "apiVersion" in record.inputs
        and "kind" in record.inputs
    )


def manifest_of(record: ResourceRecord, *, reveal: bool) -> dict[str, Any]:
    """Return the manifest of a resource, with apiVersion, kind and metadata first.

    A Secret's `stringData` is converted to `data`, so that the manifest equals what the API server returns.
    """
    inputs = record.true_inputs if reveal else record.inputs
    head = {key: inputs[key] for key in ("apiVersion", "kind", "metadata") if key in inputs}
    manifest = {**head, **{key: value for key, value in inputs.items() if key not in head}}
    if manifest["kind"] == "Secret" and isinstance(manifest.get("stringData"), dict):
        texts: dict[str, str] = manifest.pop("stringData")
        manifest["data"] = {**(manifest.get("data") or {}), **_encoded(texts)}
    return manifest


def _encoded(texts: Mapping[str, str]) -> dict[str, str]:
    return {
        key: text if text == REDACTED else base64.b64encode(text.encode()).decode() for key, text in texts.items()
    }


def kubernetes_objects(records: Iterable[ResourceRecord]) -> tuple[KubernetesObject, ...]:
    """Return the Kubernetes objects with their secrets, in registration order."""
    objects: list[KubernetesObject] = []
    for record in records:
        if is_plain_object(record):
            manifest = manifest_of(record, reveal=True)
            objects.append(KubernetesObject(object_key(manifest), manifest["apiVersion"], manifest, record))
    return tuple(objects)


def only_pulumi_can_deploy(records: Iterable[ResourceRecord]) -> tuple[Problem, ...]:
    """Return a problem for each provider package and invalid object that the embedded engine cannot deploy."""
    problems: list[Problem] = []
    others: dict[str, list[ResourceRecord]] = {}
    records = list(records)
    for record in records:
        if not is_plain_object(record):
            if not _needs_no_deployment(record):
                others.setdefault(record.type.removeprefix(PROVIDER_PREFIX).partition(":")[0], []).append(record)
            continue
        key = object_key(record.inputs)
        if not key.name or key.name == UNKNOWN:
            place = f"resource {record.name!r}"
            problems.append(
                Problem(place, f"a {key.kind} without metadata.name", "explicit names", "name the object")
            )
    of_packages = (_of_package(package, found) for package, found in others.items())
    return (*of_packages, *problems, *declared_twice(records))


def declared_twice(records: Iterable[ResourceRecord]) -> tuple[Problem, ...]:
    """Return a problem for each object that two resources declare.

    The second resource would change the object of the first resource, or be refused.
    """
    problems: list[Problem] = []
    seen: dict[ObjectKey, str] = {}
    for record in records:
        key = object_key(record.inputs) if is_plain_object(record) else None
        if key is None or key.name in ("", UNKNOWN):
            continue
        place = f"resource {record.name!r}"
        if key in seen:
            problems.append(
                Problem(place, f"{key}, which {seen[key]} also declares", "one resource per object", "remove one")
            )
        seen.setdefault(key, place)
    return tuple(problems)


def _of_package(package: str, records: Sequence[ResourceRecord]) -> Problem:
    """Return one problem for all resources of a provider package, because a cloud stack has dozens of them."""
    if len(records) == 1:
        return Problem(f"resource {records[0].name!r}", records[0].type, _EMBEDDED_DEPLOYS, ONLY_PULUMI)
    types = sorted({record.type for record in records if not record.type.startswith(PROVIDER_PREFIX)})
    more = len(types) - _MAX_LISTED_TYPES
    named = ", ".join(types[:_MAX_LISTED_TYPES]) + (f" and {more} more" if more > 0 else "")
    return Problem(f"{len(records)} resources of {package}", named, _EMBEDDED_DEPLOYS, ONLY_PULUMI)


def _needs_no_deployment(record: ResourceRecord) -> bool:
    """Return whether a resource exists only in Pulumi, such as a stack, component, Kubernetes provider, stack
    reference or stash.
    """
    if not record.custom:
        return not record.type.startswith(_CLIENT_SIDE_PREFIXES)
    return record.type in (STACK_TYPE, STACK_REFERENCE_TYPE, STASH_TYPE, KUBERNETES_PROVIDER_TYPE)
