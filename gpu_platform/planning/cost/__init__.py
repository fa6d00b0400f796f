"""Decide the cost of the nodes, and which part of the cost is not allocated to any team."""

from gpu_platform.planning.cost.cost import HOURS_PER_MONTH, check, decisions, held_shares, idle_cost, plan

__all__ = ["HOURS_PER_MONTH", "check", "decisions", "held_shares", "idle_cost", "plan"]
