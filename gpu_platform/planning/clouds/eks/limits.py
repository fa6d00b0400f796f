"""Time limits of EKS, and how many nodes a roll adds."""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.clouds.section import (
    Timeouts,
)

# EKS drains node by node, 15 minutes each; the default of the provider is one hour for a whole pool.
NODE_GROUP_TIMEOUTS: Final = Timeouts(create=60 * 60, update=6 * 60 * 60, delete=2 * 60 * 60)
# Deletion waits until the nodes are drained, all of them together for at most their grace period, and terminated.
TERMINATION_SECONDS: Final = 30 * 60
KARPENTER_LONGEST_GRACE: Final = 12 * 60 * 60
"""Seconds; longest `terminationGracePeriod` that the program gives a pool."""
CLUSTER_TIMEOUTS: Final = Timeouts(create=60 * 60, update=120 * 60, delete=60 * 60)
LEAST_ZONES: Final = 2  # that EKS requires of a cluster


def surge_of(zones: int, max_unavailable: int) -> int:
    """Return how many nodes EKS may add to a node group that it rolls: up to two in each zone.

    Source: EKS user guide, "Understand each phase of node updates", read 2026-11-23.
    """
    return max(2 * zones, max_unavailable)
