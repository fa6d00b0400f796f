"""Decide the validation gate: how the node agent runs, and how long `up` waits for it."""

from gpu_platform.planning.validation.gate import check, plan

__all__ = ["check", "plan"]
