"""Replaces invalid values in a stack file, so that the valid values can be checked in the same run.

A misspelt key or value is replaced by the suggestion in the problem. An invalid required value is replaced by a
placeholder. An invalid optional value is removed.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, cast

import yaml
from pydantic import ValidationError

from gpu_platform.base.errors import Problem, suggestion
from gpu_platform.catalog.zones import region_of
from gpu_platform.stack.environment import Environment, TeamStack
from gpu_platform.stack.load import stack_adapter, to_json
from gpu_platform.stack.problems import NEAREST, UNKNOWN_KEY, path_text, problems_of

Path = tuple[str | int, ...]

# Values for required fields that are invalid or missing. `name` includes the index of its entry.
_POOL: Mapping[str, Any] = {
    "name": "placeholder-{}",
    "machine_type": "g4dn.xlarge",
    "count": {"desired": 1},
    "workload": "development",
}
_TEAM: Mapping[str, Any] = {
    "name": "placeholder-{}",
    "quota": {},
    "priority": "training",
    "members": ["group:placeholder"],
}
_ENTRIES: Mapping[str, Mapping[str, Any]] = {"pools": _POOL, "teams": _TEAM}
_TOP: Mapping[str, Any] = {"kind": "environment", "cluster": {"provider": "sandbox"}}
# Pool fields that the team checks depend on.
# `_PARTS` contains the top-level fields that the team checks depend on.
_POOL_FIELDS = {"name", "machine_type", "count", "sharing", "nodes", "per_node"}
_PARTS = {"sharing", "device_classes", "storage", "overcommit", "queueing", "cluster", "operator", "addons"}
# For each place that defines a name, the places that refer to the name.
# If a definition is replaced, a problem with a reference may be only a consequence of the replacement.
_REFERENCES: Mapping[str, str] = {
    r"priorities": r"teams\[\d+\]\.priority",
    r"teams\[\d+\](\.name)?": r"(storage\..*\.teams|team_identities)\b.*",
    r"sharing": r"pools\[\d+\]\.(sharing|per_node)\b.*",
}
# Fields that exclude each other, because an entry must have exactly one of them.
# If an invalid field is removed, its entry seems to have none of these fields.
_ONE_OF = re.compile(
    r"(teams\[\d+\]|team)\.((egress|ingress)\[\d+\]\.(cidr|fqdn|namespace)|identity\.\w+)"
    r"|pools\[\d+\]\.capacity\.(blocks|reservation)"
)
_ROUNDS = 12  # maximum number of attempts, because no value is nested more than 12 levels deep


@dataclass(frozen=True, slots=True)
class CompletedStack:
    """A stack with placeholders. `pools_are_real` is true if the team checks depend on no placeholder.

    `document` is the platform object that `stack` was validated from. `found` contains problems that only
    appear once other problems are solved, such as the problems of a mapping whose `provider` was misspelt.
    `renamed` maps corrected paths to the paths with the misspelt keys.
    """

    stack: Environment | TeamStack
    document: Mapping[str, Any]
    found: tuple[Problem, ...]
    pools_are_real: bool
    replaced: frozenset[str]
    renamed: Mapping[str, str]

    def in_file(self, problem: Problem) -> Problem:
        """Return a problem with its path as it is in the stack file, including misspelt keys."""
        for path, written in self.renamed.items():
            if re.match(rf"{re.escape(path)}(?=[.\[]|$)", problem.path):
                return replace(problem, path=written + problem.path[len(path) :])
        return problem

    def is_placeholder(self, path: str) -> bool:
        """Return whether the value at a path, or any value above it, is a placeholder or refers to one."""
        ends = [match.start() for match in re.finditer(r"[.\[]", path)]
        if any(path[:end] in self.replaced for end in (*ends, len(path))):
            return True
        if any(one.rpartition(".")[0] == path for one in self.replaced if _ONE_OF.fullmatch(one)):
            return True
        return any(
            re.fullmatch(part, replaced) and re.fullmatch(reference, path)
            for part, reference in _REFERENCES.items()
            for replaced in self.replaced
        )


def with_placeholders(platform: object, wrong: Sequence[Problem]) -> CompletedStack | None:
    """Return the platform object with its invalid values replaced, or None if it is still not valid."""
    if not isinstance(platform, Mapping):
        return None
    given = cast("Mapping[str, Any]", platform)
    if not isinstance(given.get("pools"), list) and not isinstance(given.get("team"), Mapping):
        return None
    document: dict[str, Any] = json.loads(to_json(cast("object", platform)))
    replaced: set[Path] = set()
    renamed: dict[str, str] = {}
    found: dict[str, Problem] = {}
    known = {problem.path for problem in wrong}
    for problem in wrong:
        _correct(document, problem, replaced, renamed)
    for _ in range(_ROUNDS):
        text = to_json(document)
        try:
            stack = stack_adapter().validate_json(text)
        except ValidationError as error:
            before = set(replaced)
            for problem in problems_of(error, document, stack_adapter()):
                path = split(problem.path, document)
                if problem.path not in known and not any(_same_branch(path, other) for other in before):
                    found.setdefault(problem.path, problem)
                    _correct(document, problem, replaced, renamed)
                else:
                    _replace(document, path, replaced)
            continue
        real = not any(_decides_for_teams(path) for path in replaced)
        paths = frozenset(map(path_text, replaced))
        return CompletedStack(stack, document, tuple(found.values()), real, paths, renamed)
    return None


def with_suggestions(document: Mapping[str, Any], wrong: Iterable[Problem]) -> dict[str, Any] | None:
    """Return a document in which each problem's suggestion is applied. Return None if a suggestion is missing or
    uncertain.
    """
    corrected = cast("dict[str, Any]", deepcopy(document))
    for problem in wrong:
        value, path = suggestion(problem.fix), split(problem.path, corrected)
        if value is None or not _exists(corrected, path):
            return None
        if not _is_certain(_container(corrected, path), value):
            return None
        _container(corrected, path[:-1])[path[-1]] = value
    return corrected


def split(path: str, document: object) -> Path:
    """Return the keys and indexes of a path such as `sharing.layout.1g.10gb`. `document` decides which keys
    contain dots.
    """
    parts: list[str | int] = []
    here, rest = document, path
    while rest:
        if item := re.match(r"\[(\d+)\]\.?", rest):
            part, rest = int(item[1]), rest[item.end() :]
            entries = cast("list[object]", here) if isinstance(here, list) else []
            here = entries[part] if part < len(entries) else None
            parts.append(part)
            continue
        mapping: Mapping[Any, Any] = cast("Mapping[Any, Any]", here) if isinstance(here, Mapping) else {}
        known = [str(key) for key in mapping if re.match(rf"{re.escape(str(key))}(?=[.\[]|$)", rest)]
        key = max(known, key=len, default=re.split(r"[.\[]", rest)[0])
        here, rest = mapping.get(key), rest[len(key) :].removeprefix(".")
        parts.append(key)
        if not key:
            break
    if path.endswith(".") and parts[-1:] != [""]:
        parts.append("")  # an empty key
    return tuple(parts)


def _is_certain(written: object, suggested: str) -> bool:
    """Return whether a value is so similar to a suggestion that it cannot mean anything else."""
    return difflib.SequenceMatcher(None, str(written).casefold(), suggested.casefold()).ratio() > 0.85


def _same_branch(path: Path, other: Path) -> bool:
    """Return whether one of the paths equals the other or is above it."""
    return all(one == two for one, two in zip(path, other, strict=False))


def _decides_for_teams(path: Path) -> bool:
    if path[0] == "pools":
        return len(path) < 3 or path[2] in _POOL_FIELDS
    return path[0] in _PARTS


def _correct(document: dict[str, Any], problem: Problem, replaced: set[Path], renamed: dict[str, str]) -> None:
    """Replace a value with the problem's suggestion, or else with a placeholder."""
    path, suggested = split(problem.path, document), suggestion(problem.fix)
    if not _exists(document, path):
        _replace(document, path, replaced)
        return
    container, last = _container(document, path[:-1]), path[-1]
    if problem.found.startswith(UNKNOWN_KEY):
        value = container.pop(last)
        if suggested is not None and suggested not in container:
            container[suggested] = value
            renamed[path_text([*path[:-1], suggested])] = problem.path
        else:
            replaced.add(path)
    elif suggested is not None:
        if not _is_certain(container[last], suggested):
            replaced.add(path)
        container[last] = suggested
    elif (nearest := re.match(NEAREST, problem.fix)) is not None and path not in replaced:
        container[last] = int(nearest[1])
        replaced.add(path)
    elif (meant := _meant_value(problem.fix, last, container[last])) is not None:
        container[last] = meant
    else:
        _replace(document, path, replaced)


def _meant_value(fix: str, key: str | int, value: object) -> object:
    """Return the value that a fix suggests instead of a value of the wrong type, or None if the fix only gives an
    example.
    """
    if isinstance(value, str) and fix == f"write {value.strip()} without quotes":
        return json.loads(value)
    if fix == f"write {key}: {{desired: {value}}}":
        return {"desired": value}
    if isinstance(value, str) and (region := region_of(value)) and fix == f"write {region}":
        return region
    if written := re.fullmatch(rf"write {re.escape(str(key))}: (\[.*\])", fix):
        entries = yaml.safe_load(written[1])
        found = " ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)
        return entries if " ".join(map(str, entries)).split() == found.split() else None
    return None


def _replace(document: dict[str, Any], path: Path, replaced: set[Path]) -> None:
    """Insert a placeholder at a path or at a path above it, or remove the value."""
    while path:
        placeholder = _placeholder(path)
        if placeholder is not None and _exists(document, path[:-1]):
            _container(document, path[:-1])[path[-1]] = placeholder
            replaced.add(path)
            return
        # If only some fields of the cluster were removed, the checks for its cloud would change.
        # The whole cluster is replaced instead.
        if isinstance(path[-1], str) and path[0] != "cluster" and _exists(document, path):
            del _container(document, path[:-1])[path[-1]]
            replaced.add(path)
            if path[0] == "sharing":
                replaced.update(_remove_sharing_names(document["pools"]))
            return
        path = path[:-1]


def _placeholder(path: Path) -> Any:  # noqa: ANN401 - a value of the file
    if path[0] in _ENTRIES and len(path) in (2, 3) and isinstance(path[1], int):
        fields = {
            name: value.format(path[1]) if isinstance(value, str) else deepcopy(value)
            for name, value in _ENTRIES[str(path[0])].items()
        }
        return fields if len(path) == 2 else fields.get(str(path[2]))
    if path[0] == "team" and len(path) == 2:
        return deepcopy(_TEAM.get(str(path[1]))) if path[1] != "name" else "placeholder"
    if path[0] == "priorities" and len(path) == 2:
        return 100
    return deepcopy(_TOP.get(str(path[0]))) if len(path) == 1 else None


def _container(document: Any, path: Path) -> Any:  # noqa: ANN401 - a mapping or a list of the file
    for part in path:
        document = document[part]
    return document


def _exists(document: object, path: Path) -> bool:
    here = document
    for part in path:
        if isinstance(here, Mapping) and part in (fields := cast("Mapping[Any, Any]", here)):
            here = fields[part]
        elif isinstance(here, list) and isinstance(part, int) and part < len(cast("list[Any]", here)):
            here = cast("list[Any]", here)[part]
        else:
            return False
    return True


def _remove_sharing_names(pools: object) -> list[Path]:
    """Remove references to named sharing settings that no longer exist, and return the paths of the references."""
    removed: list[Path] = []
    for index, pool in enumerate(cast("list[dict[str, Any]]", pools) if isinstance(pools, list) else ()):
        named = isinstance(pool.get("sharing"), str)
        for field in ("sharing", "per_node") if named else ("per_node",):
            if pool.pop(field, None) is not None:
                removed.append(("pools", index, field))
    return removed
