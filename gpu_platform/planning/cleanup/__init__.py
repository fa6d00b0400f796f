"""Decide which objects the clean-up of team namespaces looks for, when it runs, and whether it deletes objects."""

from gpu_platform.planning.cleanup.cleanup import check, plan

__all__ = ["check", "plan"]
