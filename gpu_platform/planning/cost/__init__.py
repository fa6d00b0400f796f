"""Decide which part of the cost of the nodes is not allocated to any team, and calculate the cost."""

from gpu_platform.planning.cost.cost import HOURS_PER_MONTH, check, decisions, held_shares, idle_cost, plan

__all__ = ["HOURS_PER_MONTH", "check", "decisions", "held_shares", "idle_cost", "plan"]
