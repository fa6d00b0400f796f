"""Decide which repository each Helm chart comes from, and which values the stack file adds."""

from gpu_platform.planning.charts.charts import check, controllers, plan

__all__ = ["check", "controllers", "plan"]
