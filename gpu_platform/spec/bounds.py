"""Limits of a YAML file, checked on its events before anything is constructed.

A few hundred bytes of YAML can stand for gigabytes (aliases of aliases), and nesting of some ten thousand
levels ends the process. The limits are far above what a platform needs: a stack file of 200 pools and 1,000
teams has about 30,000 values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, cast

import yaml

from gpu_platform.errors import Problem

MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 50
MAX_ALIASES: Final = 1_000
MAX_VALUES: Final = 100_000

_OCTAL: Final = re.compile(r"[-+]?0[0-7_]+")
_SEXAGESIMAL: Final = re.compile(r"[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+")


def read_text(path: Path) -> str | Problem:
    """Return the text of a file, or the problem of one that is unreadable or larger than MAX_BYTES."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)  # a pipe or device has no size
        if len(data) > MAX_BYTES:
            size = path.stat().st_size
            found = f"{size:,} bytes" if size > MAX_BYTES else f"more than {MAX_BYTES:,} bytes"
            return _whole(found, f"at most {MAX_BYTES:,} bytes (1 MiB)", "write the platform in several stacks")
        return data.decode("utf-8")
    except FileNotFoundError:
        fix = f"give the path of a file; the current folder is {Path.cwd()}"
        return Problem("(the whole file)", "no such file", "a readable UTF-8 file", fix)
    except (OSError, UnicodeDecodeError) as error:
        return Problem("(the whole file)", str(error), "a readable UTF-8 file", "name another file")


def out_of_bounds(text: str, old_numbers: list[Problem]) -> Problem | None:
    """Return the first limit that a YAML text exceeds; add numbers that YAML 1.1 reads in another base to a list.

    Raises yaml.YAMLError for text that is not YAML.
    """
    sizes: dict[str, int] = {}  # number of values by anchor, aliases expanded
    open_collections: list[tuple[str | None, int]] = []  # anchor of each, and number of values before it
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
            if event.implicit[0] and (problem := _old_integer(event)):
                old_numbers.append(problem)
        if len(open_collections) > MAX_DEPTH:
            return _at(event, f"nesting deeper than {MAX_DEPTH} levels", f"at most {MAX_DEPTH} levels", "")
        if aliases > MAX_ALIASES:
            return _at(event, f"more than {MAX_ALIASES:,} aliases", f"at most {MAX_ALIASES:,}", _WRITE_OUT)
        if values > MAX_VALUES:
            found = f"more than {MAX_VALUES:,} values" + (", aliases written out" if aliases else "")
            return _at(event, found, f"at most {MAX_VALUES:,} values in a file", _WRITE_OUT if aliases else "")
    return None


_WRITE_OUT: Final = "write the values without aliases of aliases"


def _events(text: str) -> Iterator[yaml.Event]:
    parse: Callable[..., Iterator[yaml.Event]] = yaml.parse
    yield from parse(text, Loader=yaml.CSafeLoader)


def _old_integer(event: yaml.ScalarEvent) -> Problem | None:
    """Return the problem of `010` (8 in YAML 1.1) or `1:30` (90), which most readers take for something else."""
    text = str(event.value)
    if _OCTAL.fullmatch(text):
        value, kind, meant = int(text.replace("_", ""), 8), "an octal number", text.replace("_", "").lstrip("+-0")
    elif _SEXAGESIMAL.fullmatch(text):
        value = 0
        for part in text.replace("_", "").lstrip("+-").split(":"):
            value = 60 * value + int(part)
        kind, meant = "a number in base 60", ""
    else:
        return None
    fix = f"write {meant or '0'} for the number, " if kind.startswith("an octal") else f"write {value}, "
    return _at(event, f"{text}, {kind} in YAML 1.1 ({value})", "decimal numbers", f'{fix}or "{text}" for the text')


def _at(event: yaml.Event, found: str, allowed: str, fix: str) -> Problem:
    mark = cast("yaml.Mark", event.start_mark)  # a parsed event has its place
    return Problem(f"line {mark.line + 1}, column {mark.column + 1}", found, allowed, fix)


def _whole(found: str, allowed: str, fix: str) -> Problem:
    return Problem("(the whole file)", found, allowed, fix)
