"""Converts and compares properties in the wire format of the Pulumi engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf import json_format, struct_pb2

UNKNOWN: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""String that represents an unknown value in a preview (pulumi/sdk/go/common/resource/plugin)."""
_SENTINELS: Final = {
    UNKNOWN,
    "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
    "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
    "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
    "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
}


def read(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Return properties as plain values. Whole numbers become integers, and null properties are omitted."""
    return _plain(json_format.MessageToDict(struct))


def write(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """Return properties in the engine's format."""
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct


def is_unknown(value: Any) -> bool:
    """Return whether a value is not known yet."""
    return isinstance(value, str) and value in _SENTINELS


def has_unknown(value: Any) -> bool:
    """Return whether a value is or contains a value that is not known yet."""
    if isinstance(value, dict):
        return any(has_unknown(one) for one in value.values())
    if isinstance(value, list):
        return any(has_unknown(one) for one in value)
    return is_unknown(value)


_SETS: Final = {
    "addressSpaces",
    "authorizedIpRanges",
    "enabledClusterLogTypes",
    "identityIds",
    "kubernetesGroups",
    "publicAccessCidrs",
    "resources",
    "routeTableIds",
    "securityGroups",
    "serviceEndpoints",
    "subnetIds",
    "taints",
    "vpcSecurityGroupIds",
    "zones",
}
"""Lists without order: TypeSet in the schemas of terraform-provider-aws (read 2026-11-23) and
terraform-provider-azurerm (read 2026-11-30).
"""


def changed_paths(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted path of each property that differs. A list counts as one property."""
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before == after or (name in _SETS and _ordered(before) == _ordered(after)):
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            yield from changed_paths(before, after, f"{prefix}{name}.")
        else:
            yield prefix + name


def _ordered(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
