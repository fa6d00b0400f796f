"""Applies the fixes in error messages, where a program can apply them: `write key: value`, `remove key`,
`did you mean ..?`.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.stack import parse_platform

_STEP = re.compile(r"\[(\d+)\]|\.")
_MEANT = re.compile(r"did you mean '([^']+)'\?")
_REMOVED = re.compile(r"(?:^|, or |; or )remove ((?:[a-z_]+(?:, (?!or\b)|(?=[ ,:;]|$))+)|it\b)")
_KEYED = re.compile(r"(?:^|\bor )(?:for example, )?(?:(?:write|add) )?([a-z_][a-z_.]*): ?(?=\S)")
_PLAIN = re.compile(
    r"^(?:for example, )?write "
    r"('[^']*'|\"[^\"]*\"|[^ ,;]*\d[^ ,;]*)(?=$|[,;:]| or | without | for )"
)
_MOVED = re.compile(r"^move it to ([a-z_.\[\]0-9]+)$")
_USED = re.compile(r"^use ([a-z0-9]+[-.][a-z0-9.-]+)$")


def fixed_by(document: Mapping[str, Any], problem: Problem) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a description and the changed document for each change in a problem's fix that a program can make."""
    for what, path, value in _changes(document, problem):
        changed: Any = copy.deepcopy(dict(document))
        applied = _apply(changed, path, value)
        if applied and (
            also := re.search(rf"{re.escape(what)} and remove ([a-z_]+)", problem.fix.replace("`", ""))
        ):
            applied = _apply(changed, _place(changed, path, also.group(1)), _REMOVE)
        if applied and changed != document:
            yield what, changed


def _changes(document: Mapping[str, Any], problem: Problem) -> Iterator[tuple[str, tuple[str | int, ...], Any]]:
    path = steps(document, problem.path)
    if path is None:
        return
    here = _value(document, path)
    fix = problem.fix.replace("`", "")  # a reader ignores the backticks around names
    if found := _MEANT.search(fix):
        meant, last = found.group(1), path[-1]
        group, _, name = meant.partition(".")
        if isinstance(here, Mapping) and (near := difflib.get_close_matches(meant, [*map(str, here)], 1)):
            yield f"rename {near[0]} to {meant}", (*path, near[0]), _Renamed(meant)
        elif len(path) > 2 and name and isinstance(path[-2], str) and group.startswith(path[-2]):
            yield f"move it to {meant}", path, _Moved((*path[:-2], group, name))
        elif isinstance(last, str) and _alike(last, meant) > _alike(here, meant):
            yield f"rename {last} to {meant}", path, _Renamed(meant)
        else:
            yield f"write {meant}", path, meant
    for found in _REMOVED.finditer(fix):
        name = found.group(1)
        place = path if name == "it" else _place(document, path, name)
        if place is not None and _value(document, place) is not None:
            yield f"remove {name}", place, _REMOVE
    for found in _KEYED.finditer(fix):
        name, (value, after) = found.group(1), _value_and_rest(fix[found.end() :])
        if value is not None and not after.startswith(_ELSEWHERE):
            place = _place(document, path, name)
            yield f"write {name}: {value}", place, value
    if (found := _PLAIN.match(fix)) and not _KEYED.match(fix):
        value = yaml.safe_load(found.group(1))
        yield f"write {value}", path, value
    if found := _MOVED.match(fix):
        yield f"move it to {found.group(1)}", path, _Moved((*(steps(document, found.group(1)) or ()), path[-1]))
    if found := _USED.match(fix):
        yield f"use {found.group(1)}", path, found.group(1)


class _Renamed(str):
    """A change that gives the last key of a path this new name."""

    __slots__ = ()


class _Moved(tuple[str | int, ...]):
    """A change that moves the value at a path to this new location."""

    __slots__ = ()


_REMOVE = object()


def steps(document: Any, text: str) -> tuple[str | int, ...] | None:
    """Return the keys of a path such as `pools[0].sharing.mode`. A key in the document may itself contain dots."""
    found: list[str | int] = []
    here, rest = document, text
    while rest:
        if match := re.match(r"\[(\d+)\]\.?", rest):
            key: str | int = int(match.group(1))
            rest = rest[match.end() :]
        else:
            keys = (
                [key for key in here if rest == key or rest.startswith((f"{key}.", f"{key}["))]
                if (isinstance(here, Mapping))
                else []
            )
            match = re.match(r"([^.\[]+)", rest)
            if match is None:
                return None
            key = max(keys, key=len) if keys else match.group(1)
            rest = rest[len(key) :].removeprefix(".")
        found.append(key)
        here = _item(here, key)
    return tuple(found) or None


def _item(here: Any, key: str | int) -> Any:
    if isinstance(key, int):
        return here[key] if isinstance(here, Sequence) and not isinstance(here, str) and key < len(here) else None
    return here.get(key) if isinstance(here, Mapping) else None


def _value(document: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        document = _item(document, key)
    return document


def _place(document: Mapping[str, Any], path: tuple[str | int, ...], name: str) -> tuple[str | int, ...]:
    """Return the path of the field that a fix names. It is the given path, or a field of the nearest object that
    may have such a field.
    """
    if "." in name:
        return steps(document, name) or path
    if path[-1] == name:
        return path
    lengths = [length for length in range(len(path), 0, -1) if isinstance(path[length - 1], int | str)]
    for length in lengths:
        if isinstance(above := _value(document, path[:length]), Mapping) and name in above:
            return (*path[:length], name)
    for length in (*lengths, 0):
        if isinstance(_value(document, path[:length]), Mapping) and _may_have(document, path[:length], name):
            return (*path[:length], name)
    return (*path[:-1], name)


def _may_have(document: Mapping[str, Any], path: tuple[str | int, ...], name: str) -> bool:
    """Return whether the object at a path of a stack file may have a field."""
    changed = copy.deepcopy(dict(document))
    _apply(changed, (*path, name), {})
    try:
        parse_platform(changed, "")
    except BadInput as error:
        return not any(f"unknown key {name!r}" in problem.found for problem in error.problems)
    return True


_ELSEWHERE = (" in ", " there", " for train", " for all")


def _value_and_rest(text: str) -> tuple[Any, str]:
    """Return the value at the beginning of a text, and the text after the value. The value is None if it contains
    "...", which a person must replace.
    """
    if text[0] in "{[":
        depth = 0
        for index, one in enumerate(text):
            depth += (one in "{[") - (one in "}]")
            if depth == 0:
                inside = text[: index + 1]
                return (None if "..." in inside else yaml.safe_load(inside)), text[index + 1 :]
        return None, ""
    found = re.match(r"""('[^']*'|"[^"]*"|[^ ,;:()]+)""", text)
    return (yaml.safe_load(found.group(1)), text[found.end() :]) if found else (None, "")


def _alike(left: Any, right: str) -> float:
    return difflib.SequenceMatcher(None, left, right).ratio() if isinstance(left, str) else 0


def _apply(document: Any, path: Sequence[str | int], value: Any) -> bool:
    """Change a document in place. Returns False if the path does not exist."""
    *above, last = path
    here = document
    for key in above:
        below = isinstance(here, dict) and isinstance(key, str)
        here = here.setdefault(key, {}) if below else _item(here, key)
    if isinstance(here, list) and isinstance(last, int) and last < len(here):
        if value is _REMOVE:
            del here[last]
        else:
            here[last] = value
        return True
    if not isinstance(here, dict):
        return False
    if value is _REMOVE:
        return here.pop(last, None) is not None
    if isinstance(value, _Moved):
        return _apply(document, value, here.pop(last))
    if isinstance(value, _Renamed):
        here[str(value)] = here.pop(last)
    else:
        here[last] = value
    return True
