"""Decide the DCGM metrics, how they are scraped, what is recorded of them, and the alerts."""

from gpu_platform.planning.monitoring.exporter import metrics_config_map
from gpu_platform.planning.monitoring.monitoring import check, plan

__all__ = ["check", "metrics_config_map", "plan"]
