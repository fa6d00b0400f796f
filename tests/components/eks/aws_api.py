"""Turns the recorded inputs of aws: resources into the requests that the provider sends, with AWS's parameter
names.

Most inputs differ from the API's parameters only in case. A table lists the inputs whose names differ otherwise.
An input that is neither in the API nor in a table is an error, so every input is checked. A value that is unknown
before the deployment is replaced by a plausible value of the parameter's type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ServiceModel

from gpu_platform.deploy.recorded.properties import UNKNOWN

OWN_ID = "the-id-of-what-the-first-request-made"
SUFFIX = (
    "-1a2b3c4"  # the suffix that Pulumi appends to a resource's logical name if the program sets no physical name
)


class NotInTheApi(AssertionError):
    """Raised for an input that the AWS API does not have. The message contains the path of the input."""


@dataclass(frozen=True)
class Call:
    """A request: the boto3 service, the operation and the parameters."""

    service: str
    operation: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Spelt:
    """An input that has a different name than the API's parameter."""

    api: str
    convert: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True)
class ProvidersOwn:
    """An input that is not a parameter of the request. `why` is the reason."""

    why: str


Shape = Any  # A shape of botocore.model has members, one member, or a key and a value, depending on its type.
Table = Mapping[tuple[str, str], Spelt | ProvidersOwn]
"""Maps an API shape and one of its inputs to an object that describes how the provider passes this input to the
API.
"""


@cache
def service_model(service: str) -> ServiceModel:
    """Return botocore's model of a service. boto3 and the AWS CLI use the same model."""
    return botocore.session.get_session().get_service_model(service)


def call(service: str, operation: str, inputs: Mapping[str, Any], table: Table | None = None) -> Call:
    """Return a request with these inputs as parameters."""
    shape = service_model(service).operation_model(operation).input_shape
    assert shape is not None
    return Call(service, operation, _structure(shape, inputs, table or {}, f"{service}.{operation}"))


def without(inputs: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return the inputs without these keys."""
    return {key: value for key, value in inputs.items() if key not in keys}


def tags(kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tags in the form that a create request of EC2 expects."""
    return {"tagSpecifications": [{"resourceType": kind, "tags": inputs["tags"]}]} if inputs.get("tags") else {}


def _structure(shape: Shape, inputs: Mapping[str, Any], table: Table, place: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for key, value in inputs.items():
        rule = table.get((shape.name, key), Spelt(_same_but_for_case(shape, key)))
        if isinstance(rule, ProvidersOwn):
            continue
        member = shape.members.get(rule.api)
        if member is None:
            raise NotInTheApi(
                f"{place}.{key}: {shape.name} has no {rule.api or key}; it has {list(shape.members)}"
            )
        parameters[rule.api] = _value(member, rule.convert(value), table, f"{place}.{rule.api}")
    return parameters


def _same_but_for_case(shape: Shape, key: str) -> str:
    return next((member for member in shape.members if member.casefold() == key.casefold()), "")


def _value(shape: Shape, value: Any, table: Table, place: str) -> Any:
    if value == UNKNOWN:
        return plausible(shape, place)
    if shape.type_name == "structure" and isinstance(value, Mapping):
        return _structure(shape, value, table, place)
    if shape.type_name == "list":
        if isinstance(value, Mapping) and set(shape.member.members) == {"Key", "Value"}:
            return [{"Key": key, "Value": text} for key, text in value.items()]
        if isinstance(value, list):
            return [_value(shape.member, one, table, f"{place}[{index}]") for index, one in enumerate(value)]
    if shape.type_name == "map" and isinstance(value, Mapping):
        return {key: _value(shape.value, one, table, f"{place}.{key}") for key, one in value.items()}
    if shape.type_name == "boolean" and value in ("true", "false"):
        return value == "true"  # the provider writes booleans as strings, so that false differs from unset
    return value  # the comparison with the API model reports a wrong type


_PLAUSIBLE = {
    "subnet": "subnet-0123456789abcdef0",
    "securitygroup": "sg-0123456789abcdef0",
    "groupid": "sg-0123456789abcdef0",
    "groups": "sg-0123456789abcdef0",
    "vpcid": "vpc-0123456789abcdef0",
    "rolename": "unknown",
    "arn": "arn:aws:iam::123456789012:role/unknown",
    "role": "arn:aws:iam::123456789012:role/unknown",
    "version": "1",
}


def plausible(shape: Shape, place: str) -> Any:
    """Return a value that AWS could accept at this place."""
    match shape.type_name:
        case "list":
            return [plausible(shape.member, place)]
        case "integer" | "long":
            return int(shape.metadata.get("min", 1))
        case "boolean":
            return True
        case "structure":
            return {name: plausible(shape.members[name], f"{place}.{name}") for name in shape.required_members}
        case "map":
            return {}
    if shape.metadata.get("enum"):
        return shape.metadata["enum"][0]
    last = place.rsplit(".", 1)[-1].casefold()
    return next((text for word, text in _PLAUSIBLE.items() if word in last), "unknown")
