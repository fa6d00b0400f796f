"""Decide when each job of a trace starts and stops on a planned stack, and the waiting times by team."""

from extensions.capacity.rehearsal.model import Assumptions, Platform, TraceJob
from extensions.capacity.rehearsal.report import PoolReport, Report, TeamReport, Waits, report
from extensions.capacity.rehearsal.simulator import Recorded, rehearse
from extensions.capacity.rehearsal.stack import RehearsalStack, stack_of
from extensions.capacity.rehearsal.trace import ALL_OTHERS, Trace, TraceEntry, fit

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
