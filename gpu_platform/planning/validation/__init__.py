"""Decide how the node agent runs for the validation gate, and how long `up` waits for it."""

from gpu_platform.planning.validation.gate import (
    check,
    check_replaced,
    decisions,
    gate_name,
    plan,
    readiness_decisions,
)

__all__ = ["check", "check_replaced", "decisions", "gate_name", "plan", "readiness_decisions"]
