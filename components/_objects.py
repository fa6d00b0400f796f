"""Kubernetes objects with the labels, annotations and pull secrets of the stack file."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s

from gpu_platform.planning.objects.section import ObjectsPlan

_WITH_POD_TEMPLATE = ("DaemonSet", "Deployment", "Job", "StatefulSet")
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
        if kind in _WITH_POD_TEMPLATE:
            secrets = () if namespace in objects.team_namespaces else objects.pull_secrets
            template = _get(props["spec"], "template")
            template = _with(template, "metadata", _labelled(_get(template, "metadata"), objects))
            pod = _get(template, "spec")
            if secrets and not _get(pod, "image_pull_secrets"):
                pod = _with(pod, "image_pull_secrets", [{"name": name} for name in secrets])
            props["spec"] = _with(props["spec"], "template", _with(template, "spec", pod))
        return pulumi.ResourceTransformationResult(props, args.opts)

    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(transformations=[transform]))


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
