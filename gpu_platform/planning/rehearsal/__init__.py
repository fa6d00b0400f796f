"""Decide when each job of a trace starts and stops on a planned stack, and the waiting times by team."""

from gpu_platform.planning.rehearsal.model import Assumptions, Platform, TraceJob
from gpu_platform.planning.rehearsal.report import PoolReport, Report, TeamReport, Waits, report
from gpu_platform.planning.rehearsal.simulator import Recorded, rehearse
from gpu_platform.planning.rehearsal.stack import RehearsalStack, stack_of
from gpu_platform.planning.rehearsal.trace import ALL_OTHERS, Trace, TraceEntry, fit

__all__ = [
    "ALL_OTHERS",
    "Assumptions",
    "Platform",
    "PoolReport",
    "Recorded",
    "RehearsalStack",
    "Report",
    "TeamReport",
    "Trace",
    "TraceEntry",
    "TraceJob",
    "Waits",
    "fit",
    "rehearse",
    "report",
    "stack_of",
]
