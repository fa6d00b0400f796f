"""Effects of a planned change on what runs, from harmless to worst, and their order."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Effect(StrEnum):
    """What a change does to nodes, pods, data and access; a later member is worse than an earlier one."""

    IN_PLACE = "in-place"  # pods keep running
    RESTARTS_PODS = "restarts-pods"  # pods of a controller are replaced by new ones on the same nodes
    ROLLS_NODES = "rolls-nodes"  # nodes are drained and changed or replaced, one after another
    REMOVES_CAPACITY = "removes-capacity"  # fewer nodes, GPUs, quota, replicas or gateways than before
    CUTS_ACCESS = "cuts-access"  # a user, group or service account loses rights
    REPLACES = "replaces"  # a pool or an object is deleted and created again
    DELETES_DATA = "deletes-data"  # claims, volumes, or a namespace with what is in it

    @property
    def rank(self) -> int:
        """Position in the order of harm; 0 is harmless."""
        return list(Effect).index(self)


def worst(effects: Iterable[Effect]) -> Effect:
    """Return the worst of some effects; `in-place` of none."""
    return max(effects, key=lambda effect: effect.rank, default=Effect.IN_PLACE)
