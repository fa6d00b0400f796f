"""Limits for YAML files and unclear scalars, checked on the parser's events before any value is constructed.

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

# Unquoted scalars that the Pulumi CLI reads as numbers or times, although they may be meant as other values.
# Source: gopkg.in/yaml.v3, which the CLI uses (resolve.go, v3.0.1; read 2026-11-30).
_OCTAL: Final = re.compile(r"[-+]?0o[0-7_]+")
_LEADING_ZERO: Final = re.compile(r"[-+]?0[0-9_]+")
_EXPONENT: Final = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)[eE][-+]?\d+")
_DAY: Final = re.compile(r"\d{4}-\d\d?-\d\d?")
_KEY_OF_DAY: Final = "until"  # the only field with a day instead of a time
_MOST_DIGITS: Final = 15


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


def out_of_bounds(text: str, unclear: list[Problem] | None = None) -> Problem | None:
    """Return a problem for the first limit that a YAML text exceeds, or None. Add a problem to `unclear` for each
    octal number, number in scientific notation, and day without quotes.

    Raises yaml.YAMLError if the text is not YAML.
    """
    sizes: dict[str, int] = {}  # number of values by anchor, with aliases expanded
    open_collections: list[
        tuple[str | None, int]
    ] = []  # anchor of each collection, and number of values before it
    values = aliases = 0
    last = ""  # the previous scalar, which may be the key of the current scalar
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
            if unclear is not None and event.implicit[0] and (problem := _unclear(event, last)):
                unclear.append(problem)
            last = str(event.value)
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


def _unclear(event: yaml.ScalarEvent, key: str) -> Problem | None:
    """Return a problem if a reader may take a scalar for another value than YAML does, otherwise None.

    Examples are `1e5`, `2026-11-30`, and `010`, which is the number 8 in YAML 1.1. `key` is the previous scalar in
    the file. It is the scalar's key if the scalar is a value in a mapping.
    """
    text = str(event.value)
    if _DAY.fullmatch(text) and key != _KEY_OF_DAY:
        fix = f'write "{text}" for the text, or a time such as {text}T00:00:00Z'
        return _at(event, f"{text}, which YAML reads as a time", "a time with a time zone, or quotes", fix)
    digits = text.replace("_", "").lstrip("+")
    if _OCTAL.fullmatch(text):
        what, number = "an octal number", str(int(digits, 8))
    elif _LEADING_ZERO.fullmatch(text):
        octal = re.fullmatch("-?[0-7]+", digits)
        what = f"an octal number in YAML 1.1 ({int(digits, 8)})" if octal else "a number that begins with 0"
        number = str(int(digits))
    elif _EXPONENT.fullmatch(text):
        what, number = "a number in scientific notation", f"{float(digits):.{_MOST_DIGITS}g}"
    else:
        return None
    fix = f'write {number} for the number, or "{text}" for the text'
    if "e" in number:  # too large or too small to write without an exponent
        fix = f'write "{text}" in quotes'
    return _at(event, f"{text}, {what}", "decimal numbers", fix)


def _at(event: yaml.Event, found: str, allowed: str, fix: str) -> Problem:
    mark = cast("yaml.Mark", event.start_mark)  # parsed events always have a start mark
    return Problem(place_of(mark), found, allowed, fix)


def place_of(mark: yaml.Mark) -> str:
    """Return the line and column of a place in a YAML text, both counted from 1."""
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _whole(found: str, allowed: str, fix: str) -> Problem:
    return Problem("(the whole file)", found, allowed, fix)
