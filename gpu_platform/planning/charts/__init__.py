"""Decide the repository of each Helm chart, and the values that the stack file adds."""

from gpu_platform.planning.charts.charts import check, plan

__all__ = ["check", "plan"]
