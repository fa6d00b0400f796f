"""Decide how free GPUs of a pool that grows are kept for the next pods."""

from gpu_platform.planning.headroom.headroom import PRIORITY_CLASS, check, decisions, plan

__all__ = ["PRIORITY_CLASS", "check", "decisions", "plan"]
