"""Timeouts of EKS operations, and the number of nodes that a rolling update adds."""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.clouds.section import (
    Timeouts,
)

# EKS drains one node after another, for 15 minutes each. The provider's default is one hour for a whole pool.
NODE_GROUP_TIMEOUTS: Final = Timeouts(create=60 * 60, update=6 * 60 * 60, delete=2 * 60 * 60)
# The deletion of a NodePool waits until its nodes are drained and terminated.
# The nodes drain at the same time, for at most their grace period.
TERMINATION_SECONDS: Final = 30 * 60
KARPENTER_LONGEST_GRACE: Final = 12 * 60 * 60
"""Longest `terminationGracePeriod` that the program gives a pool, in seconds."""
CLUSTER_TIMEOUTS: Final = Timeouts(create=60 * 60, update=120 * 60, delete=60 * 60)
LEAST_ZONES: Final = 2  # number of zones that EKS requires for a cluster


def surge_of(zones: int, max_unavailable: int) -> int:
    """Return how many nodes EKS may add to a node group during a rolling update. This is `max_unavailable`, but at
    least two nodes per zone.

    Source: EKS user guide, "Understand each phase of node updates", read 2026-11-23.
    """
    return max(2 * zones, max_unavailable)
