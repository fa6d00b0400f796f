"""Registers only the priority classes and a time-slicing config."""

from components.config_map import GpuSharing
from components.priority_classes import PriorityClasses
from gpu_platform.planning.config_maps import as_yaml, hashed_config_map
from gpu_platform.planning.teams.section import PriorityClassPlan

PriorityClasses("priorities", [PriorityClassPlan(name="training", value=100, description="jobs")])
GpuSharing("sharing", hashed_config_map("device-plugin", "gpu-operator", {"serve": as_yaml({"version": "v1"})}))
