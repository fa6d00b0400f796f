"""Where a path of the platform object is written in its stack file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

CONFIG_KEYS = ("config", "gpu-platform:platform")
_PART = re.compile(r"\[(\d+)\]|\[\"([^\"]*)\"\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a text file; line and column count from 1."""

    line: int
    column: int


class Positions:
    """The places of all keys and items of one stack file."""

    def __init__(self, path: Path) -> None:
        """Read a file; one that is no YAML has its first line for every path."""
        self._root: yaml.Node | None = None
        try:
            compose: Callable[..., yaml.Node | None] = yaml.compose  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - no types in PyYAML
            self._root = compose(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
            return

    def of(self, path: str) -> Position:
        """Return where a path such as `pools[2].sharing.replicas` is written, or the nearest part above it."""
        written = re.fullmatch(r"line (\d+), column (\d+)", path)
        if written is not None:
            return Position(int(written[1]), int(written[2]))
        parts = [found[1] or found[2] or found[3] for found in _PART.finditer(path)]
        keys = parts if parts[:1] == [CONFIG_KEYS[0]] else [*CONFIG_KEYS, *parts]
        node, place = self._root, Position(1, 1)
        for key in keys:
            entry = _entry(node, key)
            if entry is None:
                break
            at, node = entry
            place = Position(at.start_mark.line + 1, at.start_mark.column + 1)
        return place


def _entry(node: yaml.Node | None, key: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the node that marks a key or an item, and the node of its value."""
    if isinstance(node, yaml.MappingNode):
        return next(((name, value) for name, value in node.value if name.value == key), None)
    if isinstance(node, yaml.SequenceNode) and key.isdecimal() and int(key) < len(node.value):
        item: yaml.Node = node.value[int(key)]
        return item, item
    return None
