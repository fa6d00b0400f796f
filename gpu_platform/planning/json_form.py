"""Conversion of the Plan, or any part of it, to plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, Protocol, cast

NOT_IN_JSON: Final = {"json": False}
"""Metadata of a dataclass field that the JSON form omits, because other fields determine its value."""


class HasJsonForm(Protocol):
    """A part of the Plan that defines its own JSON form, which other programs read."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        ...


@cache  # cached by class, because isinstance with a protocol checks the attributes of every value
def _has_json_form(kind: type[Any]) -> bool:
    return callable(getattr(kind, "to_json", None))


@cache  # cached by class, because `fields` collects the fields on each call, and a Plan has thousands of parts
def _names(kind: type[Any]) -> tuple[tuple[str, str], ...] | None:
    """Return the attributes of a dataclass and their names in JSON, or None for any other class."""
    if not is_dataclass(kind):
        return None
    return tuple((one.name, one.name.rstrip("_")) for one in fields(kind) if one.metadata.get("json", True))


def plan_to_json(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a Plan, or any part of it, as plain JSON values in a stable order."""
    if value is None or isinstance(value, str | int | float):
        return value
    if _has_json_form(type(value)):
        return cast("HasJsonForm", value).to_json()
    if (names := _names(type(value))) is not None:
        return {key: plan_to_json(getattr(value, name)) for name, key in names}
    if isinstance(value, Mapping):
        return {str(key): plan_to_json(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plan_to_json(item) for item in cast("tuple[object, ...]", value)]
    return value
