"""Types for the settings of Helm charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartsPlan:
    """Settings in the stack file for Helm charts. They replace the program's defaults.

    `mirror` is the repository for all charts, `repositories` contains repositories by chart, and `values` contains
    additional Helm values by chart. `memory` contains Helm values by chart that raise the memory of controllers on
    a large cluster.
    """

    mirror: str | None = None
    repositories: Mapping[str, str] = field(default_factory=dict[str, str])
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    memory: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    @property
    def is_default(self) -> bool:
        """Whether all charts keep the program's values and repositories."""
        return self.mirror is None and not self.repositories and not self.values and not self.memory

    def added(self, chart: str) -> Mapping[str, Any]:
        """Return the values to merge with the program's values of a chart. The stack file takes precedence."""
        return merged(self.memory.get(chart, {}), self.values.get(chart, {}))

    def repository_of(self, chart: str) -> str | None:
        """Return the repository that replaces a chart's default repository, or None."""
        return self.repositories.get(chart, self.mirror)


def merged(own: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the program's Helm values with the values that the stack file adds. The program's values take
    precedence, except for image repositories, resources and update strategies.

    The repository of an image comes from the stack file, because nothing in the plan depends on where an image is
    stored. Only the owner of the cluster can measure the memory that a controller needs, and knows how many nodes
    may be unavailable while a DaemonSet is updated (NVIDIA/NVSentinel#1764). Lists of named entries (`env`,
    `volumes`) are merged by name, and tolerations by key and effect.
    """
    result = {**added, **own}
    for key in own.keys() & added.keys():
        if key == _OF_AN_IMAGE:
            result[key] = added[key]
        elif isinstance(own[key], Mapping) and isinstance(added[key], Mapping):
            first, second = (added, own) if key in _OF_THE_OWNER else (own, added)
            result[key] = merged(first[key], second[key])
        elif (entries := _by_identity(own[key], added[key])) is not None:
            result[key] = list({**entries[1], **entries[0]}.values())
    return result


def ignored(own: Mapping[str, Any], added: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the paths of added values that have no effect, because the program sets other values."""
    found: list[str] = []
    for key in added:
        here = f"{path}.{key}" if path else key
        if key in (_OF_AN_IMAGE, *_OF_THE_OWNER) or key not in own or own[key] == added[key]:
            continue
        if isinstance(own[key], Mapping) and isinstance(added[key], Mapping):
            found += ignored(own[key], added[key], here)
        elif (entries := _by_identity(own[key], added[key])) is not None:
            found += [
                f"{here}[{'/'.join(map(str, identity))}]"
                for identity, entry in entries[1].items()
                if entries[0].get(identity, entry) != entry
            ]
        else:
            found.append(here)
    return found


_Entries = dict[tuple[Any, ...], Mapping[str, Any]]
_OF_AN_IMAGE = "repository"
_OF_THE_OWNER = ("resources", "updateStrategy")
_TOLERATION = frozenset({"key", "operator", "value", "effect", "tolerationSeconds"})


def _by_identity(own: object, added: object) -> tuple[_Entries, _Entries] | None:
    """Return the entries of two lists by their identifying fields, or None if the entries cannot be identified."""
    if not isinstance(own, list) or not isinstance(added, list):
        return None
    mine, other = cast("list[object]", own), cast("list[object]", added)
    every = [cast("Mapping[str, Any]", entry) for entry in (*mine, *other) if isinstance(entry, Mapping)]
    if len(every) < len(mine) + len(other):
        return None
    if all("name" in entry for entry in every):
        identities = [(entry["name"],) for entry in every]
    elif all(entry.keys() <= _TOLERATION for entry in every):
        identities = [(entry.get("key", ""), entry.get("effect", "")) for entry in every]
    else:
        return None
    entries = list(zip(identities, every, strict=True))
    return dict(entries[: len(mine)]), dict(entries[len(mine) :])
