"""Decide which controllers of members' workloads the program installs, from which charts, with which values."""

from gpu_platform.planning.addons.addons import addon_parts, check, plan

__all__ = ["addon_parts", "check", "plan"]
