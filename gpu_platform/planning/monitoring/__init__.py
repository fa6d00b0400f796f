"""Decide the DCGM metrics, their scraping and the alerts."""

from gpu_platform.planning.monitoring.dcgm import metrics_config_map, plan

__all__ = ["metrics_config_map", "plan"]
