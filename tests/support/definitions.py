"""Compares custom objects with the operators' real CustomResourceDefinitions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CRDS = os.environ.get("GPU_PLATFORM_CRDS", "")


def definition(file: str) -> dict[str, Any]:
    """Return a CustomResourceDefinition from a file in the folder `CRDS`."""
    return yaml.load((Path(CRDS) / f"{file}.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)


def unknown_fields(one: Mapping[str, Any], file: str) -> list[str]:
    """Return the fields of an object's spec that are missing, unknown or of the wrong type, according to the
    definition.
    """
    version = one["apiVersion"].rpartition("/")[2]
    versions = definition(file)["spec"]["versions"]
    (schema,) = (each["schema"]["openAPIV3Schema"] for each in versions if each["name"] == version)
    return list(_unknown(one["spec"], schema["properties"]["spec"], "spec"))


def _unknown(value: Any, schema: dict[str, Any], place: str) -> Iterator[str]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if (kind := schema.get("type")) in kinds and not isinstance(value, kinds[kind]):
        yield f"{place}: {value!r} is not of type {kind}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r}"
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties")
        yield from (f"{place}.{name} is missing" for name in schema.get("required", ()) if name not in value)
        for name, field in value.items():
            inner = properties.get(name, more if isinstance(more, dict) else None)
            if inner is None:
                yield f"{place}.{name}"
            else:
                yield from _unknown(field, inner, f"{place}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, schema.get("items", {}), f"{place}[{index}]")
