"""The CrossGuard policy pack: rules that stop the most common mistakes with GPUs on Kubernetes.

The rules see resources, never the plan, and import nothing of gpu_platform.planning. The same code runs in three
places: `pulumi preview --policy-pack policies`, `pulumi policy analyze --file`, and `evaluate` here, without the
Pulumi CLI.
"""

from policies._analysis import Configured, analyze, configure, evaluate, rules
from policies._evaluate import NotChecked, PolicyReport, Violation
from policies._own import OWN_ID
from policies._own import own_rules as own_rules_of
from policies._rule import Exemption, Level, Rule, Settings, Severity

__all__ = [
    "OWN_ID",
    "Configured",
    "Exemption",
    "Level",
    "NotChecked",
    "PolicyReport",
    "Rule",
    "Settings",
    "Severity",
    "Violation",
    "analyze",
    "configure",
    "evaluate",
    "own_rules_of",
    "rules",
]
