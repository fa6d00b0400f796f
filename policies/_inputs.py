"""Read-only access to the inputs of resources, as a path and the value at that path.

A rule must neither fail on malformed inputs nor pass values that are not visible to it. A missing key and a value
of the wrong type are both treated as absent, because the API server rejects wrong types. A value that is secret or
not known yet raises `NotVisible`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import cast

import yaml

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.deploy.recorded.properties import UNKNOWN

# Pulumi's sentinels for unknown values (boolean, number, array, asset, archive, object) and hidden secrets.
# The embedded engine and `pulumi policy analyze` both write the placeholder for hidden secrets.
_NOT_VISIBLE = frozenset(
    {
        UNKNOWN,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
        "[secret]",
    }
)

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_KEYS = re.compile(r"""\.?([A-Za-z0-9_-]+)|\[([0-9]+)\]|\["(.*?)"\]""")


class NotVisible(Exception):
    """Raised when a rule needs a value that is secret, is in another stack, or is not known before the deployment.

    `owner` is the URN of the resource that contains the value, and `path` is the path in the resource's inputs.
    """

    def __init__(self, owner: str, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.owner = owner
        self.path = path
        self.why = why


@dataclass(frozen=True, slots=True)
class Value:
    """A path in the inputs of the resource `owner` (a URN), and the value at that path. `raw` is None if there is
    no value.
    """

    owner: str
    path: str = ""
    raw: object = None

    @property
    def keys(self) -> tuple[str | int, ...]:
        """Mapping keys and list indices of the path, from the inputs to the value."""
        return tuple(int(index) if index else quoted or plain for plain, index, quoted in _KEYS.findall(self.path))

    def see(self) -> object:
        """Return the value. Raises NotVisible."""
        if isinstance(self.raw, str) and self.raw in _NOT_VISIBLE:
            raise self.not_visible("not known yet, or secret")
        return self.raw

    def not_visible(self, why: str) -> NotVisible:
        """Return the error to raise if this value is needed but not visible."""
        return NotVisible(self.owner, self.path, why)

    @property
    def present(self) -> bool:
        """Whether the path has a value, visible or not."""
        return self.raw is not None

    def get(self, *keys: str) -> Value:
        """Return the value at `keys` in nested mappings. Raises NotVisible if a mapping on the path is not
        visible.
        """
        value = self
        for key in keys:
            mapping = _mapping(value.see())
            value = Value(self.owner, _join(value.path, key), mapping.get(key))
        return value

    def items(self) -> tuple[Value, ...]:
        """Return the items of a list, or nothing if the value is not a list. Raises NotVisible."""
        seen = self.see()
        if isinstance(seen, str) or not isinstance(seen, Sequence):
            return ()
        listed = enumerate(cast("Sequence[object]", seen))
        return tuple(Value(self.owner, f"{self.path}[{index}]", item) for index, item in listed)

    def entries(self) -> tuple[tuple[str, Value], ...]:
        """Return the keys and values of a mapping, or nothing if the value is not a mapping. Raises NotVisible."""
        mapping = _mapping(self.see())
        return tuple((str(key), Value(self.owner, _join(self.path, str(key)), mapping[key])) for key in mapping)

    def text(self) -> str | None:
        """Return the value if it is a string. Raises NotVisible."""
        seen = self.see()
        return seen if isinstance(seen, str) else None

    def whole(self) -> int | None:
        """Return the value if it is a whole number, either a number or a string of digits. Raises NotVisible."""
        seen = self.see()
        if isinstance(seen, bool):
            return None
        if isinstance(seen, int):
            return seen
        if isinstance(seen, float) and seen.is_integer():
            return int(seen)
        if isinstance(seen, str) and re.fullmatch(r"[0-9]{1,18}", seen):
            return int(seen)
        return None

    def quantity(self) -> Decimal | None:
        """Return the value if it is a Kubernetes quantity, either a number or a string. Raises NotVisible."""
        seen = self.see()
        if isinstance(seen, bool) or not isinstance(seen, int | float | str):
            return None
        try:
            return parse_quantity(seen)
        except ValueError:
            return None

    def truth(self) -> bool:
        """Return whether the value is `true`. Raises NotVisible."""
        return self.see() is True

    def document(self) -> Value:
        """Return the data of a YAML string, or the value itself if it is not a string. Raises NotVisible."""
        seen = self.see()
        return Value(self.owner, self.path, _parse(seen)) if isinstance(seen, str) else self


@lru_cache(maxsize=256)
def _parse(text: str) -> object:
    """Parse a YAML string. Return None if it is not valid YAML. Callers must not modify the result."""
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):  # 2026-99-99 raises ValueError
        return None


def _mapping(value: object) -> Mapping[object, object]:
    """Return a mapping unchanged, or an empty mapping for any other value."""
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {}


def _join(path: str, key: str) -> str:
    if not _PLAIN_KEY.fullmatch(key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key
