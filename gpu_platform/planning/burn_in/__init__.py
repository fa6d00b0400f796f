"""Decide which active checks run on the nodes of each pool, which pods run them, and which bandwidth a healthy
node must reach.
"""

from gpu_platform.planning.burn_in.burn_in import PRIORITY_CLASS, check, plan

__all__ = ["PRIORITY_CLASS", "check", "plan"]
