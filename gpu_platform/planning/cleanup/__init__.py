"""Decide what the clean-up of teams' namespaces looks for, when, and whether it deletes."""

from gpu_platform.planning.cleanup.cleanup import check, plan

__all__ = ["check", "plan"]
