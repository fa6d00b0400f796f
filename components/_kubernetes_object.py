"""`KubernetesObject`: a Kubernetes object that is registered with Pulumi by its kind and fields.

The typed classes of pulumi_kubernetes register the same resources, but importing the classes of the core group
takes a second of CPU time in every `check`, `render` and `up`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

import pulumi

from components._immutable_fields import IMMUTABLE_FIELDS, IMMUTABLE_IN_QUEUES
from gpu_platform.base import names
from gpu_platform.base.quantity import canonical_quantity
from gpu_platform.catalog import load_catalog

_QUANTITY_MAPPINGS: Final = ("requests", "limits")
"""Fields that map the names of resources to quantities."""
_QUANTITIES: Final = ("sizeLimit", "nominalQuota", "borrowingLimit", "lendingLimit", "weight")
"""Fields that contain a single quantity. `weight` is the weight of fair sharing."""

Manifest: TypeAlias = dict[str, Any]
"""Part of a Kubernetes manifest, with the field names of the API. Fields that are None are omitted."""

# Use the provider version of the installed SDK, as the SDK's own classes do.
_PROVIDER_VERSION: Final = importlib.metadata.version("pulumi-kubernetes")


class KubernetesObject(pulumi.CustomResource):
    """One Kubernetes object of any kind.

    Args:
        resource: API version and kind, such as `apps/v1/DaemonSet`.
        fields: the other fields of its manifest, such as `metadata` and `spec`.
        patch: set only these fields of an existing object that Pulumi does not own.

    Outputs: `metadata`.
    """

    resource: str
    """API version and kind."""
    metadata: pulumi.Output[dict[str, Any]]

    def __init__(
        self,
        name: str,
        resource: str,
        opts: pulumi.ResourceOptions | None = None,
        *,
        patch: bool = False,
        **fields: Any,  # noqa: ANN401 - each kind has its own
    ) -> None:
        self.resource = resource
        api_version, _, kind = resource.rpartition("/")
        _require_size(kind, name, fields)
        if _is_custom(api_version):
            fields = _with_canonical_quantities(fields)
        super().__init__(
            type_token(resource, patch=patch),
            name,
            {"apiVersion": api_version, "kind": kind, **_without_none(fields)},
            pulumi.ResourceOptions.merge(_options_of(resource, fields), opts),
        )


def _options_of(resource: str, manifest: Mapping[str, Any]) -> pulumi.ResourceOptions:
    """Return an object's resource options: its provider, and the fields that force a replacement when they
    change.
    """
    api_version, _, kind = resource.rpartition("/")
    group = api_version.rpartition("/")[0] or "core"
    fields = IMMUTABLE_FIELDS.get(f"{group}/{kind}", ())
    labels = _section(manifest.get("metadata"), "labels")
    if isinstance(labels, Mapping) and names.QUEUE_LABEL in cast("Mapping[str, object]", labels):
        fields += IMMUTABLE_IN_QUEUES.get(f"{group}/{kind}", ())
    return pulumi.ResourceOptions(
        version=_PROVIDER_VERSION,
        replace_on_changes=list(fields) if fields else None,
        # Other objects refer to the object by name, so the old object must be deleted first.
        delete_before_replace=True if fields else None,
    )


def _is_custom(api_version: str) -> bool:
    """Return whether a CustomResourceDefinition defines the kinds of an API version."""
    group = api_version.rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def _with_canonical_quantities(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of fields with all quantities as Kubernetes writes them.

    Webhooks of Kueue, JobSet and LeaderWorkerSet rewrite quantities to this form. Pulumi compares the quantities
    as text. If the forms differed, each `up` would find a change and replace running jobs, because their spec is
    immutable. Pulumi itself converts only the quantities of built-in kinds (pulumi-kubernetes v4.34.2,
    clients.Normalize; controller-runtime v0.24.1, defaulter_custom.go; read 2026-11-30).
    """
    return {key: _canonical(key, value) for key, value in fields.items()}


def _canonical(key: str, value: Any) -> Any:  # noqa: ANN401 - any JSON, with Outputs in it
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        if key in _QUANTITY_MAPPINGS:
            return {name: canonical_quantity(one) if isinstance(one, str) else one for name, one in fields.items()}
        return _with_canonical_quantities(fields)
    if isinstance(value, (list, tuple)):
        return [_canonical("", item) for item in cast("list[Any]", value)]
    return canonical_quantity(value) if key in _QUANTITIES and isinstance(value, str) else value


def _require_size(kind: str, name: str, fields: Mapping[str, Any]) -> None:
    """Raise RunError if data or annotations are too large for Kubernetes. Outputs are not measured."""
    sizes = {"annotations": _text_bytes(_section(fields.get("metadata"), "annotations"))}
    if kind == "ConfigMap":
        sizes["config-map"] = _text_bytes(fields.get("data")) + _text_bytes(fields.get("binaryData"))
    limits = load_catalog().limits
    for limit, size in sizes.items():
        if size > limits[limit].most:
            text = f"{kind} {name}: {size:,} {limits[limit].unit} of {limit}; at most {limits[limit].most:,}"
            raise pulumi.RunError(f"{text} ({limits[limit].source}). Write fewer or shorter entries")


def _section(value: object, key: str) -> object:
    return cast("Mapping[str, object]", value).get(key) if isinstance(value, Mapping) else None


def _text_bytes(value: object) -> int:
    """Return the size of a mapping's keys and strings in bytes, or 0 for an Output."""
    texts = cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
    return sum(len(key) + len(text.encode()) for key, text in texts.items() if isinstance(text, str))


def type_token(resource: str, *, patch: bool = False) -> str:
    """Return Pulumi's type token of a kind, such as `kubernetes:core/v1:Namespace` for `v1/Namespace`."""
    api_version, _, kind = resource.rpartition("/")
    group = api_version if "/" in api_version else f"core/{api_version}"
    return f"kubernetes:{group}:{kind}{'Patch' if patch else ''}"


def _without_none(value: Any) -> Any:  # noqa: ANN401 - any JSON, with Outputs in it
    """Return a copy of a value without the fields that are None, at any depth."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        return {key: _without_none(field) for key, field in fields.items() if field is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(item) for item in cast("list[Any]", value)]
    return value
