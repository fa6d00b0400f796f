"""Adds the labels, annotations and pull secrets of the stack file to Kubernetes objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pulumi

from components._kubernetes_object import Manifest
from gpu_platform.planning.objects.section import ObjectsPlan

# Path of the pod template in the manifest of each kind.
_POD_TEMPLATES = {
    **dict.fromkeys(("DaemonSet", "Deployment", "Job", "StatefulSet"), ("spec", "template")),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
_RELEASE = "kubernetes:helm.sh/v3:Release"  # a Helm release has no metadata; its settings are in `charts`
_NODE = "kubernetes:core/v1:Node"  # a Node has the labels of its pool


def with_object_settings(
    opts: pulumi.ResourceOptions | None, objects: ObjectsPlan
) -> pulumi.ResourceOptions | None:
    """Return options for a component that add the stack file's labels, annotations and pull secrets to all
    Kubernetes objects below the component.
    """
    if objects.is_default:
        return opts

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        kind = args.type_.rpartition(":")[2]
        if not args.type_.startswith("kubernetes:") or args.type_ in (_RELEASE, _NODE) or kind.endswith("Patch"):
            return None
        if args.opts.id is not None:  # Pulumi only reads the object
            return None
        props = cast("Manifest", dict(args.props))
        namespace = props["metadata"].get("namespace")
        props["metadata"] = _labelled(props["metadata"], objects)
        if kind in _POD_TEMPLATES:
            secrets = () if namespace in objects.team_namespaces else objects.pull_secrets
            props = _with_template(props, _POD_TEMPLATES[kind], objects, secrets)
        return pulumi.ResourceTransformationResult(props, args.opts)

    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(transformations=[transform]))


def _with_template(
    manifest: Manifest, path: Sequence[str], objects: ObjectsPlan, secrets: Sequence[str]
) -> Manifest:
    """Return a copy of a manifest with the stack file's settings in the pod template at the given path."""
    if path:
        first, *rest = path
        return {**manifest, first: _with_template(manifest[first], rest, objects, secrets)}
    pod: Manifest = manifest["spec"]
    if secrets and not pod.get("imagePullSecrets"):
        pod = {**pod, "imagePullSecrets": [{"name": name} for name in secrets]}
    return {**manifest, "metadata": _labelled(manifest.get("metadata", {}), objects), "spec": pod}


def _labelled(metadata: Manifest, objects: ObjectsPlan) -> Manifest:
    """Return metadata with the stack file's labels and annotations. Existing labels and annotations take
    precedence.
    """
    result = dict(metadata)
    for field, added in (("labels", objects.labels), ("annotations", objects.annotations)):
        if added:
            result[field] = {**added, **metadata.get(field, {})}
    return result
