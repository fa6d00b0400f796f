"""Texts of CEL that the rules of a namespace share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gpu_platform.base import names

IS_GPU_RESOURCE: Final = f"name.matches('^{names.GPU_RESOURCES}')"
"""That the resource `name` is a GPU, a share of one, or a MIG instance, as CEL."""


def text(value: str) -> str:
    """Return a text as a CEL literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def texts(values: Iterable[str]) -> str:
    """Return a list of texts as a CEL literal."""
    return "[" + ", ".join(text(value) for value in values) + "]"


def text_map(values: Mapping[str, str]) -> str:
    """Return a map of texts as a CEL literal."""
    return "{" + ", ".join(f"{text(key)}: {text(value)}" for key, value in sorted(values.items())) + "}"


def any_of(expressions: Iterable[str]) -> str:
    """Return that one of the expressions is true; false without any."""
    found = list(expressions)
    return " || ".join(f"({one})" for one in found) if found else "false"
