"""Functions that return a stack in which a change to a field has an effect, and the new values for the field."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from tests.stack.field_cases import ALTERNATIVES, CONTEXTS, STACKS, resolved
from tests.stack.stack_fields import Field, changed, place_of

_OTHER_VARIANT: Mapping[str, Any] = {
    "type": {"type": "spot"},
    "mode": {"mode": "time-slicing", "replicas": 4},
}


def stack_for(path: str, provider: str) -> dict[str, Any]:
    """Return the provider's stack, extended by the fields that the field at `path` requires."""
    platform: dict[str, Any] = copy.deepcopy(dict(STACKS[provider]))
    key = table_key(path)
    for place, context in sorted(CONTEXTS.items(), key=lambda item: len(item[0])):
        if key == place or key.startswith((f"{place}.", f"{place}[", f"{place}(", f"{place}{{")):
            for where, value in resolved(context, provider).items():
                platform = changed(platform, place_of(where, platform), resolved(value, provider))
    if path.startswith("sharing{}"):
        platform["sharing"] = {"named": platform["pools"][0].get("sharing", {"mode": "none"})}
        platform["pools"][0]["sharing"] = "named"
    return platform


def table_key(path: str) -> str:
    """Return the path under which the tables contain a field.

    The tables contain a named sharing as a pool's sharing, and the team of a team stack as an entry of `teams`.
    """
    return re.sub(r"^team\.", "teams[].", path).replace("sharing{}", "pools[].sharing")


def values_for(field: Field, found: Any, provider: str) -> list[Any] | str:
    """Return the new values for a field. If the tables lack an entry for the field, return a message about it."""
    values = resolved(ALTERNATIVES.get(table_key(field.path)), provider)
    if field.variant is not None and values is None:
        kind = "mode" if "sharing" in field.path else "type"
        default = {"mode": "none", "type": "on-demand"}[kind]
        if field.variant == default:
            return [_OTHER_VARIANT[kind]]
        if not isinstance(found, Mapping) or field.variant != found[kind]:
            return f"{field.path}: add a context that sets this variant (tests/stack/field_cases.py)"
        return [{kind: default}]
    if values is not None:
        return values
    current = field.default if found is None else found
    if field.options:
        return [option for option in field.options if option is not current and option != current]
    if isinstance(current, int | float):
        return [current + 1]
    return f"{field.path}: add another value for the field (tests/stack/field_cases.py)"
