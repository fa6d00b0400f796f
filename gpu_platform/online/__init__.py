"""Checks with read-only calls whether the cloud would refuse an `up`.

Comparisons are pure functions of the plan and the cloud's responses. Each cloud has a client that fetches these
responses. Planning does not import this package.
"""

from gpu_platform.online.finding import Lookup, NotLookedAt, OnlineFinding, Severity
from gpu_platform.online.questions import questions
from gpu_platform.online.registry import OnlineCloud, cloud_of

__all__ = ["Lookup", "NotLookedAt", "OnlineCloud", "OnlineFinding", "Severity", "cloud_of", "questions"]
