"""Decide from which repository each Helm chart comes, and which values its owner adds."""

from gpu_platform.planning.charts.charts import check, plan

__all__ = ["check", "plan"]
