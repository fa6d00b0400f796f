"""Puts filler where a stack file is wrong, so that what is right can be judged in the same run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError

from gpu_platform.spec.load import stack_adapter, to_json
from gpu_platform.spec.stack import Environment

# What stands in for a field that is wrong or missing; optional fields are left out instead.
_POOL_FILLER: Mapping[str, Any] = {
    "machine_type": "g4dn.xlarge",
    "count": {"desired": 1},
    "workload": "development",
}
_TEAM_FILLER: Mapping[str, Any] = {"quota": {}, "priority": "training", "members": ["group:filler"]}
_TOP_FILLER: Mapping[str, Any] = {"kind": "environment", "cluster": {"provider": "sandbox"}}
# Fields of a pool on which the judgement of the teams rests.
_OFFER = {"machine_type", "count", "sharing", "nodes", "per_node"}
_ENTRY = re.compile(r"(pools|teams)\[(\d+)\](?:\.([^.\[]+))?.*")


@dataclass(frozen=True, slots=True)
class Mended:
    """An environment with filler. `pools_are_real`: what the pools offer is what the file says."""

    environment: Environment
    pools_are_real: bool
    filled: tuple[str, ...]

    def is_filler(self, path: str) -> bool:
        """Return whether a place of the file holds filler, or something below it."""
        return any(path == place or path.startswith((f"{place}.", f"{place}[")) for place in self.filled)


def mend(platform: object, wrong: Iterable[str]) -> Mended | None:
    """Return a platform object with filler at the places that are `wrong`; None where nothing is left to judge."""
    if not isinstance(platform, Mapping) or not isinstance(cast("Mapping[str, Any]", platform).get("pools"), list):
        return None
    mended: dict[str, Any] = {**cast("Mapping[str, Any]", platform)}
    filled: list[str] = []
    real = True
    for part in ("pools", "teams"):
        entries = mended.get(part)
        if isinstance(entries, list):
            mended[part] = [_entry(entry) for entry in cast("list[object]", entries)]
    for path in wrong:
        match = _ENTRY.fullmatch(path)
        part, index, field = match.groups() if match else (re.split(r"[.\[]", path)[0], None, None)
        if index is None:
            filled.append(part)
            _fill(mended, part, _TOP_FILLER)
            if part == "sharing":
                filled += _forget_names(mended["pools"])
                real = False
            continue
        if part in filled:  # the whole list is filler already
            continue
        entry: dict[str, Any] = mended[part][int(index)]
        filler = _POOL_FILLER if part == "pools" else _TEAM_FILLER
        for name in [field] if field else [*filler, "name"]:
            filled.append(f"{part}[{index}].{name}")
            _fill(entry, name, {**filler, "name": f"filler-{index}"})
            real = real and not (part == "pools" and name in _OFFER)
    try:
        environment = stack_adapter().validate_json(to_json(mended))
    except ValidationError:
        return None
    return Mended(environment, real, tuple(filled)) if isinstance(environment, Environment) else None


def _forget_names(pools: object) -> list[str]:
    """Take the names of sharing from the pools, since there are none; return the places."""
    forgotten: list[str] = []
    for index, pool in enumerate(cast("list[dict[str, Any]]", pools) if isinstance(pools, list) else ()):
        named = isinstance(pool.get("sharing"), str)
        for field in ("sharing", "per_node") if named else ("per_node",):
            if pool.pop(field, None) is not None:
                forgotten.append(f"pools[{index}].{field}")
    return forgotten


def _entry(entry: object) -> dict[str, Any]:
    return {**cast("Mapping[str, Any]", entry)} if isinstance(entry, Mapping) else {}


def _fill(into: dict[str, Any], name: str, filler: Mapping[str, Any]) -> None:
    if name in filler:
        into[name] = filler[name]
    else:
        into.pop(name, None)
