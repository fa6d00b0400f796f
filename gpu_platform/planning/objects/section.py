"""Types for the settings that all Kubernetes objects share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsPlan:
    """A company's labels and annotations for all objects, and how nodes pull the images of the program's pods.

    `pull_secrets` are the Secrets of pods outside `team_namespaces`. Workloads in team namespaces name their own
    Secrets.
    """

    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    pull_secrets: tuple[str, ...] = ()
    team_namespaces: tuple[str, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether the stack file adds nothing to the objects."""
        return not self.labels and not self.annotations and not self.pull_secrets
