"""Calculate the cost of the nodes, and the part of it that is not allocated to any team."""

from gpu_platform.planning.cost.cost import HOURS_PER_MONTH, check, decisions, held_shares, idle_cost, plan

__all__ = ["HOURS_PER_MONTH", "check", "decisions", "held_shares", "idle_cost", "plan"]
