"""Simulates when the jobs of a trace start and stop on a planned stack, and how long each team waits."""

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
