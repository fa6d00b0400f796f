"""Types of the plan of Helm charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartsPlan:
    """Settings of the stack file for Helm charts that differ from the program's own.

    `mirror`: repository of all charts; `repositories`: by chart; `values`: additional Helm values by chart.
    """

    mirror: str | None = None
    repositories: Mapping[str, str] = field(default_factory=dict[str, str])
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    @property
    def is_default(self) -> bool:
        """Whether all charts are as the program installs them."""
        return self.mirror is None and not self.repositories and not self.values

    def repository_of(self, chart: str) -> str | None:
        """Return the repository that replaces a chart's own."""
        return self.repositories.get(chart, self.mirror)


def merged(own: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Return Helm values with those of the chart's owner beside the program's, which win."""
    result = {**added, **own}
    for key in own.keys() & added.keys():
        if isinstance(own[key], Mapping) and isinstance(added[key], Mapping):
            result[key] = merged(own[key], added[key])
    return result


def ignored(own: Mapping[str, Any], added: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the paths of added values that have no effect, because the program sets them otherwise."""
    found: list[str] = []
    for key in added:
        here = f"{path}.{key}" if path else key
        if key in own and isinstance(own[key], Mapping) and isinstance(added[key], Mapping):
            found += ignored(own[key], added[key], here)
        elif key in own and own[key] != added[key]:
            found.append(here)
    return found
