"""Typed access to the values of a manifest. Each wrong value is reported with its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from gpu_platform.api.documents import found_text
from gpu_platform.base.errors import Problem
from gpu_platform.base.quantity import amount_of


class ManifestMapping:
    """A mapping in a manifest, with its path and the list of all problems in the file."""

    def __init__(self, value: object, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        if value is not None and not isinstance(value, Mapping):
            self.problem("", found_text(value), "a mapping")
        self.value: Mapping[str, Any] = (
            {str(key): one for key, one in cast("Mapping[object, Any]", value).items()}
            if isinstance(value, Mapping)
            else {}
        )

    def problem(self, key: str, found: str, allowed: str, fix: str = "") -> None:
        """Report a problem with a field, or with the mapping itself if the key is empty."""
        self.problems.append(Problem(self._path(key), found, allowed, fix))

    def at(self, *keys: str) -> ManifestMapping:
        """Return the mapping at a path, or an empty mapping if there is none."""
        here = self
        for key in keys:
            here = ManifestMapping(here.value.get(key), here._path(key), self.problems)
        return here

    def items(self, key: str) -> Iterator[ManifestMapping]:
        """Yield the mappings of a list, or nothing if there is no list."""
        found = self.value.get(key)
        if found is None:
            return
        if not isinstance(found, list):
            self.problem(key, found_text(found), "a list")
            return
        for index, one in enumerate(cast("list[object]", found)):
            yield ManifestMapping(one, f"{self._path(key)}[{index}]", self.problems)

    def text(self, key: str) -> str:
        """Return a string, or an empty string if there is none."""
        found = self.value.get(key)
        if found is None or isinstance(found, str):
            return found or ""
        self.problem(key, found_text(found), "a text", "put it in quotes")
        return ""

    def texts(self, *keys: str) -> dict[str, str]:
        """Return the mapping of strings at a path."""
        place = self.at(*keys)
        return {key: place.text(key) for key in place.value}

    def number(self, key: str, default: int) -> int:
        """Return a whole number of at least 0, or the default if there is none."""
        found = self.value.get(key)
        if found is None:
            return default
        if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
            return found
        self.problem(key, found_text(found), "a whole number of 0 or more")
        return default

    def amounts(self, key: str) -> dict[str, int]:
        """Return the quantities in a mapping, by resource."""
        found: dict[str, int] = {}
        place = self.at(key)
        for name, quantity in place.value.items():
            try:
                amount = amount_of(name, cast("str", quantity))
            except ValueError:
                amount = -1
            if amount < 0:
                place.problem(
                    name, found_text(quantity), "a Kubernetes quantity of 0 or more, such as 2, 500m or 64Gi"
                )
            else:
                found[name] = amount
        return found

    def _path(self, key: str) -> str:
        return f"{self.path}.{key}" if key and self.path else key or self.path
