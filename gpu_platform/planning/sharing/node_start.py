"""Estimates how long pods may wait for a new node of a pool, until the node offers its GPUs as declared.

Queues and autoscalers must wait at least that long, so both use the same number.
"""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.mig.progress import CHANGE_SECONDS
from gpu_platform.planning.sharing.section import SharingPlan

NODE_SECONDS: Final = 600
"""Estimated time in seconds from the moment a pod becomes pending until a new node is ready."""


def node_start_seconds(sharing: SharingPlan) -> int:
    """Return the time in seconds from the moment a pod becomes pending until a new node has the GPUs or MIG
    instances that the pool declares.
    """
    partitions = sharing.mig_roll is not None and sharing.mig_layouts
    return NODE_SECONDS + (CHANGE_SECONDS if partitions else 0)
