"""Kubernetes objects with the labels, annotations and pull secrets of the stack file."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s

from gpu_platform.planning.objects.section import ObjectsPlan

# Where each kind has its pod template.
_POD_TEMPLATES = {
    **dict.fromkeys(("DaemonSet", "Deployment", "Job", "StatefulSet"), ("spec", "template")),
    "CronJob": ("spec", "job_template", "spec", "template"),
}
_RELEASE = "kubernetes:helm.sh/v3:Release"  # has no metadata; its values are those of `charts`
_NODE = "kubernetes:core/v1:Node"  # has the labels of its pool


def with_object_settings(
    opts: pulumi.ResourceOptions | None, objects: ObjectsPlan
) -> pulumi.ResourceOptions | None:
    """Return options of a component whose Kubernetes objects, at any depth, have the settings of all objects."""
    if objects.is_default:
        return opts

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        kind = args.type_.rpartition(":")[2]
        if not args.type_.startswith("kubernetes:") or args.type_ in (_RELEASE, _NODE) or kind.endswith("Patch"):
            return None
        props: dict[str, Any] = dict(args.props)
        namespace = _get(props.get("metadata"), "namespace")
        props["metadata"] = _labelled(props.get("metadata"), objects)
        if kind in _POD_TEMPLATES:
            secrets = () if namespace in objects.team_namespaces else objects.pull_secrets
            props = _with_template(props, _POD_TEMPLATES[kind], objects, secrets)
        return pulumi.ResourceTransformationResult(props, args.opts)

    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(transformations=[transform]))


def _with_template(value: Any, path: Sequence[str], objects: ObjectsPlan, secrets: Sequence[str]) -> Any:  # noqa: ANN401 - as `_get`
    """Return a copy of an object whose pod template, at a path in it, has the settings of the stack file."""
    if path:
        first, *rest = path
        return _with(value, first, _with_template(_get(value, first), rest, objects, secrets))
    pod = _get(value, "spec")
    if secrets and not _get(pod, "image_pull_secrets"):
        pod = _with(pod, "image_pull_secrets", [{"name": name} for name in secrets])
    return _with(_with(value, "metadata", _labelled(_get(value, "metadata"), objects)), "spec", pod)


def _labelled(metadata: object, objects: ObjectsPlan) -> object:
    """Return metadata with the labels and annotations of the stack file; those that it has already stay."""
    result = metadata if metadata is not None else k8s.meta.v1.ObjectMetaArgs()
    for field, added in (("labels", objects.labels), ("annotations", objects.annotations)):
        if added:
            own = cast("Mapping[str, Any]", _get(metadata, field) or {})
            result = _with(result, field, {**added, **own})
    return result


def _get(value: object, field: str) -> Any:  # noqa: ANN401 - inputs of the SDK have no common type
    """Return a field of an object of the SDK, or of a mapping with the names of the API."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        return mapping.get(_api_name(field))
    return getattr(value, field)


def _with(value: Any, field: str, new: object) -> Any:  # noqa: ANN401 - as above
    """Return a copy of an object of the SDK, or of a mapping, with another field."""
    if isinstance(value, Mapping):
        return {**cast("Mapping[str, Any]", value), _api_name(field): new}
    changed = copy.copy(value)
    setattr(changed, field, new)
    return changed


def _api_name(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)
