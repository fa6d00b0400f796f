"""Replaces invalid parts of a stack file by placeholders, so that one run can also check the valid parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError

from gpu_platform.spec.load import stack_adapter, to_json
from gpu_platform.spec.stack import Environment

# Values for required fields that are invalid or missing; invalid optional fields are removed instead.
_POOL_PLACEHOLDERS: Mapping[str, Any] = {
    "machine_type": "g4dn.xlarge",
    "count": {"desired": 1},
    "workload": "development",
}
_TEAM_PLACEHOLDERS: Mapping[str, Any] = {"quota": {}, "priority": "training", "members": ["group:placeholder"]}
_TOP_PLACEHOLDERS: Mapping[str, Any] = {"kind": "environment", "cluster": {"provider": "sandbox"}}
# Fields of a pool that determine its resources, which team quotas are checked against.
_RESOURCE_FIELDS = {"machine_type", "count", "sharing", "nodes", "per_node"}
_ENTRY = re.compile(r"(pools|teams)\[(\d+)\](?:\.([^.\[]+))?.*")


@dataclass(frozen=True, slots=True)
class CompletedEnvironment:
    """An environment with placeholders; `pools_are_real`: no placeholder changes the resources of a pool."""

    environment: Environment
    pools_are_real: bool
    replaced: frozenset[str]

    def is_placeholder(self, path: str) -> bool:
        """Return whether the value at a path, or one above it, is a placeholder."""
        ends = [match.start() for match in re.finditer(r"[.\[]", path)]
        return any(path[:end] in self.replaced for end in (*ends, len(path)))


def with_placeholders(platform: object, wrong: Iterable[str]) -> CompletedEnvironment | None:
    """Return a platform object with placeholders at the paths in `wrong`; None if it still is no environment."""
    if not isinstance(platform, Mapping) or not isinstance(cast("Mapping[str, Any]", platform).get("pools"), list):
        return None
    completed: dict[str, Any] = {**cast("Mapping[str, Any]", platform)}
    replaced: set[str] = set()
    real = True
    for part in ("pools", "teams"):
        entries = completed.get(part)
        if isinstance(entries, list):
            completed[part] = [_entry(entry) for entry in cast("list[object]", entries)]
    for path in wrong:
        match = _ENTRY.fullmatch(path)
        part, index, field = match.groups() if match else (re.split(r"[.\[]", path)[0], None, None)
        if index is None:
            replaced.add(part)
            _replace(completed, part, _TOP_PLACEHOLDERS)
            if part == "sharing":
                replaced.update(_remove_sharing_names(completed["pools"]))
                real = False
            continue
        if part in replaced:  # the whole list is a placeholder already
            continue
        entry: dict[str, Any] = completed[part][int(index)]
        placeholders = _POOL_PLACEHOLDERS if part == "pools" else _TEAM_PLACEHOLDERS
        for name in [field] if field else [*placeholders, "name"]:
            replaced.add(f"{part}[{index}].{name}")
            _replace(entry, name, {**placeholders, "name": f"placeholder-{index}"})
            real = real and not (part == "pools" and name in _RESOURCE_FIELDS)
    try:
        environment = stack_adapter().validate_json(to_json(completed))
    except ValidationError:
        return None
    return (
        CompletedEnvironment(environment, real, frozenset(replaced))
        if isinstance(environment, Environment)
        else None
    )


def _remove_sharing_names(pools: object) -> list[str]:
    """Remove references to named sharings, which do not exist any more; return their paths."""
    removed: list[str] = []
    for index, pool in enumerate(cast("list[dict[str, Any]]", pools) if isinstance(pools, list) else ()):
        named = isinstance(pool.get("sharing"), str)
        for field in ("sharing", "per_node") if named else ("per_node",):
            if pool.pop(field, None) is not None:
                removed.append(f"pools[{index}].{field}")
    return removed


def _entry(entry: object) -> dict[str, Any]:
    return {**cast("Mapping[str, Any]", entry)} if isinstance(entry, Mapping) else {}


def _replace(into: dict[str, Any], name: str, placeholders: Mapping[str, Any]) -> None:
    if name in placeholders:
        into[name] = placeholders[name]
    else:
        into.pop(name, None)
