"""Limits for YAML files, checked on the parser's events before any value is constructed.

With nested aliases, a few hundred bytes of YAML can expand to gigabytes. About ten thousand levels of nesting
crash the process. The limits are far above the needs of a platform: a stack file with 200 pools and 1,000 teams
has about 30,000 values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, cast

import yaml

from gpu_platform.base.errors import Problem

MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 50
MAX_ALIASES: Final = 1_000
MAX_VALUES: Final = 100_000

_OCTAL: Final = re.compile(r"[-+]?0[0-7_]+")


def read_text(path: Path) -> str | Problem:
    """Return the text of a file, or the problem if the file is unreadable or larger than MAX_BYTES."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)  # the size of a pipe or device is unknown
        if len(data) > MAX_BYTES:
            size = path.stat().st_size
            found = f"{size:,} bytes" if size > MAX_BYTES else f"more than {MAX_BYTES:,} bytes"
            return _whole(found, f"at most {MAX_BYTES:,} bytes (1 MiB)", "split the platform into several stacks")
        return data.decode("utf-8")
    except FileNotFoundError:
        fix = f"give the path of a file; the current folder is {Path.cwd()}"
        return Problem("(the whole file)", "no such file", "a readable UTF-8 file", fix)
    except UnicodeDecodeError:
        return Problem(
            "(the whole file)", "bytes that are not UTF-8 text", "a readable UTF-8 file", "save it as UTF-8"
        )
    except OSError as error:
        return Problem("(the whole file)", str(error), "a readable UTF-8 file", "name another file")


def out_of_bounds(text: str, octals: list[Problem]) -> Problem | None:
    """Return a problem for the first limit that a YAML text exceeds, or None. Add a problem to `octals` for each
    octal number in YAML 1.1 notation.

    Raises yaml.YAMLError if the text is not YAML.
    """
    sizes: dict[str, int] = {}  # number of values by anchor, with aliases expanded
    open_collections: list[
        tuple[str | None, int]
    ] = []  # anchor of each collection, and number of values before it
    values = aliases = 0
    for event in _events(text):
        if isinstance(event, yaml.AliasEvent):
            aliases += 1
            if event.anchor in {anchor for anchor, _ in open_collections}:
                return _at(
                    event, f"the alias *{event.anchor} inside its own value", "values that end", "remove it"
                )
            values += sizes.get(str(event.anchor), 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_collections.append((event.anchor, values))
            values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_collections.pop()
            if anchor:
                sizes[anchor] = values - before
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            if event.anchor:
                sizes[event.anchor] = 1
            if event.implicit[0] and (problem := _octal(event)):
                octals.append(problem)
        if len(open_collections) > MAX_DEPTH:
            return _at(event, f"nesting deeper than {MAX_DEPTH} levels", f"at most {MAX_DEPTH} levels", "")
        if aliases > MAX_ALIASES:
            return _at(event, f"more than {MAX_ALIASES:,} aliases", f"at most {MAX_ALIASES:,}", _WRITE_OUT)
        if values > MAX_VALUES:
            found = f"more than {MAX_VALUES:,} values" + (", with aliases expanded" if aliases else "")
            return _at(event, found, f"at most {MAX_VALUES:,} values in a file", _WRITE_OUT if aliases else "")
    return None


_WRITE_OUT: Final = "write the values without aliases of aliases"


def _events(text: str) -> Iterator[yaml.Event]:
    parse: Callable[..., Iterator[yaml.Event]] = yaml.parse
    yield from parse(text, Loader=yaml.CSafeLoader)


def _octal(event: yaml.ScalarEvent) -> Problem | None:
    """Return a problem for a number such as `010`, which is 8 in YAML 1.1 but looks like 10 to most readers."""
    text = str(event.value)
    if not _OCTAL.fullmatch(text):
        return None
    digits = text.replace("_", "")
    found = f"{text}, an octal number in YAML 1.1 ({int(digits, 8)})"
    fix = f'write {digits.lstrip("+-0") or "0"} for the number, or "{text}" for the text'
    return _at(event, found, "decimal numbers", fix)


def _at(event: yaml.Event, found: str, allowed: str, fix: str) -> Problem:
    mark = cast("yaml.Mark", event.start_mark)  # parsed events always have a start mark
    return Problem(f"line {mark.line + 1}, column {mark.column + 1}", found, allowed, fix)


def _whole(found: str, allowed: str, fix: str) -> Problem:
    return Problem("(the whole file)", found, allowed, fix)
