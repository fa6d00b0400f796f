"""Decide when each job of a trace starts, and which jobs are stopped. No command calls it yet."""

from gpu_platform.planning.rehearsal.model import Assumptions, Platform, TraceJob
from gpu_platform.planning.rehearsal.simulator import Recorded, rehearse

__all__ = ["Assumptions", "Platform", "Recorded", "TraceJob", "rehearse"]
