"""Warns about held queues, because their workloads wait until somebody releases the queue."""

from __future__ import annotations

import sys

from gpu_platform.base.errors import UnknownOutcome
from gpu_platform.live.client import Refused
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.held_queues import held_queues
from gpu_platform.planning import Plan
from gpu_platform.planning.queues import team_queues


def warn_of_held_queues(plan: Plan, cluster: ClusterAccess) -> None:
    """Print a warning to standard error for each queue of the stack that is held."""
    queues = team_queues(plan.queues)
    if not queues:
        return
    try:
        for queue in held_queues(cluster.client(), queues):
            print(f"warning: {queue}", file=sys.stderr)
    except (UnknownOutcome, Refused) as reason:
        print(f"could not check whether queues are held: {reason}", file=sys.stderr)
