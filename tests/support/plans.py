"""Parts of a plan that a test expects to exist."""

from __future__ import annotations

from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.config_maps import ConfigMapPlan


def device_plugin_config(plan: EnvironmentPlan) -> ConfigMapPlan:
    """Return the ConfigMap of the GPU Operator's device plugin."""
    config = plan.operator.device_plugin_config
    assert config is not None
    return config
