"""Decide which controllers for team members' workloads the program installs, with their charts and values."""

from gpu_platform.planning.addons.addons import addon_parts, check, plan

__all__ = ["addon_parts", "check", "plan"]
