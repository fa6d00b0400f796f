"""Writes manifests of the objects that team members created in a namespace, so that they can be restored."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import yaml

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.base.yaml_text import TextDumper
from gpu_platform.live.contents import Contents
from gpu_platform.live.objects import mapping_at, object_key

# The API server and controllers set these fields. A manifest for a new object must not contain them.
_SERVERS_METADATA: Final = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "finalizers",
    "selfLink",
)
_LAST_APPLIED: Final = (
    "kubectl.kubernetes.io/last-applied-configuration"  # contains the whole object, including the data of Secrets
)
_BOUND_BY: Final = "pv.kubernetes.io/"
_SERVERS_SPEC: Final[Mapping[str, tuple[str, ...]]] = {
    "PersistentVolumeClaim": ("volumeName",),
    "Service": ("clusterIP", "clusterIPs"),
    "Pod": ("nodeName",),
}
_SECRET_DATA: Final = ("data", "stringData")
_JOB_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")


def write_manifests(contents: Contents, file: Path, *, with_secrets: bool) -> int:
    """Write the objects to a new YAML file that only the current user can read, and return their number.

    Secrets are written without their data unless `with_secrets` is set. Raises BadInput if the file exists or
    cannot be written.
    """
    objects = [manifest(live, with_secrets=with_secrets) for live in (*contents.objects, *contents.bare_pods)]
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            # pyrefly: ignore[partially-unknown-type] - incomplete in PyYAML's stubs
            yaml.dump_all(objects, stream, Dumper=TextDumper, sort_keys=False, explicit_start=True)
    except OSError as error:
        allowed = "a file that does not exist yet, in a folder that can be written to"
        raise BadInput("--export", [Problem(str(file), error.strerror or str(error), allowed)]) from error
    return len(objects)


def manifest(live: Mapping[str, Any], *, with_secrets: bool) -> dict[str, Any]:
    """Return a live object as a manifest, without its status and the fields that the server or controllers set."""
    found = deepcopy(dict(live))
    found.pop("status", None)
    key = object_key(live)
    metadata: dict[str, Any] = {k: v for k, v in found["metadata"].items() if k not in _SERVERS_METADATA}
    annotations = {
        name: value
        for name, value in mapping_at(metadata, "annotations").items()
        if name != _LAST_APPLIED and not name.startswith(_BOUND_BY)
    }
    metadata.pop("annotations", None)
    found["metadata"] = metadata | ({"annotations": annotations} if annotations else {})
    for name in _SERVERS_SPEC.get(key.group_kind, ()):
        found["spec"].pop(name, None)
    if key.group_kind == "Job.batch" and not found["spec"].get("manualSelector"):
        found["spec"].pop("selector", None)
        for place in (found["metadata"], found["spec"]["template"]["metadata"]):
            place["labels"] = {k: v for k, v in mapping_at(place, "labels").items() if k not in _JOB_LABELS}
    if key.group_kind == "Secret" and not with_secrets:
        _drop(found, _SECRET_DATA)
    return {field: found[field] for field in ("apiVersion", "kind", "metadata")} | found


def _drop(mapping: dict[str, Any], keys: Iterable[str]) -> None:
    for key in keys:
        mapping.pop(key, None)
