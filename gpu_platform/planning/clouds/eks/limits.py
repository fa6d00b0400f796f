"""Timeouts of EKS operations, and the number of nodes that a rolling update adds."""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.clouds.section import (
    Timeouts,
)

NODE_GROUP_TIMEOUTS: Final = Timeouts(create=60 * 60, update=6 * 60 * 60, delete=2 * 60 * 60)
"""Timeouts of a managed node group with few nodes."""
# EKS drains each node for at most 15 minutes, after its replacement has become ready.
_ROUND_SECONDS: Final = 30 * 60
# The deletion of a NodePool waits until its nodes are drained and terminated.
# The nodes drain at the same time, for at most their grace period.
TERMINATION_SECONDS: Final = 30 * 60
KARPENTER_LONGEST_GRACE: Final = 12 * 60 * 60
"""Longest `terminationGracePeriod` that the program gives a pool, in seconds."""
# EKS replaces the pods of most add-ons on a tenth of the nodes at a time, but the EFS driver's on one node after
# another. Source: aws/containers-roadmap#2484 and #2650 (100 nodes in more than 40 minutes), read 2026-11-30.
_ADDON_SECONDS: Final = 30
CLUSTER_TIMEOUTS: Final = Timeouts(create=60 * 60, update=120 * 60, delete=60 * 60)
SYSTEM_AT_A_TIME: Final = 1
"""Number of system nodes that EKS updates at a time. The controllers have few replicas."""
LEAST_ZONES: Final = 2  # number of zones that EKS requires for a cluster


def node_group_timeouts(nodes: int, at_a_time: int) -> Timeouts:
    """Return the timeouts of a managed node group that EKS updates `at_a_time` nodes at a time.

    The provider's default is one hour for the update of all nodes. Sources:
    terraform-aws-modules/terraform-aws-eks#1131 and #1467; read 2026-11-30.
    """
    return NODE_GROUP_TIMEOUTS.for_rounds(nodes, at_a_time, _ROUND_SECONDS)


def addon_timeouts(nodes: int) -> Timeouts:
    """Return the timeouts of an EKS add-on with a DaemonSet on `nodes` nodes.

    The provider's default is 20 minutes for an update.
    """
    return Timeouts(update=20 * 60).for_rounds(nodes, 1, _ADDON_SECONDS)


def surge_of(zones: int, max_unavailable: int) -> int:
    """Return how many nodes EKS may add to a node group during a rolling update. This is `max_unavailable`, but at
    least two nodes per zone.

    Source: EKS user guide, "Understand each phase of node updates", read 2026-11-23.
    """
    return max(2 * zones, max_unavailable)
