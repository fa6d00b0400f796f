"""Compares the inputs of a gcp:container resource with the protos of the GKE API (google-cloud-container).

A table lists the fields that the provider names differently. All other inputs are read by name into a message of
the API. Unknown fields, unknown enum values and values of the wrong type are errors. The comparison finds fields
that exist in the SDK but not in the API.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from google.cloud import container_v1
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from gpu_platform.deploy.recorded.properties import UNKNOWN

LEFT_OUT = object()
PLAIN_MESSAGES = ("google.protobuf.",)  # in JSON, durations, timestamps and wrappers are one value


class NotInTheApi(AssertionError):
    """Raised for an input that the GKE API does not have. The message contains the path of the input."""


@dataclass(frozen=True)
class ProvidersOwn:
    """An input that is not a field of the API: part of the URL, or a setting of the provider itself."""

    why: str


@dataclass(frozen=True)
class Spelt:
    """An input that has a different name than the API's field. `api` is the dotted path of the field within the
    message.
    """

    api: str
    convert: Callable[[Any], Any] = lambda value: value


Table = Mapping[tuple[str, str], ProvidersOwn | Spelt]
"""Maps an API message and one of its inputs to an object that describes how the provider passes this input to the
API.

An example of a key is `("NodeConfig", "guestAccelerators")`.
"""

NODE_POOL: Table = {
    ("NodePool", "cluster"): ProvidersOwn("parent in the URL"),
    ("NodePool", "location"): ProvidersOwn("part of the URL"),
    ("NodePool", "project"): ProvidersOwn("part of the URL"),
    ("NodePool", "namePrefix"): ProvidersOwn("the provider derives `name` from this prefix"),
    ("NodePool", "deletionPolicy"): ProvidersOwn("tells the provider how to delete the node pool"),
    ("NodePool", "ignoreNodeCountChanges"): ProvidersOwn("read only by the provider"),
    ("NodePool", "nodeCount"): Spelt("initialNodeCount"),
    ("NodePool", "nodeLocations"): Spelt("locations"),
    ("NodePool", "nodeConfig"): Spelt("config"),
    ("NodePool", "maxPodsPerNode"): Spelt("maxPodsConstraint.maxPodsPerNode"),
    # The provider represents a single API message as a list with one element.
    ("NodePool", "maintenancePolicies"): Spelt("maintenancePolicy", lambda listed: listed[0]),
    ("NodePoolMaintenancePolicy", "exclusionUntilEndOfSupports"): Spelt(
        "exclusionUntilEndOfSupport", lambda listed: listed[0]
    ),
    # The provider enables the feature if the block is present. The API has an explicit field for that.
    ("NodePool", "autoscaling"): Spelt("autoscaling", lambda block: {**block, "enabled": True}),
    ("NodeConfig", "guestAccelerators"): Spelt("accelerators"),
    ("LinuxNodeConfig", "hugepagesConfig"): Spelt("hugepages"),
    ("NodeConfig", "gpudirectStrategy"): Spelt("gpuDirectConfig.gpuDirectStrategy"),
    ("AcceleratorConfig", "type"): Spelt("acceleratorType"),
    ("AcceleratorConfig", "count"): Spelt("acceleratorCount"),
}


def node_pool(inputs: Mapping[str, Any]) -> container_v1.NodePool:
    """Return the API's NodePool for the recorded inputs of a gcp:container/nodePool:NodePool."""
    return as_message(container_v1.NodePool, inputs, NODE_POOL)


def as_message(message: Any, inputs: Mapping[str, Any], table: Table) -> Any:
    """Return `message`, a class of google.cloud.container_v1, filled with `inputs` in the provider's spelling.

    If a value is unknown before the deployment, only its name is checked. Unknown strings are kept, and other
    unknown values are omitted. Raises NotInTheApi if the API has no such field or enum value, or expects another
    type.
    """
    descriptor = message.pb(message()).DESCRIPTOR
    fields = _spell(descriptor, inputs, table, descriptor.name)
    filled = message()
    try:
        json_format.ParseDict(fields, message.pb(filled))
    except json_format.ParseError as error:
        raise NotInTheApi(f"{descriptor.name}: {error}") from error
    return filled


def _spell(descriptor: Descriptor, inputs: Mapping[str, Any], table: Table, path: str) -> dict[str, Any]:
    """Return the inputs of one message under the API's names."""
    if not isinstance(inputs, Mapping):
        raise NotInTheApi(f"{path}: {inputs!r}, but the API expects a message {descriptor.name}")
    spelt: dict[str, Any] = {}
    for key, value in inputs.items():
        entry = table.get((descriptor.name, key), Spelt(key))
        if isinstance(entry, ProvidersOwn) or value is None:
            continue
        *above, last = entry.api.split(".")
        holder: Descriptor | None = descriptor
        within = spelt
        for name in above:
            holder = _field(holder, name, f"{path}.{key}").message_type
            within = within.setdefault(name, {})
        field = _field(holder, last, f"{path}.{key}")
        value = _value(field, entry.convert(value), table, f"{path}.{key}")
        if value is LEFT_OUT:
            continue
        if isinstance(within.get(last), dict) and isinstance(value, dict):
            within[last].update(value)
        else:
            within[last] = value
    return spelt


def _fields(descriptor: Descriptor) -> dict[str, FieldDescriptor]:
    # The descriptor's index by camelCase name would also accept snake_case names.
    return {field.camelcase_name: field for field in descriptor.fields}


def _field(descriptor: Descriptor | None, name: str, path: str) -> FieldDescriptor:
    if descriptor is None:
        raise NotInTheApi(f"{path}: {name!r} is looked up in a field that is not a message")
    fields = _fields(descriptor)
    field = fields.get(name)
    if field is None:
        known = ", ".join(sorted(fields))
        raise NotInTheApi(f"{path}: {descriptor.name} has no field {name!r}; it has {known}")
    return field


def _value(field: FieldDescriptor, value: Any, table: Table, path: str) -> Any:
    if _is_map(field):
        return LEFT_OUT if value == UNKNOWN else dict(value)
    if _is_repeated(field):
        if value == UNKNOWN:
            return LEFT_OUT
        if not isinstance(value, list):
            raise NotInTheApi(f"{path}: {value!r}, but the API expects a list")
        items = [_one(field, item, table, f"{path}[{index}]") for index, item in enumerate(value)]
        return [item for item in items if item is not LEFT_OUT]
    return _one(field, value, table, path)


def _one(field: FieldDescriptor, value: Any, table: Table, path: str) -> Any:
    text = field.type == FieldDescriptor.TYPE_STRING
    if value == UNKNOWN:
        return value if text else LEFT_OUT
    if field.message_type is not None and not _is_plain(field):
        return _spell(field.message_type, value, table, path)
    if field.enum_type is not None:
        names = [each.name for each in field.enum_type.values]
        # The zero value of an enum means unset. The provider would send it, and GKE would use its default.
        if value not in names or re.search(r"(^|_)UNSPECIFIED$", str(value)):
            raise NotInTheApi(f"{path}: {value!r}; {field.enum_type.name} has {', '.join(names)}")
    elif isinstance(value, str) != text and not _is_plain(field) and field.type != FieldDescriptor.TYPE_BYTES:
        raise NotInTheApi(f"{path}: {value!r} is {type(value).__name__}, which {field.name} is not")
    return value


def _is_repeated(field: FieldDescriptor) -> bool:
    return cast("Any", field).label == FieldDescriptor.LABEL_REPEATED  # some versions of the stubs lack `label`


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_plain(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name.startswith(PLAIN_MESSAGES)


def unspelt(table: Table, *messages: Any) -> Iterator[str]:
    """Yield the entries of a table that name a message or a field that the API does not have."""
    descriptors = {}
    for message in messages:
        _collect(message.pb(message()).DESCRIPTOR, descriptors)
    for (name, key), entry in table.items():
        if name not in descriptors:
            yield f"{name}.{key}: no such message"
        elif isinstance(entry, Spelt):
            holder: Descriptor | None = descriptors[name]
            for part in entry.api.split("."):
                field = _fields(holder).get(part) if holder is not None else None
                if field is None:
                    yield f"{name}.{key}: no field {entry.api}"
                    break
                holder = field.message_type
        elif key in _fields(descriptors[name]):
            yield f"{name}.{key}: listed as an input of the provider only, but the API has this field"


def _collect(descriptor: Descriptor, found: dict[str, Descriptor]) -> None:
    if descriptor.name not in found:
        found[descriptor.name] = descriptor
        for field in descriptor.fields:
            if field.message_type is not None:
                _collect(field.message_type, found)
