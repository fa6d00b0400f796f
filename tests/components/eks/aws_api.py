"""Turns recorded inputs of aws: resources into the requests that the provider makes of them, as AWS spells them.

Most inputs are called as in the API but for their case; where the provider has its own word, a table says so and
only there. An input that neither the API nor a table knows is an error, so nothing passes unseen. What is unknown
before the deploy becomes a plausible value of the type that the API has there.
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
SUFFIX = "-1a2b3c4"  # Pulumi names what has no name after its logical name


class NotInTheApi(AssertionError):
    """An input that the API of AWS does not have; the message says where it stands."""


@dataclass(frozen=True)
class Call:
    """One request: boto3's service and operation, and the parameters."""

    service: str
    operation: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Spelt:
    """An input whose parameter is called otherwise."""

    api: str
    convert: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True)
class ProvidersOwn:
    """An input that reaches no parameter of this request."""

    why: str


Shape = Any  # of botocore.model: which of members, member, key and value it has depends on its kind
Table = Mapping[tuple[str, str], Spelt | ProvidersOwn]
"""By shape of the API and input key."""


@cache
def service_model(service: str) -> ServiceModel:
    """Return botocore's model of a service: what boto3 and AWS's own command line work from."""
    return botocore.session.get_session().get_service_model(service)


def call(service: str, operation: str, inputs: Mapping[str, Any], table: Table | None = None) -> Call:
    """Return the request that has these inputs as parameters."""
    shape = service_model(service).operation_model(operation).input_shape
    assert shape is not None
    return Call(service, operation, _structure(shape, inputs, table or {}, f"{service}.{operation}"))


def without(inputs: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return the other inputs."""
    return {key: value for key, value in inputs.items() if key not in keys}


def tags(kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return EC2's way to tag what a request makes."""
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
        return value == "true"  # the provider's way to tell false from nothing
    return value  # of a wrong type: the API's model says so


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
    """Return a value that AWS could take there."""
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
