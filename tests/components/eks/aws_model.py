"""Compares requests with the models of the AWS API: types, required members, enums, patterns and limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from botocore.validate import ParamValidator

from tests.components.eks.aws_api import Call, Shape, service_model


def problems(call: Call) -> list[str]:
    """Return how a request violates the AWS model of its operation.

    botocore itself checks types, unknown and required members, and lower limits. Its models also contain enums,
    patterns and upper limits, but only AWS's servers check these. This function checks everything.
    """
    shape = service_model(call.service).operation_model(call.operation).input_shape
    assert shape is not None
    report = ParamValidator().validate(call.parameters, shape)
    place = f"{call.service}.{call.operation}"
    found = [f"{place}: {report.generate_report()}"] if report.has_errors() else []
    return [*found, *_left_to_the_server(shape, call.parameters, place)]


def _left_to_the_server(shape: Shape, value: Any, place: str) -> Iterator[str]:
    if shape.type_name == "structure" and isinstance(value, dict):
        for key, inner in value.items():
            if key in shape.members:
                yield from _left_to_the_server(shape.members[key], inner, f"{place}.{key}")
    elif shape.type_name == "list" and isinstance(value, list):
        yield from _too_many(shape, len(value), place)
        for index, inner in enumerate(value):
            yield from _left_to_the_server(shape.member, inner, f"{place}[{index}]")
    elif shape.type_name == "map" and isinstance(value, dict):
        yield from _too_many(shape, len(value), place)
        for key, inner in value.items():
            yield from _left_to_the_server(shape.key, key, f"{place}[{key!r}]")
            yield from _left_to_the_server(shape.value, inner, f"{place}.{key}")
    elif isinstance(value, str):
        yield from _too_many(shape, len(value), place)
        allowed = shape.metadata.get("enum")
        if allowed and value not in allowed:
            yield f"{place}: {value!r} is not one of {allowed if len(allowed) < 20 else f'{len(allowed)} values'}"
        pattern = shape.metadata.get("pattern")
        if pattern and not re.fullmatch(_as_python(pattern), value):
            yield f"{place}: {value!r} does not match {pattern}"
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from _too_many(shape, value, place)


def _too_many(shape: Shape, size: int, place: str) -> Iterator[str]:
    most = shape.metadata.get("max")
    if most is not None and size > most:
        yield f"{place}: {size} is above {most}"


def _as_python(pattern: str) -> str:
    """Translate a Java pattern to Python, which writes character classes and surrogate pairs differently."""
    pattern = pattern.replace(r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010FFFF")
    return pattern.replace(r"\p{L}", r"\w").replace(r"\p{Z}", r"\s").replace(r"\p{N}", r"\d")
