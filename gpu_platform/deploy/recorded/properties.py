"""Converts Pulumi's property maps (protobuf structs in which a signature marks special objects) to plain JSON.

Whole numbers become ints (protobuf only has floats) and keys are sorted (protobuf maps have no order), so that two
runs of a program produce the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from google.protobuf import struct_pb2

UNKNOWN: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # Pulumi's sentinel for an unknown value
REDACTED: Final = "[secret]"  # what `pulumi policy analyze` shows instead of a secret that it cannot decrypt

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

# Signatures of special objects: sdk/go/common/resource/sig in pulumi/pulumi.
_SIGNATURE_KEY: Final = "4dabf18193072939515e22adb298388d"
_SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  # no password
_RESOURCE_SIGNATURE: Final = "5cf8f73096256a8f31e491e813e4eb8e"
_ASSET_SIGNATURE: Final = "c44067f5952c0a294b673a41bacd8c17"
_ARCHIVE_SIGNATURE: Final = "0def7320c3a5731c473e5ecbe6d01bc7"


def plain_properties(struct: struct_pb2.Struct, *, reveal: bool) -> dict[str, Any]:
    """Return the plain JSON of a property map. Secrets are `REDACTED` unless `reveal`."""
    fields = struct.fields
    return {key: _plain(fields[key], reveal) for key in sorted(fields)}


def holds_secret(properties: struct_pb2.Struct | struct_pb2.Value) -> bool:
    """Return whether properties contain a secret.

    For speed, this function searches the serialized message for the signature of secrets.
    """
    return _SECRET_SIGNATURE.encode() in properties.SerializeToString()


def redact_leaves(value: Json) -> Json:
    """Redact every leaf of a value that is secret as a whole, such as a Secret's `data`."""
    if isinstance(value, dict):
        return {key: redact_leaves(inner) for key, inner in value.items()}
    return REDACTED


def _plain(value: struct_pb2.Value, reveal: bool) -> Json:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "struct_value":
        fields = value.struct_value.fields
        if _SIGNATURE_KEY in fields:
            return _plain_special(fields, reveal)
        return {key: _plain(fields[key], reveal) for key in sorted(fields)}
    if kind == "list_value":
        return [_plain(item, reveal) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    return value.bool_value if kind == "bool_value" else None


def _plain_special(fields: Mapping[str, struct_pb2.Value], reveal: bool) -> Json:
    """Return the plain JSON of a secret, a resource reference, an asset or an archive."""
    signature = fields[_SIGNATURE_KEY].string_value
    if signature == _SECRET_SIGNATURE:
        return _plain(fields["value"], reveal) if reveal else REDACTED
    if signature == _RESOURCE_SIGNATURE:  # a custom resource is referenced by its id, a component by its URN
        reference = fields["id"] if "id" in fields else fields["urn"]
        return reference.string_value or UNKNOWN
    kinds = {_ASSET_SIGNATURE: "asset", _ARCHIVE_SIGNATURE: "archive"}
    content: dict[str, Json] = {
        key: _plain(fields[key], reveal) for key in sorted(fields) if key != _SIGNATURE_KEY
    }
    return {kinds[signature]: content}
