"""Decide the configuration of the policy pack."""

from gpu_platform.planning.policy.pack import plan

__all__ = ["plan"]
