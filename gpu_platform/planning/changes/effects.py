"""Effects of a planned change on nodes, pods, data and access, ordered from harmless to worst."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Effect(StrEnum):
    """Effect of a change on nodes, pods, data and access. A later member is worse than an earlier member."""

    IN_PLACE = "in-place"  # pods keep running
    RESTARTS_PODS = "restarts-pods"  # new pods replace the pods of a controller on the same nodes
    ROLLS_NODES = "rolls-nodes"  # nodes are drained and changed or replaced, one after another
    REMOVES_CAPACITY = "removes-capacity"  # fewer nodes, GPUs, quota, replicas or gateways than before
    CUTS_ACCESS = "cuts-access"  # a user, group or service account loses rights
    REPLACES = "replaces"  # a pool or an object is deleted and created again
    DELETES_DATA = "deletes-data"  # claims, volumes, or a namespace with its contents are deleted

    @property
    def rank(self) -> int:
        """Position in the order of harm. A harmless effect has position 0."""
        return list(Effect).index(self)


def worst(effects: Iterable[Effect]) -> Effect:
    """Return the worst of the given effects, or `in-place` if there are none."""
    return max(effects, key=lambda effect: effect.rank, default=Effect.IN_PLACE)
