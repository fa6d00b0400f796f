"""The inputs of Azure resources, compared with the argument types of the provider's SDK.

The SDK is generated from the provider's schema. Its docstrings contain the values that the provider allows.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pulumi import _types

from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.deploy.recorded.record import ResourceRecord

_PRIMITIVES = {bool: bool, int: int, float: (int, float), str: str}


def unknown_inputs(record: ResourceRecord) -> list[str]:
    """Return every input of an Azure resource that the schema does not have, or whose value it refuses."""
    _, module, name = record.type.split(":")
    sdk = importlib.import_module(f"pulumi_azure.{module.partition('/')[0]}")
    return list(_compare(getattr(sdk, f"{name}Args"), record.inputs, name))


def _compare(args: type, inputs: Mapping[str, Any], path: str) -> Iterator[str]:
    types, names = _types.input_type_types(args), _types.input_type_py_to_pulumi_names(args)
    documented = {pulumi_name: getattr(args, name).__doc__ or "" for name, pulumi_name in names.items()}
    for key, value in inputs.items():
        if key not in types:
            yield f"{path}.{key}: the provider has no such argument"
        elif value is not None and value != UNKNOWN:
            yield from _value(types[key], value, f"{path}.{key}", documented[key])


def _value(expected: Any, value: Any, path: str, doc: str) -> Iterator[str]:
    if _types.is_input_type(expected):
        yield from _compare(expected, value, path)
    elif get_origin(expected) in (list, Sequence):
        if not isinstance(value, (list, tuple)):
            yield f"{path}: {value!r} is not a list"
            return
        for index, item in enumerate(value):
            yield from _value(_types.unwrap_type(get_args(expected)[0]), item, f"{path}[{index}]", doc)
    elif get_origin(expected) in (dict, Mapping):
        yield from (
            f"{path}.{key}: {item!r} is not a string" for key, item in value.items() if not isinstance(item, str)
        )
    elif not isinstance(value, _PRIMITIVES[expected]) or (expected is int and isinstance(value, bool)):
        yield f"{path}: {value!r} is not of type {expected.__name__}"
    elif expected is str and (allowed := possible_values(doc)) and value not in allowed:
        yield f"{path}: {value!r} is not one of {sorted(allowed)}"


def possible_values(doc: str) -> set[str]:
    """Return the values that a docstring lists as the only ones, or an empty set."""
    sentence = re.search(r"(?:Possible|Allowed|supported) values (?:are|is|include) ([^.]*`)", doc)
    return set(re.findall(r"`([^`]+)`", sentence[1])) if sentence else set()
