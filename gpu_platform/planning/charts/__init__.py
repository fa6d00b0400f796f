"""Decide which repository each Helm chart comes from, and which values the stack file adds."""

from gpu_platform.planning.charts.charts import OPERATOR_CHART, check, controllers, plan

__all__ = ["OPERATOR_CHART", "check", "controllers", "plan"]
