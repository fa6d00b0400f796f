"""Generates the reference page for the stack file from its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from gpu_platform.cli.schema import stack_file_schema
from tools.docs.markdown import GENERATED, code, table

_INTRODUCTION = """
# Stack file

A stack file is `stacks/Pulumi.<stack>.yaml`. Everything is under `config`, key `gpu-platform:platform`; the
paths below begin there. An unknown field is an error. Editors complete and check the file with
`stacks/platform.schema.json` if its first line is `# yaml-language-server: $schema=./platform.schema.json`.
`gpu-platform schema` writes this schema.

Fields in **bold** are required.
"""
_REFERENCE = "#/$defs/"

Node = Mapping[str, Any]


def page() -> str:
    """Return the reference page in Markdown."""
    definitions: Mapping[str, Node] = stack_file_schema()["$defs"]
    places: dict[str, list[str]] = {}
    for root, path in (("Environment", ""), ("TeamStack", "")):
        _walk(root, path, definitions, places)
    sections = [_section(name, paths, definitions) for name, paths in places.items()]
    return GENERATED + _INTRODUCTION + "\n" + "\n".join(sections)


def _walk(name: str, path: str, definitions: Mapping[str, Node], places: dict[str, list[str]]) -> None:
    """Record all paths in the stack file at which each definition is used, in reading order."""
    first = name not in places
    paths = places.setdefault(name, [])
    if path not in paths:
        paths.append(path)
    if not first:
        return
    for field, node in definitions[name].get("properties", {}).items():
        below = f"{path}.{field}" if path else field
        for reference, suffix in _references(node):
            _walk(reference, below + suffix, definitions, places)


def _is_node(value: object) -> TypeGuard[Node]:
    return isinstance(value, Mapping)


def _references(node: Node) -> list[tuple[str, str]]:
    """Return the definitions that a field's type refers to, each with the suffix that it adds to the path: `[]` or
    `.<name>`.
    """
    if "$ref" in node:
        return [(node["$ref"].removeprefix(_REFERENCE), "")]
    found = [pair for key in ("anyOf", "oneOf") for option in node.get(key, ()) for pair in _references(option)]
    if _is_node(items := node.get("items")):
        found += [(name, "[]" + suffix) for name, suffix in _references(items)]
    if _is_node(values := node.get("additionalProperties")):
        found += [(name, ".<name>" + suffix) for name, suffix in _references(values)]
    return found


def _section(name: str, paths: list[str], definitions: Mapping[str, Node]) -> str:
    definition = definitions[name]
    required = definition.get("required", ())
    lines = [f"## {name}", ""]
    if at := [code(path) for path in paths if path]:
        lines += ["At " + ", ".join(at) + ".", ""]
    if text := definition.get("description"):
        lines += [text, ""]
    rows = [
        (
            f"**{code(field)}**" if field in required else code(field),
            _type(node),
            _default(node) if field not in required else "",
            _allowed(node),
            node.get("description", ""),
        )
        for field, node in definition.get("properties", {}).items()
    ]
    lines.append(table(("Field", "Type", "Default", "Allowed", "Description"), rows))
    return "\n".join(lines)


def _type(node: Node) -> str:
    if "$ref" in node:
        name = node["$ref"].removeprefix(_REFERENCE)
        return f"[{name}](#{name.lower()})"
    if options := [option for key in ("anyOf", "oneOf") for option in node.get(key, ())]:
        names = [_type(option) for option in options if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(names))
    if "const" in node or "enum" in node:
        return "string" if node.get("type", "string") == "string" else str(node["type"])
    match node.get("type"):
        case "array":
            return f"list of {_type(node.get('items', {}))}"
        case "object":
            values = node.get("additionalProperties")
            return f"map to {_type(values)}" if _is_node(values) else "map"
        case None:
            return "any"
        case kind:
            return str(kind)


def _default(node: Node) -> str:
    if "default" not in node:
        return ""
    value = node["default"]
    if value is None:
        return "unset"
    if isinstance(value, Mapping) and "$ref" in node:
        return "its defaults"
    return code(value) if isinstance(value, str) else code(json.dumps(value))


def _allowed(node: Node) -> str:
    """Return the limits of a field's values, including the limits of list items and of a union's options."""
    parts: list[str] = []
    if "const" in node:
        parts.append(code(node["const"]))
    if "enum" in node:
        parts.append(", ".join(code(value) for value in node["enum"]))
    low, high = node.get("minimum", node.get("exclusiveMinimum")), node.get("maximum")
    if low is not None or high is not None:
        more = "more than " if "exclusiveMinimum" in node else ""
        if high is None:
            parts.append(f"{more or 'at least '}{low:,}")
        else:
            parts.append(f"{more}{low:,} to {high:,}")
    if "pattern" in node:
        parts.append(code(node["pattern"]))
    if node.get("format"):
        parts.append(node["format"])
    least, most = (node.get(f"{word}Items", node.get(f"{word}Properties")) for word in ("min", "max"))
    if most is not None:
        parts.append(f"{least} to {most:,} entries" if least else f"at most {most:,} entries")
    elif least:
        parts.append("not empty")
    for key in ("anyOf", "oneOf"):
        parts += [_allowed(option) for option in node.get(key, ()) if "$ref" not in option]
    for key in ("items", "additionalProperties"):
        if _is_node(inner := node.get(key)) and "$ref" not in inner:
            parts.append(_allowed(inner))
    if examples := node.get("examples"):
        parts.append("such as " + ", ".join(code(example) for example in examples))
    return "; ".join(dict.fromkeys(part for part in parts if part))
