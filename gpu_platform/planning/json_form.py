"""The Plan, or any part of it, as plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

from gpu_platform.planning.expectations.section import Expectations


def plan_to_json(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a Plan, or any part of it, as plain JSON values in a stable order."""
    if isinstance(value, Expectations):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name.rstrip("_"): plan_to_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plan_to_json(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [plan_to_json(item) for item in cast("tuple[object, ...]", value)]
    return value
