"""Decide the repository of each Helm chart, and the values that the stack file adds."""

from gpu_platform.planning.charts.charts import OPERATOR_CHART, check, controllers, plan

__all__ = ["OPERATOR_CHART", "check", "controllers", "plan"]
