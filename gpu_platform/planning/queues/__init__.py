"""Decide the configuration of Kueue: its resource flavors, the team quotas, and how much quota teams may borrow
and lend.
"""

from gpu_platform.planning.queues.kueue import queue_parts
from gpu_platform.planning.queues.queues import check, check_one, plan, plan_one, queue_of, team_queues

__all__ = ["check", "check_one", "plan", "plan_one", "queue_of", "queue_parts", "team_queues"]
