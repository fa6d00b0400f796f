"""Texts and pages name fields of the stack file by paths that exist."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gpu_platform.base.paths import PROJECT_ROOT

SCHEMA: Final[Mapping[str, Any]] = json.loads(
    (PROJECT_ROOT / "stacks" / "platform.schema.json").read_text("utf-8")
)
CODE: Final = ("gpu_platform", "components", "policies", "extensions")
INDEX: Final = re.compile(r"\[[^\]\s]{0,20}\]")
NO_FIELDS: Final = re.compile(r"\.(md|pyz|yaml|xml|com|googleapis|coreos|or|buckets)\b")
"""Endings of file names, API groups, permissions and CEL expressions that begin like a field."""

OTHER_PATHS: Final = ("adding-a-cloud.md", "architecture.md", "components.md", "recipes.md")
"""Documentation pages with paths of functions, component arguments and chart values."""


def forms(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    for kind in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(kind, ()):
            yield from forms(one)
    yield schema


def is_field(path: str, schema: Mapping[str, Any]) -> bool:
    """Return whether a path exists. Below a mapping that accepts any key, every path exists."""
    here = [schema]
    for key in re.findall(r"\[\]|[a-z0-9_]+", path):
        below: list[Mapping[str, Any]] = []
        for form in (form for each in here for form in forms(each)):
            if key == "[]" and "items" in form:
                below.append(form["items"])
            elif key in form.get("properties", {}):
                below.append(form["properties"][key])
            elif form.get("additionalProperties", form.get("type") == "object") is not False:
                return True
        if not below:
            return False
        here = below
    return True


def stack_file() -> Mapping[str, Any]:
    return SCHEMA["properties"]["config"]["properties"]["gpu-platform:platform"]


def named_fields(texts: Iterable[str]) -> Iterator[str]:
    top: list[str] = sorted({key for form in forms(stack_file()) for key in form.get("properties", {})})
    top.reverse()  # the expression must try `teams` before `team`
    part = r"(?:\[[^\]\s]{0,20}\])?"
    path = re.compile(rf"(?<![\w./:-])(?:{'|'.join(top)}){part}(?:\.[a-z_0-9]+{part})+")
    for text in texts:
        for match in path.finditer(text):
            if not NO_FIELDS.search(match[0]):
                yield INDEX.sub("[]", match[0])


def texts_of_code() -> Iterator[str]:
    for folder in CODE:
        for file in sorted((PROJECT_ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                    yield node.value


def pages() -> Iterator[str]:
    for file in sorted((PROJECT_ROOT / "docs").glob("*.md")):
        if file.name not in OTHER_PATHS:
            yield file.read_text("utf-8")


def unknown(texts: Iterable[str]) -> tuple[int, list[str]]:
    """Return how many fields the texts name, and the paths that the schema does not have."""
    fields = set(named_fields(texts))
    return len(fields), sorted(field for field in fields if not is_field(field, stack_file()))


def test_every_field_that_a_message_names_exists() -> None:
    count, missing = unknown(texts_of_code())
    assert missing == []
    assert count > 50


def test_every_field_that_a_page_names_exists() -> None:
    count, missing = unknown(pages())
    assert missing == []
    assert count > 50


def test_a_misspelt_field_is_found() -> None:
    assert unknown(["write operator.allocation: dra", "write pools[2].sharing.replicas: 4"])[1] == [
        "operator.allocation"
    ]
