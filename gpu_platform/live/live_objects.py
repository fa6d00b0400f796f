"""Reads the nodes, pods and disruption budgets of a cluster once, so that all parts of a change report use the
same objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_platform.base.errors import UnknownOutcome
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.disruption import read_budgets
from gpu_platform.planning.changes.budgets import DisruptionBudget


@dataclass(frozen=True, slots=True)
class LiveObjects:
    """Nodes, scheduled pods and disruption budgets of a cluster at one point in time."""

    nodes: Sequence[Mapping[str, Any]]
    pods: Sequence[Mapping[str, Any]]
    budgets: Sequence[DisruptionBudget]


def read_objects(client: KubernetesClient) -> LiveObjects:
    """Return the objects of a cluster. Raises UnknownOutcome and Refused."""
    return LiveObjects(
        nodes=list(client.objects("v1", "Node")),
        pods=list(client.objects("v1", "Pod", field_selector="spec.nodeName!=")),
        budgets=read_budgets(client),
    )


class ObjectsOnce:
    """Reads the objects of a cluster once, at the first use. A failure is also cached, so the objects are not read
    again.
    """

    def __init__(self, cluster: ClusterAccess) -> None:
        self.cluster = cluster
        self._found: LiveObjects | UnknownOutcome | Refused | None = None

    def read(self) -> LiveObjects:
        """Return the objects. If they could not be read, each call raises the same UnknownOutcome or Refused."""
        if self._found is None:
            try:
                self._found = read_objects(self.cluster.client())
            except (UnknownOutcome, Refused) as error:
                self._found = error
        if isinstance(self._found, LiveObjects):
            return self._found
        raise self._found
