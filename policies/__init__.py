"""The CrossGuard policy pack: rules that stop the most common mistakes with GPUs on Kubernetes.

The rules judge from outside: they see resources, never the plan. One code runs in three places: `pulumi preview
--policy-pack policies`, `pulumi policy analyze --file`, and `analyze` here, without the Pulumi CLI.
"""

from policies._analysis import Configured, analyze, configure, examine, rules
from policies._evaluate import Judgement, Undecided, Violation
from policies._rule import Exemption, Level, Rule, Settings, Severity

__all__ = [
    "Configured",
    "Exemption",
    "Judgement",
    "Level",
    "Rule",
    "Settings",
    "Severity",
    "Undecided",
    "Violation",
    "analyze",
    "configure",
    "examine",
    "rules",
]
