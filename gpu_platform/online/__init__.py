"""Checks before an `up` whether the cloud would refuse the stack. The checks only read from the cloud.

Each cloud has a client that fetches the cloud's responses. Pure functions compare the responses with the plan.
Planning does not import this package.
"""

from gpu_platform.online.finding import Lookup, NotLookedAt, OnlineFinding, Severity
from gpu_platform.online.questions import questions
from gpu_platform.online.registry import OnlineCloud, cloud_of, credential_sources

__all__ = [
    "Lookup",
    "NotLookedAt",
    "OnlineCloud",
    "OnlineFinding",
    "Severity",
    "cloud_of",
    "credential_sources",
    "questions",
]
