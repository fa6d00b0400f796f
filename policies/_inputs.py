"""Plain data as a rule reads it: a place in a resource's inputs, and what is there.

A rule must neither crash on odd data nor pass what it could not see. So reading is forgiving (a missing key or a
value of another type is absent; rejecting it is the API server's work) but reading a value that is not known
yet, or that is secret, raises `NotVisible`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import yaml

from gpu_platform.engine.properties import UNKNOWN
from gpu_platform.quantity import parse_quantity

# A record's unknown, Pulumi's other sentinels by type (boolean, number, array, asset, archive, object), and the
# mark of a hidden secret, which the embedded engine and `pulumi policy analyze` both write.
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


class NotVisible(Exception):
    """A rule needs what cannot be seen: not known before the deploy, secret, or in another stack.

    `owner` is the URN of the resource where it should be, `place` the path inside.
    """

    def __init__(self, owner: str, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")
        self.owner = owner
        self.place = place
        self.why = why


@dataclass(frozen=True, slots=True)
class Value:
    """A place in the inputs of the resource `owner` (a URN) and what is there; `raw` None: nothing is."""

    owner: str
    path: str = ""
    raw: object = None

    def see(self) -> object:
        """Return what is there. Raises NotVisible."""
        if isinstance(self.raw, str) and self.raw in _NOT_VISIBLE:
            raise self.not_visible("not known yet, or secret")
        return self.raw

    def not_visible(self, why: str) -> NotVisible:
        """Return the error that says that what is needed here cannot be seen."""
        return NotVisible(self.owner, self.path, why)

    @property
    def present(self) -> bool:
        """Whether anything is there, visible or not."""
        return self.raw is not None

    def get(self, *keys: str) -> Value:
        """Return the place below, key by key. Raises NotVisible where a mapping on the way is not visible."""
        value = self
        for key in keys:
            seen = value.see()
            below = seen.get(key) if isinstance(seen, Mapping) else None
            value = Value(self.owner, _join(value.path, key), below)
        return value

    def items(self) -> tuple[Value, ...]:
        """Return the places of a list; none where there is no list. Raises NotVisible."""
        seen = self.see()
        if isinstance(seen, str) or not isinstance(seen, Sequence):
            return ()
        return tuple(Value(self.owner, f"{self.path}[{index}]", item) for index, item in enumerate(seen))

    def entries(self) -> tuple[tuple[str, Value], ...]:
        """Return the keys of a mapping with their places; none where there is no mapping. Raises NotVisible."""
        seen = self.see()
        if not isinstance(seen, Mapping):
            return ()
        return tuple((str(key), Value(self.owner, _join(self.path, str(key)), seen[key])) for key in seen)

    def text(self) -> str | None:
        """Return the string that is there, if one is. Raises NotVisible."""
        seen = self.see()
        return seen if isinstance(seen, str) else None

    def whole(self) -> int | None:
        """Return the whole number that is there, as a number or as its digits. Raises NotVisible."""
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
        """Return the Kubernetes quantity that is there, as a number or as text. Raises NotVisible."""
        seen = self.see()
        if isinstance(seen, bool) or not isinstance(seen, int | float | str):
            return None
        try:
            return parse_quantity(seen)
        except ValueError:
            return None

    def truth(self) -> bool:
        """Return whether `true` is there. Raises NotVisible."""
        return self.see() is True

    def document(self) -> Value:
        """Return the data that is there as YAML text, or is there as it stands. Raises NotVisible."""
        seen = self.see()
        return Value(self.owner, self.path, _parse(seen)) if isinstance(seen, str) else self


@lru_cache(maxsize=256)
def _parse(text: str) -> object:
    """Return the data of a YAML text; None where it is not YAML. Callers only read it."""
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):  # 2026-99-99 looks like a date
        return None


def _join(path: str, key: str) -> str:
    if not _PLAIN_KEY.fullmatch(key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key
