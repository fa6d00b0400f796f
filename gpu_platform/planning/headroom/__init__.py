"""Decide how GPUs of an autoscaled pool are kept free for the next pods."""

from gpu_platform.planning.headroom.headroom import PRIORITY_CLASS, check, decisions, plan

__all__ = ["PRIORITY_CLASS", "check", "decisions", "plan"]
