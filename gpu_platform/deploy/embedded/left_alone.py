"""Fields that a program declares for a new object and then leaves to others, with Pulumi's `ignoreChanges`.

Source: handleSSAIgnoreFields in pulumi-kubernetes, provider/pkg/await/await.go, read 2026-11-28. The Pulumi CLI's
Kubernetes provider does the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from gpu_platform.deploy.changes import owned_fields
from gpu_platform.deploy.recorded.objects import KubernetesObject
from gpu_platform.live.objects import mapping_at


def with_fields_of_others(
    declared: KubernetesObject, manifest: Mapping[str, Any], live: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the manifest for an existing object, with the live value of each field that the program leaves to
    others.

    Such a field stays in the manifest until another client sets it. If the manifest omitted the field, the server
    would unset it, because nobody would own the field any longer. A Deployment with unset replicas, for example,
    has one replica. Taints of nodes are merged by `taints`.
    """
    if declared.key.group_kind == "Node":
        return manifest
    for path in declared.record.ignore_changes:
        manifest = _with_live(manifest, live, path.split("."), owned_fields(live))
    return manifest


def _with_live(
    manifest: Mapping[str, Any], live: Mapping[str, Any], path: Sequence[str], owned: Mapping[str, Any]
) -> Mapping[str, Any]:
    first, *rest = path
    if rest:
        inner = cast("Mapping[str, Any]", owned.get(f"f:{first}", {}))
        return {**manifest, first: _with_live(mapping_at(manifest, first), mapping_at(live, first), rest, inner)}
    others = {key: value for key, value in manifest.items() if key != first}
    return {**others, first: live[first]} if f"f:{first}" in owned and first in live else others
