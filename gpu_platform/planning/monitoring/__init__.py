"""Decide the DCGM metrics, how they are scraped, the recording rules and the alerts."""

from gpu_platform.planning.monitoring.alerts import BUDGET_ALERT
from gpu_platform.planning.monitoring.exporter import metrics_config_map
from gpu_platform.planning.monitoring.monitoring import check, plan

__all__ = ["BUDGET_ALERT", "check", "metrics_config_map", "plan"]
