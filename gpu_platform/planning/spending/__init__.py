"""Decide how the cost is split among pools, teams and workloads, and which changes to the stack file reduce it."""

from gpu_platform.planning.spending.report import (
    PoolSpending,
    Spending,
    TeamSpending,
    WorkloadSpending,
    spending_of,
)
from gpu_platform.planning.spending.savings import Edit, Saving, apply, savings

__all__ = [
    "Edit",
    "PoolSpending",
    "Saving",
    "Spending",
    "TeamSpending",
    "WorkloadSpending",
    "apply",
    "savings",
    "spending_of",
]
