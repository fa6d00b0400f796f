"""Finds the line and column of a path such as `pools[2].sharing.replicas` in its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.stack.bounds import MAX_BYTES

CONFIG_KEYS = ("config", "gpu-platform:platform")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a text file. Lines and columns are counted from 1."""

    line: int
    column: int


def located(error: BadInput) -> BadInput:
    """Return an error about a YAML file with the line and column of each problem. Other errors are returned
    unchanged.
    """
    path = Path(error.source)
    if path.suffix not in (".yaml", ".yml") or not path.is_file() or path.stat().st_size > MAX_BYTES:
        return error
    positions = Positions(path)
    problems = [_at(problem, positions.of(problem.path)) for problem in error.problems]
    return BadInput(error.source, sorted(problems, key=lambda problem: (problem.line, problem.column)))


def _at(problem: Problem, place: Position) -> Problem:
    return (
        problem
        if problem.line or problem.path.startswith("(")
        else replace(problem, line=place.line, column=place.column)
    )


class Positions:
    """The places of all keys and items in a stack file or another YAML file."""

    def __init__(self, path: Path) -> None:
        """Read a file. If it is not valid YAML, the place of every path is the first line of the file."""
        self._documents: list[yaml.Node] = []
        try:
            compose: Callable[..., Iterable[yaml.Node]] = yaml.compose_all
            self._documents = list(compose(path.read_text("utf-8"), Loader=yaml.CSafeLoader))
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
            return

    def of(self, path: str) -> Position:
        """Return the place of a path such as `pools[2].sharing.replicas`, or else of the nearest existing path
        above it.

        The path `document 2.metadata.name` is in the second document of a file.
        """
        written = re.fullmatch(r"line (\d+), column (\d+)", path)
        if written is not None:
            return Position(int(written[1]), int(written[2]))
        number = re.match(r"document (\d+)\.?", path)  # a path in a file with several documents
        index, path = (int(number[1]) - 1, path[number.end() :]) if number is not None else (0, path)
        node = self._documents[index] if index < len(self._documents) else None
        whole = path.startswith(CONFIG_KEYS[0]) or _entry(node, CONFIG_KEYS[0]) is None
        place = _position(node) if node is not None and index else Position(1, 1)
        for key in () if whole else CONFIG_KEYS:
            at, node = _entry(node, key) or (None, None)
            place = _position(at) if at is not None else place
        rest = path
        while rest and (found := _first(node, rest)):
            at, node, rest = found
            place = _position(at)
        return place


def _position(node: yaml.Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def _first(node: yaml.Node | None, path: str) -> tuple[yaml.Node, yaml.Node, str] | None:
    """Return the YAML nodes of the first key of a path and of its value, and the rest of the path. For a list
    item, both nodes are the item.
    """
    if item := re.match(r"\[(?:(\d+)|\"([^\"]*)\")\]\.?", path):
        entry = _entry(node, item[1] or item[2])
        return (*entry, path[item.end() :]) if entry else None
    if not isinstance(node, yaml.MappingNode):
        return None
    keys = [str(name.value) for name, _ in node.value]
    # Keys may contain dots, such as 1g.10gb, so the longest key at the start of the path is the right one.
    begins = [key for key in keys if key and re.match(rf"{re.escape(key)}(?=[.\[]|$)", path)]
    key = max(begins, key=len, default="")
    entry = _entry(node, key) if key else None
    return (*entry, path[len(key) :].removeprefix(".")) if entry else None


def _entry(node: yaml.Node | None, key: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the YAML nodes of a key and of its value. For a list item, both nodes are the item."""
    if isinstance(node, yaml.MappingNode):
        return next(((name, value) for name, value in node.value if name.value == key), None)
    if isinstance(node, yaml.SequenceNode) and key.isdecimal() and int(key) < len(node.value):
        item: yaml.Node = node.value[int(key)]
        return item, item
    return None
