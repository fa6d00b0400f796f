"""Types of the plan of what all Kubernetes objects have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsPlan:
    """Labels and annotations of the company on all objects, and how nodes pull the images of the program's pods.

    `pull_secrets`: Secrets of pods outside `team_namespaces`, where workloads name their own.
    """

    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    pull_secrets: tuple[str, ...] = ()
    team_namespaces: tuple[str, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether all objects are as their components declare them."""
        return not self.labels and not self.annotations and not self.pull_secrets
